//! Client without a network: a target scripts the responses, and reads the sent requests.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Method, Request, Response};
use inferstore::types::UploadFolder;
use inferstore::{Client, Error, File, Retry, UploadedFile};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// API keys of the clients. Some characters are escaped in JSON, in a URL or in a header.
pub(crate) const KEYS: [&str; 3] = ["isk_4f1c_secret-key-1", "k%2Fe+y/==&?#secret", "se\"cr\\et'key`{}"];

thread_local! {
    /// Clients are reused, because building one takes longer than most calls.
    static WIRES: [Wire; 3] = KEYS.map(Wire::new);
}

pub(crate) struct Wire {
    client: Client,
    script: Script,
    runtime: Runtime,
}

#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Default)]
struct Script(Arc<Mutex<Exchange>>);

#[derive(Default)]
struct Exchange {
    responses: VecDeque<http::Response<String>>,
    last: Option<Sent>,
}

impl Wire {
    fn new(key: &str) -> Self {
        let script = Script::default();
        let builder = Client::builder("http://api.localhost/api/v1", key).transport(script.clone());
        let client = builder
            .settings(|settings| settings.retry = Retry::none())
            .build()
            .expect("the settings are valid");
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        Self { client, script, runtime }
    }
}

pub(crate) fn call<T, F: Future<Output = T>>(
    key: usize,
    responses: impl IntoIterator<Item = http::Response<String>>,
    call: impl FnOnce(&Client) -> F,
) -> (T, Option<Sent>) {
    WIRES.with(|wires| {
        let Wire { client, script, runtime } = &wires[key];
        *script.lock() = Exchange { responses: responses.into_iter().collect(), last: None };
        let result = runtime.block_on(call(client));
        (result, script.lock().last.take())
    })
}

pub(crate) fn upload(target: Value, file: File) -> (Result<UploadedFile, Error>, Option<Sent>) {
    let stored = http::Response::new(String::new());
    call(0, [success(target), stored], |client| {
        client.folder(UploadFolder::Samples.to_string()).upload(file).into_future()
    })
}

pub(crate) fn success(data: Value) -> http::Response<String> {
    let envelope = serde_json::json!({ "status": "success", "message": "ok", "data": data });
    http::Response::new(envelope.to_string())
}

impl Script {
    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Middleware for Script {
    fn handle<'a>(&'a self, mut request: Request, _: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            // reqwest can read the body of a response, but not of a request.
            let body = match request.body_mut().take() {
                Some(body) => Response::from(http::Response::new(body)).bytes().await?.to_vec(),
                None => Vec::new(),
            };
            let content_type = request.headers().get("content-type").map(|value| value.as_bytes().to_vec());
            let mut script = self.lock();
            script.last = Some(Sent {
                method: request.method().clone(),
                url: request.url().to_string(),
                content_type: String::from_utf8_lossy(&content_type.unwrap_or_default()).into_owned(),
                body,
            });
            let missing = || {
                let mut response = http::Response::new(String::new());
                *response.status_mut() = StatusCode::IM_A_TEAPOT;
                response
            };
            Ok(Response::from(script.responses.pop_front().unwrap_or_else(missing)))
        })
    }
}
