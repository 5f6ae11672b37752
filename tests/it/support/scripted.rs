//! Virtual time, and responses that the local service never gives: the scripted service of
//! `inferstore-testing` behind middleware that returns foreign statuses and bodies, breaks connections and
//! trims the task history. Other failures are tested against the local service.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream;
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::{Client, ClientBuilder, Inputs};
use inferstore_testing::ScriptedService;
use reqwest::{Body, Method, Request, Response};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::caller::operation;

pub(crate) const MODEL: &str = "color-harmonization";

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Response with this status; the request is not performed.
    Status {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// Broken connection; the request is not performed.
    Lost,
    /// Broken connection; the request is performed after this delay, behind a gateway that gave up.
    LostUntil(Duration),
    Cut,
    Garbled,
    Late(Duration),
}

impl Reply {
    pub(crate) fn status(status: u16, body: impl Into<String>) -> Self {
        Self::Status { status, headers: Vec::new(), body: body.into() }
    }

    pub(crate) fn failure(status: u16, message: &str) -> Self {
        Self::status(status, json!({ "status": "fail", "message": message }).to_string())
    }

    pub(crate) fn success(data: &Value) -> Self {
        Self::status(200, json!({ "status": "success", "message": "ok", "data": data }).to_string())
    }

    pub(crate) fn task(status: &str) -> Self {
        Self::success(&json!({ "task_id": "task-1", "status": status }))
    }

    pub(crate) fn too_many_requests(retry_after: u64) -> Self {
        let body = json!({ "status": "fail", "message": "too many requests" }).to_string();
        Self::Status { status: 429, headers: vec![("retry-after", retry_after.to_string())], body }
    }

    pub(crate) fn html_page(status: u16) -> Self {
        Self::status(status, format!("<html><body><h1>{status}</h1></body></html>"))
    }
}

type Rule = dyn Fn(&str, usize) -> Option<Reply> + Send;

#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) service: ScriptedService,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    rule: Option<Box<Rule>>,
    requests: Vec<(&'static str, Instant)>,
    trimmed: u64,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        let service = ScriptedService::new().without_idempotency_keys();
        let file = |name: &str| format!("https://files.example/{name}.png");
        service.model(MODEL).succeeds(json!({ "output_image": file("image"), "output_hue": file("hue") }));
        Self { service, state: Arc::default() }
    }

    pub(crate) fn reply(&self, rule: impl Fn(&str, usize) -> Option<Reply> + Send + 'static) {
        self.state().rule = Some(Box::new(rule));
    }

    pub(crate) fn reply_to(&self, operation: &'static str, reply: Reply) {
        self.reply(move |requested, _| (requested == operation).then(|| reply.clone()));
    }

    pub(crate) fn recover(&self) {
        self.state().rule = None;
    }

    /// Removes the oldest tasks from the history alone, which shifts the positions of all others.
    pub(crate) fn trim_history(&self, count: u64) {
        self.state().trimmed += count;
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        self.service.client_builder().middleware(self.clone())
    }

    pub(crate) fn client(&self) -> Client {
        self.builder().build().expect("a client can be made")
    }

    pub(crate) async fn create(&self, count: usize) -> Vec<String> {
        let other = self.service.client().expect("a client can be made");
        let mut ids = Vec::new();
        for number in 0..count {
            let task = other.model(MODEL).run(Inputs::new().set("number", number)).start().await;
            ids.push(task.expect("it is created").id().to_string());
        }
        ids
    }

    pub(crate) fn times(&self, operation: &str) -> Vec<Instant> {
        let requests = &self.state().requests;
        requests.iter().filter(|(requested, _)| *requested == operation).map(|(_, at)| *at).collect()
    }

    pub(crate) fn count(&self, operation: &str) -> usize {
        self.times(operation).len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observe(&self, request: &mut Request) -> Option<Reply> {
        let path = request.url().path().strip_prefix("/api/v1").unwrap_or_default();
        let requested = operation(request.method(), path).map_or("", |operation| operation.id());
        let trimmed = {
            let mut state = self.state();
            state.requests.push((requested, Instant::now()));
            state.trimmed
        };
        if requested == "listTasks" {
            shift_offset(request, trimmed);
        }
        let count = self.count(requested);
        self.state().rule.as_ref().and_then(|rule| rule(requested, count))
    }

    fn perform_later(&self, request: &Request, delay: Duration) {
        let client = self.service.client().expect("a client can be made");
        let path = request.url().path().trim_start_matches("/api/v1").to_owned();
        let body = request.body().and_then(Body::as_bytes).unwrap_or_default();
        let body = RawValue::from_string(String::from_utf8_lossy(body).into_owned()).ok();
        tokio::spawn(async move {
            sleep(delay).await;
            client.request(Method::POST, path, body).await
        });
    }
}

impl Middleware for Scripted {
    fn handle<'a>(
        &'a self,
        mut request: Request,
        next: Next<'a>,
    ) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            match self.observe(&mut request) {
                None => next.run(request).await,
                Some(Reply::Status { status, headers, body }) => {
                    let response = http::Response::builder().status(status);
                    let response = headers
                        .iter()
                        .fold(response, |response, (name, value)| response.header(*name, value));
                    Ok(response.body(body).expect("a response can be made").into())
                }
                Some(Reply::Lost) => lost().await,
                Some(Reply::LostUntil(delay)) => {
                    self.perform_later(&request, delay);
                    lost().await
                }
                Some(Reply::Cut) => {
                    let whole = next.run(request).await?.bytes().await?;
                    Ok(broken(whole[..whole.len() / 2].to_vec()))
                }
                Some(Reply::Garbled) => {
                    let whole = next.run(request).await?.bytes().await?;
                    Ok(http::Response::new(whole[..whole.len() / 2].to_vec()).into())
                }
                Some(Reply::Late(delay)) => {
                    let response = next.run(request).await;
                    sleep(delay).await;
                    response
                }
            }
        })
    }
}

fn broken(bytes: Vec<u8>) -> Response {
    let error = io::Error::from(io::ErrorKind::ConnectionReset);
    let body = Body::wrap_stream(stream::iter([Ok(bytes), Err(error)]));
    http::Response::new(body).into()
}

async fn lost() -> reqwest::Result<Response> {
    broken(Vec::new()).bytes().await.map(|_| http::Response::new("").into())
}

fn shift_offset(request: &mut Request, by: u64) {
    let shifted = |(name, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
        let value = match value.parse::<u64>() {
            Ok(offset) if name == "offset" => (offset + by).to_string(),
            _ => value.into_owned(),
        };
        (name.into_owned(), value)
    };
    let query: Vec<_> = request.url().query_pairs().map(shifted).collect();
    request.url_mut().query_pairs_mut().clear().extend_pairs(query);
}
