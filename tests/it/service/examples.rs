//! Example responses of the document, compared with the service's responses in the same situation.

use std::time::Duration;

use inferstore_document::{members, operations};
use inferstore_service::{Config, Scope, Script, Service};
use inferstore_wire::until;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use super::limits::unfinished_request;
use super::runs::{client, created, ended, uploaded};
use super::{MODEL, create_keys};
use crate::support::caller::{Answer, Caller, Odd};

const PNG: &[u8] = include_bytes!("../../fuzz/corpus/pictures/rgb.png");

const VARIABLE: &[&str] = &[
    "id",
    "task_id",
    "data",
    "commit_hash",
    "balance",
    "free_balance",
    "debt",
    "earnings",
    "input",
    "output",
    "download_url",
    "policy",
    "x-amz-meta-target",
    "x-amz-signature",
    "key",
];

fn examples() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    operations().flat_map(|operation| {
        operation.responses().flat_map(move |(_, content)| {
            members(&content["examples"])
                .map(move |(name, example)| (operation.id(), name, &example["value"]))
        })
    })
}

#[derive(Default)]
struct Compared {
    examples: Vec<&'static Value>,
    differences: Vec<String>,
}

impl Compared {
    fn with(&mut self, operation: &str, name: &str, sent: &Answer) {
        let found = examples().find(|example| (example.0, example.1) == (operation, name));
        let (.., example) = found.unwrap_or_else(|| panic!("{operation} has no example {name}"));
        self.examples.push(example);
        self.value(&format!("{operation} {name}"), "", example, &sent.body);
    }

    fn value(&mut self, place: &str, field: &str, example: &Value, sent: &Value) {
        let are_alike = match (example, sent) {
            (Value::Object(shown), Value::Object(fields)) if shown.keys().eq(fields.keys()) => {
                for (field, value) in shown {
                    self.value(&format!("{place}/{field}"), field, value, &fields[field]);
                }
                true
            }
            (Value::Array(shown), Value::Array(items)) if shown.len() == items.len() => {
                for (value, item) in shown.iter().zip(items) {
                    self.value(&format!("{place}/-"), field, value, item);
                }
                true
            }
            (Value::String(shown), Value::String(text)) if field == "fields" => {
                let [shown, fields] =
                    [shown, text].map(|text| serde_json::from_str(text).expect("it is JSON"));
                self.value(place, "", &shown, &fields);
                true
            }
            (Value::String(shown), Value::String(text)) if field == "endpoint" => {
                names_of_query(shown) == names_of_query(text)
            }
            (Value::String(shown), Value::String(text)) if field == "samples" => {
                shown.rsplit_once("/samples/").map_or(&**shown, |(_, name)| name)
                    == text.rsplit_once("/samples/").map_or(&**text, |(_, name)| name)
            }
            (Value::String(shown), Value::String(text)) => {
                VARIABLE.contains(&field) || without_digits(shown) == without_digits(text)
            }
            (Value::Number(_), Value::Number(_)) => true,
            _ => example == sent,
        };
        if !are_alike {
            self.differences.push(format!("{place}: the example is {example}, the service sends {sent}"));
        }
    }
}

fn names_of_query(url: &str) -> Vec<String> {
    let url: Url = url.parse().expect("it is a URL");
    url.query_pairs().map(|(name, _)| name.into_owned()).collect()
}

