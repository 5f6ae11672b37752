//! Tests of the node API of a running service.

use inferstore_wire::until;
use serde_json::{Value, json};

use crate::nodes::OUTPUTS;
use crate::nodes::tests::{account, queue_for};
use crate::queue::Status;
use crate::registry::NODE_SILENCE;
use crate::{Config, Error, Service};

const MODEL: &str = "background-removal";

struct Bench {
    service: Service,
    client: reqwest::Client,
    key: String,
    node: String,
}

impl Bench {
    async fn start() -> Result<Self, Error> {
        Self::start_with(0).await
    }

    async fn start_with(workers: usize) -> Result<Self, Error> {
        let mut config = Config::ephemeral();
        config.nodes = Some(([127, 0, 0, 1], 0).into());
        config.workers = workers;
        let service = Service::start(config).await?;
        let key = service.add_node_key("lab").await?;
        let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build();
        let client = client.map_err(|cause| Error::new("building a client", cause))?;
        let mut bench = Self { service, client, key, node: String::new() };
        let (_, registered) = bench.post("register", json!({ "models": [MODEL] })).await?;
        registered["node"].as_str().unwrap_or_default().clone_into(&mut bench.node);
        Ok(bench)
    }

    async fn post(&self, path: &str, body: Value) -> Result<(u16, Value), Error> {
        let url = format!("{}/nodes/v1/{path}", self.service.nodes_url().unwrap_or_default());
        self.send(self.client.post(url), "application/json", body.to_string()).await
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        mime: &str,
        body: String,
    ) -> Result<(u16, Value), Error> {
        let failed = |cause: reqwest::Error| Error::new("calling the node API", cause);
        let request = request.header("x-node-key", &self.key).header("content-type", mime).body(body);
        let response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let text = response.text().await.map_err(failed)?;
        let mut body: Value =
            serde_json::from_str(&text).map_err(|cause| Error::new("reading a response", cause))?;
        Ok((status, body["data"].take()))
    }

    async fn lease_and_put(&self) -> Result<(String, Value), Error> {
        let lease = format!("{}/lease", self.node);
        let (_, lease) = self.post(&lease, json!({ "wait_seconds": 20 })).await?;
        let task = format!("{}/tasks/{}/1", self.node, lease["task"].as_str().unwrap_or_default());
        let url = self.service.nodes_url().unwrap_or_default();
        let put = self.client.put(format!("{url}/nodes/v1/{task}/files/output.png"));
        let (_, put) = self.send(put, "image/png", "picture".to_owned()).await?;
        Ok((format!("{task}/finish"), put["url"].clone()))
    }
}

