//! Bench: a service without local workers, its customers, and nodes; a test controls each of their requests.

use std::ops::Deref;
use std::time::Duration;

use inferstore_service::{Config, ModelSpec, Scope, Service};
use inferstore_wire::until;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

pub(crate) use crate::caller::{Caller, TestResult};

/// Long enough that no lease expires by accident, short enough to wait for the expiry.
pub(crate) const LEASE: Duration = Duration::from_millis(400);
pub(crate) const PUBLISHER: &str = "ada";
pub(crate) const PRICE: &str = "0.25";

pub(crate) struct Bench {
    pub(crate) service: Service,
    pub(crate) node_key: String,
    caller: Caller,
    pub(crate) publisher: Caller,
}

impl Deref for Bench {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

pub(crate) struct Node<'a> {
    bench: &'a Bench,
    pub(crate) url: String,
}

#[derive(Debug)]
pub(crate) struct Leased {
    pub(crate) url: String,
    pub(crate) task: String,
    pub(crate) data: Value,
}

impl Bench {
    pub(crate) async fn start() -> TestResult<Self> {
        let mut config = Config::ephemeral();
        config.nodes = Some(([127, 0, 0, 1], 0).into());
        config.workers = 0;
        config.lease = LEASE;
        Self::around(Service::start(config).await?).await
    }

    pub(crate) async fn around(service: Service) -> TestResult<Self> {
        let caller = Caller::first(&service)?;
        service.add_account(PUBLISHER, Scope::Personal).await?;
        let publisher = caller.with_key(&service.add_key(PUBLISHER).await?);
        let node_key = service.add_node_key("bench").await?;
        Ok(Self { service, node_key, caller, publisher })
    }

    pub(crate) async fn restart(self, next: impl Future<Output = TestResult<Service>>) -> TestResult<Self> {
        let Self { service, node_key, caller, publisher } = self;
        service.shutdown().await;
        let service = next.await?;
        let caller = Caller::new(&service, &caller.key)?;
        let publisher = caller.with_key(&publisher.key);
        Ok(Self { service, node_key, caller, publisher })
    }

    pub(crate) async fn publish(&self, id: &str) -> TestResult {
        self.service.publish_model(PUBLISHER, echo(id)?).await?;
        Ok(())
    }

    pub(crate) async fn ended(&self, task: &str) -> TestResult<Value> {
        let has_ended = |task: Value| !matches!(task["status"].as_str(), Some("in_queue" | "computing"));
        until("the task ends", || async { self.task(task).await.is_ok_and(has_ended) }).await;
        self.task(task).await
    }

    pub(crate) async fn message_of(&self, task: &str) -> TestResult<String> {
        let response = self.must(Method::GET, &format!("/api-key/task/{task}/detail"), None).await?;
        Ok(response["message"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn nodes_url(&self) -> TestResult<String> {
        Ok(format!("{}/nodes/v1", self.service.nodes_url().ok_or("there is no listener for nodes")?))
    }

    pub(crate) async fn call_nodes(&self, url: &str, key: &str, body: &Value) -> TestResult<(u16, Value)> {
        let request = self.http.post(url).header("x-node-key", key);
        let request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        let response = request.send().await?;
        Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
    }

    pub(crate) async fn register(&self, models: &[&str]) -> TestResult<Node<'_>> {
        let url = self.nodes_url()?;
        let (status, response) =
            self.call_nodes(&format!("{url}/register"), &self.node_key, &json!({ "models": models })).await?;
        let node = response["data"]["node"].as_str().filter(|_| status == 200);
        let node = node.ok_or_else(|| format!("register: {status} {response}"))?;
        Ok(Node { url: format!("{url}/{node}"), bench: self })
    }
}

impl Node<'_> {
    pub(crate) async fn call(&self, path: &str, body: &Value) -> TestResult<(u16, Value)> {
        self.bench.call_nodes(&format!("{}{path}", self.url), &self.bench.node_key, body).await
    }

    pub(crate) async fn lease(&self, wait_seconds: f64) -> TestResult<Option<Leased>> {
        let (status, mut response) = self.call("/lease", &json!({ "wait_seconds": wait_seconds })).await?;
        if status != 200 {
            return Err(format!("lease: {status} {response}").into());
        }
        let data = response["data"].take();
        let Some(task) = data["task"].as_str().map(str::to_owned) else { return Ok(None) };
        Ok(Some(Leased { url: format!("{}/tasks/{task}/{}", self.url, data["attempt"]), task, data }))
    }

    pub(crate) async fn of_lease(
        &self,
        lease: &Leased,
        path: &str,
        body: &Value,
    ) -> TestResult<(u16, Value)> {
        self.bench.call_nodes(&format!("{}{path}", lease.url), &self.bench.node_key, body).await
    }

    pub(crate) async fn put(
        &self,
        lease: &Leased,
        file: &str,
        mime: &str,
        bytes: &[u8],
    ) -> TestResult<(u16, Value)> {
        let request = self.bench.http.put(format!("{}/files/{file}", lease.url));
        let request = request.header("x-node-key", &self.bench.node_key).header(CONTENT_TYPE, mime);
        let response = request.body(bytes.to_vec()).send().await?;
        Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
    }

    pub(crate) async fn finish(&self, lease: &Leased, said: &str) -> TestResult<u16> {
        let (status, response) = self.put(lease, "picture.png", "image/png", said.as_bytes()).await?;
        if status != 200 {
            return Ok(status);
        }
        let output = json!({ "output": { "picture": response["data"]["url"], "said": said } });
        Ok(self.of_lease(lease, "/finish", &output).await?.0)
    }
}

pub(crate) fn echo(id: &str) -> TestResult<ModelSpec> {
    let spec = json!({
        "id": id, "name": "echo", "description": "Says it again.", "price": PRICE, "visibility": "public",
        "input_format": { "say": { "type": "string", "required": true, "position": 0 } },
        "output_format": {
            "said": { "type": "string", "position": 0 },
            "picture": { "type": "file", "mime_type": ["image/png"], "position": 1 }
        }
    });
    Ok(ModelSpec::from_json(&spec.to_string())?)
}

pub(crate) async fn post_and_hang_up(bench: &Bench, url: &str, body: &str, is_whole: bool) -> TestResult {
    use tokio::io::AsyncWriteExt;
    let url = reqwest::Url::parse(url)?;
    let host = format!("{}:{}", url.host_str().unwrap_or_default(), url.port().unwrap_or_default());
    let mut stream = tokio::net::TcpStream::connect(&host).await?;
    let (key, path, length) = (&bench.node_key, url.path(), body.len());
    let head = format!(
        "{} {path} HTTP/1.1\r\nhost: {host}\r\nx-node-key: {key}\r\ncontent-type: {}\r\n\
         content-length: {length}\r\n\r\n",
        if path.contains("/files/") { Method::PUT } else { Method::POST },
        if path.contains("/files/") { "image/png" } else { "application/json" },
    );
    let sent = if is_whole { body.len() } else { body.len() / 2 };
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body.as_bytes()[..sent]).await?;
    stream.flush().await?;
    if is_whole {
        // Long enough for the request to arrive, too short for a certain response.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}
