//! Tasks that run: statuses, outputs, money.

use std::time::Duration;

use inferstore::{Client, Error, File, Inputs};
use inferstore_service::Config;
use reqwest::redirect::Policy;
use serde_json::{Value, json};

use super::{audited, start};
use crate::client::Quickly;
use crate::support::caller::Caller;
use crate::support::deployment::Deployment;
use crate::support::picture::red_and_blue;

async fn running() -> (Deployment, Caller, Client) {
    let mut config = Config::ephemeral();
    config.excluded_models.insert("face-mesh".to_owned());
    let service = Deployment::start(config).await;
    let caller = service.caller();
    let client = client(service.base_url(), service.api_key());
    (service, caller, client)
}

pub(super) fn client(base_url: &str, key: Option<&str>) -> Client {
    let key = key.expect("a fresh service tells its key");
    Client::new(base_url, key).expect("the address is one of this machine")
}

pub(super) async fn uploaded(client: &Client, name: &str, content: Vec<u8>) -> String {
    let file = File::bytes(name.to_owned(), content);
    client.folder("samples").upload(file).await.expect("the upload is accepted").download_url
}

pub(super) async fn ended(caller: &Caller, id: &str) -> Value {
    let mut stage = 0;
    let reading = async {
        loop {
            let answer = caller.get(&format!("/api-key/task/{id}/detail")).await;
            let task = answer.data().clone();
            let now = match task["status"].as_str() {
                Some("in_queue") => 0,
                Some("computing") => 1,
                _ => return task,
            };
            assert!(stage <= now, "the task went back: {task}");
            stage = now;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), reading).await.expect("the task ends")
}

pub(super) async fn created(caller: &Caller, model: &str, input: Value) -> String {
    let answer = caller.post(&format!("/api-key/model/{model}/task"), &input).await;
    answer.data()["data"].as_str().expect("a create answers with an identifier").to_owned()
}

async fn balance(caller: &Caller) -> (String, String) {
    let answer = caller.get("/api-key/balance").await;
    let text = |name: &str| answer.data()[name].as_str().expect("amounts are strings").to_owned();
    (text("balance"), text("free_balance"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_to_its_output_and_costs_its_price_out_of_the_free_credits() {
    let (service, caller, client) = running().await;
    let before = balance(&caller).await;
    let url = uploaded(&client, "two.bmp", red_and_blue()).await;
    let id = created(&caller, "color-extraction", json!({"input": url})).await;
    let task = ended(&caller, &id).await;
    assert_eq!(task["status"], "success", "{task}");
    let colors = task["result"]["result"]["output"].as_str().expect("the colors are a text");
    assert!(colors.contains("#ff0000") && colors.contains("#0000ff"), "{colors}");
    assert_eq!(task["result"]["error"], Value::Null);
    assert_eq!(task["cost"].to_string(), "0.05");
    assert_eq!((before.1.as_str(), balance(&caller).await), ("5", (before.0, "4.95".to_owned())));
    audited(&service).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_among_the_outputs_is_reachable_at_its_url() {
    let (_service, caller, client) = running().await;
    let url = uploaded(&client, "two.bmp", red_and_blue()).await;
    let id = created(&caller, "haze-removal", json!({"input_image": url})).await;
    let task = ended(&caller, &id).await;
    let output = task["result"]["result"]["output_image"].as_str().expect("the output is a URL");
    let answer = reqwest_get(output).await;
    assert_eq!(answer.0, "image/png");
    assert!(answer.1.starts_with(b"\x89PNG"), "the output is no PNG");
}

pub(super) async fn reqwest_get(url: &str) -> (String, Vec<u8>) {
    // Object storage may redirect to the content.
    let http = inferstore_api::http_client_builder().no_proxy().redirect(Policy::limited(1));
    let http = http.build().expect("a client can be made");
    let answer = http.get(url).send().await.expect("the object store answers");
    assert!(answer.status().is_success(), "{}", answer.status());
    let kind = answer.headers()["content-type"].to_str().expect("a content type is text").to_owned();
    (kind, answer.bytes().await.expect("the output arrives whole").to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_cannot_succeed_fails_with_a_reason_and_costs_nothing() {
    let (service, caller, client) = running().await;
    let before = balance(&caller).await;
    let storage = service.storage_url();
    let no_picture = uploaded(&client, "text.txt", b"no picture at all".to_vec()).await;
    for (url, word) in [
        (no_picture, "picture"),
        (format!("{storage}/nowhere/nothing.png"), "no file"),
        ("http://127.0.0.1:1/x.png".to_owned(), "public internet"),
        (service.base_url().to_owned(), "public internet"),
        ("http://[::ffff:10.0.0.1]/x.png".to_owned(), "public internet"),
    ] {
        let id = created(&caller, "color-extraction", json!({"input": url})).await;
        let task = ended(&caller, &id).await;
        assert_eq!(task["status"], "failed", "{task}");
        let message = task["message"].as_str().expect("a failed task has a message");
        assert!(message.contains("input") && message.contains(word), "{message}");
        assert_eq!(task["result"]["error"]["message"], task["message"]);
        assert_eq!(task["result"]["result"], Value::Null);
    }
    assert_eq!(balance(&caller).await, before);
    audited(&service).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_goes_from_a_file_to_an_output_in_one_call() {
    let (_service, _caller, client) = running().await;
    let inputs = Inputs::new().file("input", File::bytes("two.bmp", red_and_blue()));
    let outcome = client.model("color-extraction").run(inputs).quickly().await.expect("the run succeeds");
    assert!(outcome.output["output"].as_str().is_some_and(|colors| colors.contains("#ff0000")));
    assert_eq!(outcome.cost.map(|cost| cost.to_string()), Some("0.05".to_owned()));

    let inputs =
        Inputs::new().file("input", File::bytes("no.png", b"no picture".to_vec()).with_mime("image/png"));
    let failed =
        client.model("color-extraction").run(inputs).quickly().await.expect_err("there is no picture");
    assert!(matches!(failed, Error::TaskFailed(_)), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_video_is_sent_and_fails_its_task_with_a_reason() {
    let (service, _caller, client) = running().await;
    let movie = File::bytes("square.mp4", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom".to_vec());
    let failed = client.model("video-edge-map").run(Inputs::new().file("input", movie)).quickly().await;
    let failed = failed.expect_err("no video decoder is built in").to_string();
    assert!(failed.contains("`input`") && failed.contains("MP4") && failed.contains("GIF"), "{failed}");
    audited(&service).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_serves_a_model_is_reported_and_the_rest_waits_in_the_queue() {
    let (_service, caller, _client) = running().await;
    let served = caller.get("/api-key/model/color-extraction/serving").await;
    assert_eq!(served.data(), &json!({"serving": true, "consumers": 0}));
    let id = created(&caller, "face-mesh", json!({"input": "https://files.example/face.png"})).await;
    let waiting = caller.get("/api-key/model/face-mesh/serving").await;
    assert_eq!(waiting.data(), &json!({"serving": false, "consumers": 1}));
    let task = caller.get(&format!("/api-key/task/{id}/detail")).await;
    assert_eq!(task.data()["status"], "in_queue");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_node_nothing_is_served() {
    let (_service, caller) = start().await;
    let served = caller.get("/api-key/model/color-extraction/serving").await;
    assert_eq!(served.data()["serving"], false);
}
