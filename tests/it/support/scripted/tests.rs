//! The scripted service keeps what it promises to the tests that rest on it.

mod answers;
mod faults;
mod objects;
mod tasks;
mod uploads;

use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

use super::{DEFAULT_MODEL, ScriptedService};

/// Calls the service as any HTTP client would.
struct Caller {
    http: Client,
    base_url: String,
    key: &'static str,
}

impl Caller {
    fn of(service: &ScriptedService) -> Self {
        let http = inferstore_api::http_client_builder().redirect(Policy::none()).no_proxy().build();
        Self { http: http.expect("a plain client"), base_url: service.base_url(), key: service.key() }
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> reqwest::Result<Response> {
        let request =
            self.http.request(method, format!("{}{path}", self.base_url)).header("x-api-key", self.key);
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        request.send().await
    }

    /// The status and the JSON of an answer that must come.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let response = self.send(method, path, body).await.expect("the service answers");
        let (code, text) = (response.status().as_u16(), response.text().await.expect("the body is whole"));
        (code, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}")))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.call(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call(Method::POST, path, Some(&body)).await
    }

    async fn delete(&self, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.call(Method::DELETE, path, body).await
    }

    /// Creates a task on a model and returns its identifier.
    async fn create(&self, model: &str, input: Value) -> String {
        let (code, envelope) = self.post(&format!("/api-key/model/{model}/task"), input).await;
        assert_eq!(code, 200, "{envelope}");
        envelope["data"]["data"].as_str().expect("a new task has an identifier").to_owned()
    }

    async fn task(&self, id: &str) -> Value {
        let (code, mut envelope) = self.get(&format!("/api-key/task/{id}/detail")).await;
        assert_eq!(code, 200, "{envelope}");
        envelope["data"].take()
    }

    /// Asks for the target of a file in the folder `samples`.
    async fn presign(&self, name: &str, mime: &str, size: u64) -> Value {
        let body = json!({"folder": "samples", "name": name, "mime": mime, "size": size});
        let (code, mut envelope) = self.post("/api-key/storage/upload/create-presigned-url", body).await;
        assert_eq!(code, 200, "{envelope}");
        let mut target = envelope["data"].take();
        let fields = target["fields"].as_str().expect("fields are a text");
        target["fields"] = serde_json::from_str(fields).expect("the text is JSON");
        target
    }
}

/// What the default model accepts.
fn good_input() -> Value {
    json!({"input_image": "http://127.0.0.1/street.png", "template": "v_shape", "angle": "30"})
}

fn task_path() -> String {
    format!("/api-key/model/{DEFAULT_MODEL}/task")
}