/// Replaces digits, so that times and amounts are compared by format.
fn without_digits(text: &str) -> String {
    text.replace(|letter: char| letter.is_ascii_digit(), "0")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_example_of_a_response_is_what_the_service_sends() {
    let mut compared = Compared::default();
    let mut config = Config::ephemeral().with_controls();
    config.owners_manage_keys = Some(true);
    let service = Service::start(config).await.expect("the service starts");
    let caller = Caller::first(&service);
    compare_reads(&mut compared, &caller).await;
    compare_keys(&mut compared, &caller).await;
    compare_files(&mut compared, &service, &caller).await;
    compare_tasks(&mut compared, &service, &caller).await;
    compare_logs(&mut compared).await;
    compare_refusals(&mut compared, &service, &caller).await;
    compare_outages(&mut compared, &service, &caller).await;
    assert_eq!(compared.differences, Vec::<String>::new());
    let is_compared = |example: &Value| compared.examples.iter().any(|it| std::ptr::eq(*it, example));
    let rest: Vec<_> = examples().filter(|(.., example)| !is_compared(example)).collect();
    assert!(rest.is_empty(), "nothing is compared with {rest:#?}");
}

async fn compare_reads(compared: &mut Compared, caller: &Caller) {
    let model = "/api-key/model/color-harmonization";
    compared.with("getBalance", "balance", &caller.get("/api-key/balance").await);
    for (search, example) in [("harmoni", "page"), ("no such model", "nothing")] {
        let list = caller.post("/api-key/model/list", &json!({ "search": search })).await;
        compared.with("listModels", example, &list);
    }
    compared.with("getModel", "model", &caller.get(model).await);
    compared.with("getModelCost", "cost", &caller.get(&format!("{model}/task/cost")).await);
    compared.with("getModelServing", "served", &caller.get(&format!("{model}/serving")).await);
    compared.with("getModelVersioning", "version", &caller.get(&format!("{model}/versioning")).await);
}

async fn compare_keys(compared: &mut Compared, caller: &Caller) {
    let new = json!({
        "name": "nightly job", "expires_at": "2099-12-31T00:00:00.000Z", "daily_limit": "5",
        "models": ["background-removal"],
    });
    let created = caller.post(KEYS, &new).await;
    compared.with("createKey", "created", &created);
    compared.with("createKey", "name_taken", &caller.post(KEYS, &new).await);
    let listed = caller.get(KEYS).await;
    compared.with("listKeys", "keys", &listed);
    let own = listed.data()["records"][1]["id"].as_str().expect("the first key").to_owned();
    compared.with("revokeKey", "itself", &caller.delete(&format!("{KEYS}/{own}")).await);
    let ruled = caller.with_key(created.data()["key"].as_str());
    compared.with("createKey", "by_ruled_key", &ruled.post(KEYS, &new).await);
    let made = created.data()["id"].as_str().expect("the new key");
    compared.with("revokeKey", "revoked", &caller.delete(&format!("{KEYS}/{made}")).await);
    let closed = Service::start(Config::ephemeral()).await.expect("the service starts");
    compared.with("createKey", "by_operator", &Caller::first(&closed).post(KEYS, &new).await);
}

const KEYS: &str = "/api-key/keys";
const PRESIGN: &str = "/api-key/storage/upload/create-presigned-url";

async fn compare_files(compared: &mut Compared, service: &Service, caller: &Caller) {
    let small = json!({"folder": "samples", "mime": "image/png", "name": "street.png", "size": 48_213});
    let large =
        json!({"folder": "documents", "mime": "video/mp4", "name": "crossing.mp4", "size": 73_400_320});
    let too_large = json!({"folder": "samples", "mime": "image/png", "name": "a.png", "size": 104_857_601});
    for (file, example) in [(small, "form"), (large, "put"), (too_large, "too_large")] {
        compared.with("createPresignedUpload", example, &caller.post(PRESIGN, &file).await);
    }
    let url = uploaded(&client(service.base_url(), service.api_key()), "street.png", PNG.to_vec()).await;
    compared.with("listFiles", "page", &caller.get("/api-key/storage/upload/samples").await);
    let statistics = caller.get("/api-key/storage/upload/statistics").await;
    compared.with("getStorageStatistics", "statistics", &statistics);
    compared.with("getStoragePrice", "price", &caller.get("/api-key/storage/price").await);
    let headers = vec![("content-type", "application/json")];
    let body = Some(json!({ "url": url }).to_string().into_bytes());
    let deleted = caller.send(Method::DELETE, "/api-key/storage/store/url", Odd { headers, body }).await;
    compared.with("deleteFile", "deleted", &deleted);
}

async fn compare_tasks(compared: &mut Compared, service: &Service, caller: &Caller) {
    let controls = service.controls().expect("they are on");
    let create = format!("/api-key/model/{MODEL}/task");
    let detail = |task: &str| format!("/api-key/task/{task}/detail");
    let url = uploaded(&client(service.base_url(), service.api_key()), "street.png", PNG.to_vec()).await;
    let gone = format!("{}/samples/gone.png", service.storage_url());
    for (url, example) in [(&url, "success"), (&gone, "failed")] {
        let task = created(caller, MODEL, json!({ "input": url })).await;
        ended(caller, &task).await;
        compared.with("getTask", example, &caller.get(&detail(&task)).await);
    }
    compared.with("listTasks", "page", &caller.get("/api-key/task/histories").await);
    let after_the_last = caller.get("/api-key/task/histories?offset=2").await;
    compared.with("listTasks", "after_the_last", &after_the_last);

    controls.let_model(MODEL, Script::stay_queued()).await.expect("it is scripted");
    let answer = caller.post(&create, &json!({ "input": url })).await;
    compared.with("createTask", "created", &answer);
    let task = answer.data()["data"].as_str().expect("a task").to_owned();
    let cancel = format!("/api-key/task/{task}/cancel");
    compared.with("getTask", "waiting", &caller.get(&detail(&task)).await);
    compared.with("cancelTask", "canceled", &caller.delete(&cancel).await);
    let long = Script::run().after(Duration::from_hours(1));
    controls.let_model(MODEL, long).await.expect("it is scripted");
    let task = created(caller, MODEL, json!({ "input": url })).await;
    let is_computing = || async { caller.get(&detail(&task)).await.data()["status"] == "computing" };
    until("the task computes", is_computing).await;
    let too_late = caller.delete(&format!("/api-key/task/{task}/cancel")).await;
    compared.with("cancelTask", "computing", &too_late);
}

async fn compare_logs(compared: &mut Compared) {
    let mut config = Config::ephemeral();
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    config.workers = 0;
    let service = Service::start(config).await.expect("the service starts");
    let caller = Caller::first(&service);
    let task = created(&caller, MODEL, json!({ "input": "https://files.example/a.png" })).await;
    let logs = format!("/api-key/task/{task}/logs");
    compared.with("getTaskLogs", "empty", &caller.get(&logs).await);
    let key = service.add_node_key("node").await.expect("the name is free");
    let nodes = format!("{}/nodes/v1", service.nodes_url().expect("there is a listener for nodes"));
    let http = reqwest::Client::new();
    let send = async |method: Method, path: String, body: Value| {
        let request = http.request(method, format!("{nodes}{path}")).header("x-node-key", &key);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let text = request.send().await.expect("it answers").text().await.expect("it is text");
        serde_json::from_str::<Value>(&text).expect("it is JSON")["data"].take()
    };
    let node = send(Method::POST, "/register".to_owned(), json!({ "models": [MODEL] })).await;
    let node = node["node"].as_str().expect("it has a name").to_owned();
    send(Method::POST, format!("/{node}/lease"), json!({})).await;
    let log = json!({ "text": "loading the weights\ntile 3 of 12\n" });
    send(Method::PUT, format!("/{node}/tasks/{task}/1/log"), log).await;
    compared.with("getTaskLogs", "running", &caller.get(&logs).await);
}

async fn compare_refusals(compared: &mut Compared, service: &Service, caller: &Caller) {
    compared.with("getBalance", "wrong_key", &caller.with_key(None).get("/api-key/balance").await);
    let misspelled = caller.get("/api-key/model/color-harmonisation").await;
    compared.with("getModel", "not_found", &misspelled);
    let input = json!({"input_image": "https://files.example/a.png", "template": "v_shape", "angle": 30});
    let bare = caller.post("/api-key/model/color-harmonization/task", &input).await;
    compared.with("createTask", "bare_number", &bare);
    service.add_account("poor", Scope::Personal).await.expect("the account is new");
    let poor = caller.with_key(Some(&service.add_key("poor").await.expect("a key")));
    let input = json!({ "input": "https://files.example/a.png" });
    let task = poor.post(&format!("/api-key/model/{MODEL}/task"), &input).await;
    compared.with("createTask", "no_balance", &task);
    create_keys::created(caller, "key", &input).await;
    let other = json!({ "input": "https://files.example/b.png" });
    compared.with("createTask", "other_inputs", &create_keys::create(caller, "key", &other).await);
    let file = json!({"folder": "samples", "mime": "image/png", "name": "a.png", "size": 1});
    compared.with("createPresignedUpload", "no_balance", &poor.post(PRESIGN, &file).await);
}

async fn compare_outages(compared: &mut Compared, service: &Service, caller: &Caller) {
    for (max_requests, example) in [(4, "too_many"), (1, "unavailable")] {
        let mut config = Config::ephemeral();
        config.limits.max_requests = max_requests;
        let full = Service::start(config).await.expect("the service starts");
        let held = unfinished_request(&full, full.api_key().expect("a fresh service has a key")).await;
        compared.with("getBalance", example, &Caller::first(&full).get("/api-key/balance").await);
        drop(held);
    }
    let database = rusqlite::Connection::open(service.data_folder().join("inferstore.db"));
    let drop = "ALTER TABLE tasks RENAME TO lost_tasks";
    database.and_then(|database| database.execute(drop, [])).expect("the table is renamed");
    let input = json!({ "input": "https://files.example/a.png" });
    let failed = caller.post(&format!("/api-key/model/{MODEL}/task"), &input).await;
    compared.with("createTask", "unavailable", &failed);
}