#[tokio::test]
async fn a_result_names_files_that_were_put_for_its_own_lease() -> Result<(), Error> {
    let bench = Bench::start().await?;
    let customer = account(&bench.service, "customer").await?;
    for _ in 0..2 {
        queue_for(&bench.service, MODEL, customer, json!({})).await?;
    }
    bench.service.dispatcher.look_for_all();
    let (finish, own) = bench.lease_and_put().await?;
    let (_, of_another) = bench.lease_and_put().await?;
    let lease = finish.split('/').skip(2).take(2).collect::<Vec<_>>().join("/");
    let made_up = |file| json!(bench.service.objects.locations.url(OUTPUTS, &format!("{lease}/{file}")));
    assert_eq!(made_up("output.png"), own);
    for url in
        [of_another, made_up("output.webp"), made_up("other.png"), json!("https://example.com/output.png")]
    {
        let (status, _) = bench.post(&finish, json!({ "output": { "output": url } })).await?;
        assert_eq!(status, 422, "{url}");
    }
    for _ in 0..2 {
        let (status, _) = bench.post(&finish, json!({ "output": { "output": own } })).await?;
        assert_eq!(status, 200);
    }
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_node_that_leaves_while_it_waits_for_a_task_is_told_to_register_again() -> Result<(), Error> {
    let bench = Bench::start().await?;
    let (lease, goodbye) = (format!("{}/lease", bench.node), format!("{}/goodbye", bench.node));
    let leave = async {
        until("the node waits", || async { bench.service.dispatcher.idle_slots() > 0 }).await;
        bench.post(&goodbye, json!({})).await
    };
    let (leased, left) = tokio::try_join!(bench.post(&lease, json!({ "wait_seconds": 20 })), leave)?;
    assert_eq!((leased.0, left.0), (404, 200));
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_node_shows_its_whole_key_and_names_as_many_models_as_it_may() -> Result<(), Error> {
    let mut bench = Bench::start().await?;
    let key = bench.key.clone();
    let mut other = key.clone();
    let last = other.pop();
    other.push(if last == Some('a') { 'b' } else { 'a' });
    for (key, models, status) in
        [(&key, 0, 422), (&key, 1, 200), (&key, 1_000, 200), (&key, 1_001, 422), (&other, 1, 401)]
    {
        bench.key.clone_from(key);
        let names: Vec<_> = (0..models).map(|number| number.to_string()).collect();
        let registered = bench.post("register", json!({ "models": names })).await?;
        assert_eq!(registered.0, status, "{models} models");
    }
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_request_of_a_node_is_noted_at_most_three_times_within_a_lease() -> Result<(), Error> {
    let bench = Bench::start().await?;
    let service = &bench.service;
    let seen_at = async || {
        Ok::<_, Error>(service.database.known_node(&bench.node, "lab").await?.map(|node| node.seen_at))
    };
    let lease = async || bench.post(&format!("{}/lease", bench.node), json!({ "wait_seconds": 0 })).await;
    lease().await?;
    let begin = seen_at().await?;
    assert!(begin.is_some());
    for is_noted in [false, true] {
        let (status, _) = lease().await?;
        assert_eq!(status, 200);
        assert_eq!(seen_at().await? > begin, is_noted);
        service.clock.advance(service.nodes.lease / 2);
    }
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_node_serves_the_models_of_its_slots_and_built_ins_run_the_others() -> Result<(), Error> {
    const NOT_READY: &str = "color-extraction";
    let bench = Bench::start_with(1).await?;
    let service = &bench.service;
    let (_, registered) = bench.post("register", json!({ "models": [MODEL, NOT_READY, "waits"] })).await?;
    let node = registered["node"].as_str().unwrap_or_default();
    let lease = async || {
        let body = json!({ "wait_seconds": 0, "models": [MODEL, "waits"] });
        bench.post(&format!("{node}/lease"), body).await
    };
    service.clock.advance(service.nodes.lease * 2);
    lease().await?;
    let outside = async || {
        service.database.models_of_outside_nodes(service.clock.now().before(service.nodes.lease)).await
    };
    assert_eq!(outside().await?, [MODEL, "waits"]);

    let customer = account(&bench.service, "customer").await?;
    let served = queue_for(&bench.service, MODEL, customer, json!({ "input": 1 })).await?;
    let other = queue_for(&bench.service, NOT_READY, customer, json!({ "input": 1 })).await?;
    service.dispatcher.look_for_all();
    let is_run = async |task: &str| {
        let task = service.database.task(customer, task).await?;
        Ok::<_, Error>(task.is_some_and(|task| task.status == Status::Failed))
    };
    until("the built-in method runs it", async || is_run(&other).await.is_ok_and(|is_run| is_run)).await;
    assert!(!is_run(&served).await?);
    let (_, leased) = lease().await?;
    assert_eq!(leased["task"], served.as_str());

    service.clock.advance(service.nodes.lease * 2);
    assert_eq!(outside().await?, [""; 0]);
    let heartbeat = format!("{node}/tasks/{served}/1/heartbeat");
    assert_eq!(bench.post(&heartbeat, json!({})).await?.0, 200);
    assert_eq!(outside().await?, [MODEL, "waits"]);
    let now = service.clock.now().before(service.nodes.lease);
    assert!(service.database.serving("waits", now).await?.serving);
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn the_nodes_of_a_key_have_so_many_models_and_silent_ones_make_room() -> Result<(), Error> {
    let bench = Bench::start().await?;
    let names: Vec<_> = (0..1_000).map(|number| number.to_string()).collect();
    let register = async || {
        let (status, _) = bench.post("register", json!({ "models": names })).await?;
        Ok::<_, Error>(status)
    };
    for _ in 0..9 {
        assert_eq!(register().await?, 200);
    }
    assert_eq!(register().await?, 429);
    bench.service.clock.advance(NODE_SILENCE * 2);
    assert_eq!(register().await?, 200);
    let long = json!({ "models": ["x".repeat(129)] });
    assert_eq!(bench.post("register", long).await?.0, 422);
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_result_with_an_output_that_is_given_twice_is_refused() -> Result<(), Error> {
    let bench = Bench::start().await?;
    let customer = account(&bench.service, "customer").await?;
    queue_for(&bench.service, MODEL, customer, json!({})).await?;
    bench.service.dispatcher.look_for_all();
    let (finish, url) = bench.lease_and_put().await?;
    let nodes = bench.service.nodes_url().unwrap_or_default();
    let request = bench.client.post(format!("{nodes}/nodes/v1/{finish}"));
    let twice = format!(r#"{{"output":{{"output":"a","output":{url}}}}}"#);
    assert_eq!(bench.send(request, "application/json", twice).await?.0, 422);
    bench.service.shutdown().await;
    Ok(())
}

#[test]
fn the_page_of_the_protocol_states_its_limits() {
    let page = include_str!("../../../../../docs/node-protocol.md");
    for limit in [
        format!("A name has at most {} bytes.", super::MAX_NAME),
        format!("at most {},000 models", crate::registry::MAX_KEY_MODELS / 1_000),
        format!("waits up to {} s for a task", super::lease::MAX_WAIT.as_secs()),
        format!("More than {},400 counts as", super::lease::MAX_RUN.as_secs() / 1_000),
        format!("of which {},000 characters are kept", super::finish::MAX_MESSAGE / 1_000),
        format!("above {} KiB, or nested", super::finish::MAX_DETAIL >> 10),
        format!("deeper than {} levels", super::finish::MAX_DETAIL_DEPTH),
    ] {
        assert!(page.contains(&limit), "the page does not say: {limit}");
    }
}
