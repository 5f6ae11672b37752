//! Test kit: a scripted service instead of the network.
//!
#![doc = include_str!("../README.md")]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, ETAG, HeaderName, HeaderValue};
use inferstore::reqwest::{self, Body, Method, Request, Response, Url};
use inferstore::types::{ModelId, TaskId, TaskStatus};
use inferstore::{Client, ClientBuilder, Decimal, Result, Timestamp};
use inferstore_api::operations;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// `localhost` needs neither TLS nor permission for plain http. Nothing is ever sent.
const API: &str = "http://inferstore.localhost/api/v1";
const STORAGE: &str = "http://storage.localhost";

/// Idempotency: header of a create, and the response header with the retention of keys.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const KEY_RETENTION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("idempotency-key-retention"), HeaderValue::from_static("86400"));

const TAKES: Duration = Duration::from_secs(3);

const QUEUED: Duration = Duration::from_secs(1);

const PAGE_SIZE: u64 = 20;

/// Characters of a file's name that its URL encodes.
const SPECIAL: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

/// Scripted service instead of the network, as in the example of the [crate](self). Clones share one service.
#[derive(Clone, Debug, Default)]
pub struct ScriptedService(Arc<Mutex<State>>);

/// Model of a [`ScriptedService`]. Each call of [`succeeds`](Self::succeeds), [`fails`](Self::fails) and
/// [`stays_queued`](Self::stays_queued) scripts one more task; the last script repeats.
#[derive(Clone, Debug)]
pub struct ScriptedModel {
    service: ScriptedService,
    id: String,
}

/// Task created in a [`ScriptedService`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CreatedTask {
    /// Identifier of the task.
    pub task: TaskId,
    /// Model of the task.
    pub model: ModelId,
    /// Inputs as sent: files are URLs, see [`ScriptedService::content`].
    pub inputs: Map<String, Value>,
    /// Idempotency key of the create; a retry of the create has the same one.
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    models: BTreeMap<String, Script>,
    tasks: Vec<Task>,
    files: BTreeMap<String, Stored>,
    replies: HashMap<String, VecDeque<Reply>>,
    ignores_keys: bool,
    requests: Vec<&'static str>,
    began: Option<(SystemTime, Instant)>,
}

#[derive(Debug, Default)]
struct Script {
    ends: Vec<End>,
    created: usize,
    cost: Decimal,
    takes: Option<Duration>,
    declared: Map<String, Value>,
    is_offline: bool,
}

#[derive(Clone, Debug)]
enum End {
    Succeeds(Value),
    Fails(String),
    StaysQueued,
    Canceled,
}

#[derive(Debug)]
struct Task {
    created: CreatedTask,
    end: End,
    cost: Decimal,
    takes: Duration,
    created_at: SystemTime,
    started: Instant,
}

#[derive(Debug)]
struct Stored {
    folder: String,
    mime: String,
    content: Option<Bytes>,
}

/// Status and body of a scripted response. `None`: the response is lost.
type Reply = Option<(u16, String)>;

impl ScriptedService {
    /// Creates a service without models, whose account has a balance of 100.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the service an older version without idempotency keys: a retried create makes a second task.
    #[must_use]
    pub fn without_idempotency_keys(self) -> Self {
        self.0.lock().ignores_keys = true;
        self
    }

    /// Returns a client of this service.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](inferstore::Error::Config) if the HTTP library cannot be set up.
    pub fn client(&self) -> Result<Client> {
        self.client_builder().build()
    }

    /// Returns a client builder for this service, for other settings and middleware.
    pub fn client_builder(&self) -> ClientBuilder {
        Client::builder(API, "isk_test").transport(self.clone())
    }

    /// Returns the model with this identifier, new if unknown. Tasks of a model without a script stay queued.
    pub fn model(&self, id: impl Into<String>) -> ScriptedModel {
        let id = id.into();
        self.0.lock().models.entry(id.clone()).or_default();
        ScriptedModel { service: self.clone(), id }
    }

    /// Stores a file in the folder `outputs` and returns its URL, for the output of a model.
    pub fn stores(&self, name: &str, mime: &str, content: impl Into<Bytes>) -> String {
        let mut state = self.0.lock();
        // A model stores each output as a file of its own, whatever its name.
        let folders =
            std::iter::once("outputs".to_owned()).chain((2..).map(|number| format!("outputs/{number}")));
        let mut urls = folders.map(|folder| address(&folder, name));
        let url = urls.find(|url| !state.files.contains_key(url)).unwrap_or_default();
        let stored =
            Stored { folder: "outputs".to_owned(), mime: mime.to_owned(), content: Some(content.into()) };
        state.files.insert(url.clone(), stored);
        url
    }

    /// Scripts the response to the next request of this operation; several are used in order. The operation
    /// is one of the OpenAPI document, such as `createTask`, or `upload` or `download` for object storage.
    pub fn responds(&self, operation: &str, status: u16, body: impl ToString) -> &Self {
        self.reply(operation, Some((status, body.to_string())))
    }

    /// Performs the next request of this operation, and breaks the connection before its response.
    pub fn loses_response(&self, operation: &str) -> &Self {
        self.reply(operation, None)
    }

    fn reply(&self, operation: &str, reply: Reply) -> &Self {
        self.0.lock().replies.entry(operation.to_owned()).or_default().push_back(reply);
        self
    }

    /// Returns the created tasks, in order.
    pub fn created(&self) -> Vec<CreatedTask> {
        self.0.lock().tasks.iter().map(|task| task.created.clone()).collect()
    }

    /// Returns the content of a stored file, such as an uploaded input.
    pub fn content(&self, url: &str) -> Option<Bytes> {
        self.0.lock().files.get(url)?.content.clone()
    }

    /// Returns the operations of all requests, in order.
    pub fn requests(&self) -> Vec<&'static str> {
        self.0.lock().requests.clone()
    }
}

impl ScriptedModel {
    /// Scripts a task that succeeds with this output.
    pub fn succeeds(self, output: Value) -> Self {
        self.script(|script| script.ends.push(End::Succeeds(output)))
    }

    /// Scripts a task that fails with this message.
    pub fn fails(self, message: impl Into<String>) -> Self {
        self.script(|script| script.ends.push(End::Fails(message.into())))
    }

    /// Scripts a task that stays queued until it is canceled.
    pub fn stays_queued(self) -> Self {
        self.script(|script| script.ends.push(End::StaysQueued))
    }

    /// Sets the cost of a run. Default: 0.
    pub fn costs(self, cost: Decimal) -> Self {
        self.script(|script| script.cost = cost)
    }

    /// Sets the duration of a task, by Tokio's clock. Default: 3 s, the first of which in the queue.
    pub fn takes(self, duration: Duration) -> Self {
        self.script(|script| script.takes = Some(duration))
    }

    /// Declares the inputs of the model, in the format of the service: `{"angle": {"type": "int", "required":
    /// true, "num_config": {"min": 1, "max": 90}}}`. Default: none; every input is accepted then.
    pub fn declares(self, inputs: Value) -> Self {
        self.script(|script| script.declared = inputs.as_object().cloned().unwrap_or_default())
    }

    /// Takes the model offline: no node serves it.
    pub fn is_offline(self) -> Self {
        self.script(|script| script.is_offline = true)
    }

    fn script(self, change: impl FnOnce(&mut Script)) -> Self {
        change(self.service.0.lock().models.entry(self.id.clone()).or_default());
        self
    }
}

impl Middleware for ScriptedService {
    fn handle<'a>(&'a self, mut request: Request, _: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            // reqwest can read the body of a response, but not of a request.
            let body = match request.body_mut().take() {
                Some(body) => Response::from(http::Response::new(body)).bytes().await?,
                None => Bytes::new(),
            };
            let key = request.headers().get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
            let response = self.0.lock().respond(request.method(), request.url(), key, body);
            let Some(mut response) = response else { return lost().await };
            if !self.0.lock().ignores_keys {
                let (name, value) = KEY_RETENTION;
                response.headers_mut().insert(name, value);
            }
            if let Ok(date) = httpdate::fmt_http_date(self.0.lock().now()).parse() {
                response.headers_mut().entry(DATE).or_insert(date);
            }
            Ok(response)
        })
    }
}

async fn lost() -> reqwest::Result<Response> {
    let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let body = Body::wrap_stream(stream::iter([Err::<Bytes, _>(error)]));
    Response::from(http::Response::new(body)).bytes().await.map(|body| http::Response::new(body).into())
}

impl State {
    fn now(&mut self) -> SystemTime {
        let (time, began) = *self.began.get_or_insert_with(|| (SystemTime::now(), Instant::now()));
        time + began.elapsed()
    }

    fn respond(&mut self, method: &Method, url: &Url, key: Option<&str>, body: Bytes) -> Option<Response> {
        let (operation, id) = operation(method, url);
        self.requests.push(operation);
        let reply = self.replies.get_mut(operation).and_then(VecDeque::pop_front);
        if let Some(Some((status, body))) = reply {
            return Some(response(status, "application/json", body));
        }
        let response = match operation {
            "upload" => self.upload(url, body),
            "download" => self.download(method, url),
            "createTask" => self.create(&id, key.filter(|_| !self.ignores_keys), &body),
            _ => self.perform(operation, &id, url, &body),
        };
        reply.is_none().then_some(response)
    }

    fn perform(&mut self, operation: &str, id: &str, url: &Url, body: &[u8]) -> Response {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let number = |name: &str| url.query_pairs().find(|(key, _)| key == name)?.1.parse().ok();
        let data = match operation {
            "getBalance" => Some(json!({ "balance": "100" })),
            "listModels" => {
                let search = body["search"].as_str().unwrap_or_default().to_lowercase();
                let is_found = |(id, _): &(&String, &Script)| id.to_lowercase().contains(&search);
                let models = self.models.iter().filter(is_found).map(model).collect();
                Some(page(models, body["limit"].as_u64(), body["offset"].as_u64()))
            }
            "getModel" | "getModelServing" | "getModelCost" | "getModelVersioning" => {
                self.models.get_key_value(id).map(model)
            }
            "getTask" => self.task(id).map(|task| task.detail()),
            "cancelTask" => {
                let task = self.task(id);
                if task.as_ref().is_some_and(|task| task.status() != TaskStatus::InQueue) {
                    return failure(409, "the task is no longer in the queue");
                }
                task.map(|task| task.end = End::Canceled).map(|()| Value::Null)
            }
            "listTasks" => {
                let tasks = self.tasks.iter().map(Task::detail).collect();
                Some(page(tasks, number("limit"), number("offset")))
            }
            "createPresignedUpload" => self.presign(&body),
            "listFiles" => {
                let text =
                    |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value);
                let files = self.list(Some(id), text("type").as_deref());
                let (total, size) = (files.len(), number("pageSize").unwrap_or(PAGE_SIZE).max(1));
                let skipped = size.saturating_mul(number("page").unwrap_or(1).saturating_sub(1));
                let page = page(files, Some(size), Some(skipped));
                let pages = (total as u64).div_ceil(size);
                Some(json!({ "total": total, "total_pages": pages, "files": page["records"] }))
            }
            "getStorageStatistics" => {
                let files = self.list(None, None);
                let size: u64 = files.iter().filter_map(|file| file["size"].as_u64()).sum();
                Some(json!({ "total_files": files.len(), "total_size": size }))
            }
            "deleteFile" => self.files.remove(body["url"].as_str().unwrap_or_default()).map(|_| Value::Null),
            "getTaskLogs" => Some(json!({ "text": "", "offset": 0, "attempt": 1 })),
            "listKeys" => {
                let current = json!({ "id": "first", "is_current": true });
                Some(json!({ "can_manage": true, "records": [current], "total": 1 }))
            }
            "createKey" => Some(json!({ "id": "second", "key": "isk_second_secret" })),
            "revokeKey" => Some(Value::Null),
            "getStoragePrice" => Some(json!({ "per_gib_day": "0.001", "unit": "USD" })),
            _ => None,
        };
        data.map_or_else(not_found, |data| success(&data))
    }

    fn create(&mut self, model: &str, key: Option<&str>, body: &[u8]) -> Response {
        let inputs = serde_json::from_slice::<Map<String, Value>>(body).unwrap_or_default();
        let mut earlier = self.tasks.iter().map(|task| &task.created);
        if let Some(earlier) = earlier.find(|task| key.is_some() && task.idempotency_key.as_deref() == key) {
            if earlier.model.as_str() == model && earlier.inputs == inputs {
                return success(&json!({ "data": earlier.task }));
            }
            return failure(409, "the idempotency key belongs to a task with another model or other inputs");
        }
        let created_at = self.now();
        let Some(script) = self.models.get_mut(model) else { return not_found() };
        let end = script.ends.get(script.created).or(script.ends.last()).cloned();
        script.created += 1;
        let idempotency_key = key.map(str::to_owned);
        let task = TaskId::from(format!("task-{}", self.tasks.len() + 1));
        let created =
            CreatedTask { task: task.clone(), model: ModelId::from(model), inputs, idempotency_key };
        self.tasks.push(Task {
            created,
            end: end.unwrap_or(End::StaysQueued),
            cost: script.cost.clone(),
            takes: script.takes.unwrap_or(TAKES),
            created_at,
            started: Instant::now(),
        });
        success(&json!({ "data": task }))
    }

    fn task(&mut self, id: &str) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.created.task.as_str() == id)
    }

    fn presign(&mut self, request: &Value) -> Option<Value> {
        let text = |field: &str| request[field].as_str().unwrap_or_default().to_owned();
        let url = address(&text("folder"), &text("name"));
        let fields = json!({ "Content-Type": text("mime") }).to_string();
        let target = json!({ "endpoint": format!("{url}?X-Amz-Algorithm=test"), "fields": fields, "download_url": url });
        let earlier = self.files.remove(&url).and_then(|earlier| earlier.content);
        self.files.insert(url, Stored { folder: text("folder"), mime: text("mime"), content: earlier });
        Some(target)
    }

    fn upload(&mut self, url: &Url, content: Bytes) -> Response {
        let url = url.as_str().split('?').next().unwrap_or_default();
        let Some(stored) = self.files.get_mut(url) else { return failure(403, "no such target") };
        stored.content = Some(content);
        response(200, "text/plain", Bytes::new())
    }

    fn download(&self, method: &Method, url: &Url) -> Response {
        let stored = self.files.get(url.as_str());
        let Some((mime, content)) = stored.and_then(|stored| Some((&stored.mime, stored.content.clone()?)))
        else {
            return failure(404, "no such file");
        };
        let (length, etag) = (content.len(), etag(&content));
        let body = if *method == Method::HEAD { Bytes::new() } else { content };
        let mut response = response(200, mime, body);
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
        response.headers_mut().extend(etag.parse().map(|etag| (ETAG, etag)));
        response
    }

    fn list(&self, folder: Option<&str>, category: Option<&str>) -> Vec<Value> {
        let is_listed = |file: &Stored| {
            let is_of = |category: &str| file.mime.split('/').next() == Some(category);
            folder.is_none_or(|folder| file.folder == folder) && category.is_none_or(is_of)
        };
        let files = self.files.iter().filter(|(_, file)| is_listed(file));
        let records = files.filter_map(|(url, Stored { folder, mime, content })| {
            let size = content.as_ref()?.len();
            Some(json!({ "id": url, "download_url": url, "folder": folder, "mime": mime, "size": size }))
        });
        records.collect()
    }
}

impl Task {
    fn status(&self) -> TaskStatus {
        let elapsed = self.started.elapsed();
        match &self.end {
            End::Canceled => TaskStatus::Canceled,
            End::StaysQueued => TaskStatus::InQueue,
            End::Succeeds(_) if elapsed >= self.takes => TaskStatus::Success,
            End::Fails(_) if elapsed >= self.takes => TaskStatus::Failed,
            _ if elapsed < QUEUED => TaskStatus::InQueue,
            _ => TaskStatus::Computing,
        }
    }

    fn detail(&self) -> Value {
        let CreatedTask { task, model, inputs, .. } = &self.created;
        let timestamp = |time: SystemTime| Timestamp::from(time).to_string();
        let ended = self.created_at + self.started.elapsed().min(self.takes);
        let status = self.status();
        let (result, message) = match &self.end {
            End::Succeeds(output) if status == TaskStatus::Success => {
                (json!({ "result": output }), Value::Null)
            }
            End::Fails(message) if status == TaskStatus::Failed => (Value::Null, json!(message)),
            _ => (Value::Null, Value::Null),
        };
        json!({
            "task_id": task, "model_id": model, "status": status, "cost": json_amount(&self.cost), "input_data": inputs,
            "result": result, "message": message,
            "created_at": timestamp(self.created_at), "updated_at": timestamp(ended),
        })
    }
}

fn operation(method: &Method, url: &Url) -> (&'static str, String) {
    let Some(path) = url.as_str().split('?').next().and_then(|url| url.strip_prefix(API)) else {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        return (if is_read { "download" } else { "upload" }, String::new());
    };
    let segments: Vec<_> = path.split('/').collect();
    for operation in operations::ALL.iter().filter(|operation| operation.method == method.as_str()) {
        let template: Vec<_> = operation.path.split('/').collect();
        let id = template.iter().position(|segment| segment.starts_with('{'));
        let matches = |index: usize| Some(index) == id || template[index] == segments[index];
        if template.len() == segments.len() && (0..template.len()).all(matches) {
            let id = id.map(|index| percent_decode_str(segments[index]).decode_utf8_lossy().into_owned());
            return (operation.id, id.unwrap_or_default());
        }
    }
    ("unknown", String::new())
}

/// Returns the URL of a file: the same name in the same folder is the same file.
fn address(folder: &str, name: &str) -> String {
    format!("{STORAGE}/{folder}/{}", utf8_percent_encode(name, SPECIAL))
}

fn etag(content: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

/// Returns an amount as the service writes it: a number, unless it has more digits than a double holds.
fn json_amount(amount: &Decimal) -> Value {
    let text = amount.to_string();
    let number = text.parse().ok().filter(|number: &serde_json::Number| number.to_string() == text);
    number.map_or(Value::String(text), Value::Number)
}

fn model((id, script): (&String, &Script)) -> Value {
    let Script { cost, is_offline, declared, .. } = script;
    let cost = json_amount(cost);
    json!({
        "id": id, "price": cost, "cost": cost, "serving": !is_offline, "model_id": id, "input_format": declared,
    })
}

fn page(records: Vec<Value>, limit: Option<u64>, offset: Option<u64>) -> Value {
    let total = records.len();
    let size = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let records = records.into_iter().skip(size(offset).unwrap_or(0)).take(size(limit).unwrap_or(total));
    json!({ "total": total, "records": records.collect::<Vec<_>>() })
}

fn success(data: &Value) -> Response {
    let body = json!({ "status": "success", "message": "ok", "data": data });
    response(200, "application/json", body.to_string())
}

fn not_found() -> Response {
    failure(404, "there is no such model, task, file or path")
}

fn failure(status: u16, message: &str) -> Response {
    let body = json!({ "status": "fail", "message": message, "data": null });
    response(status, "application/json", body.to_string())
}

fn response(status: u16, mime: &str, body: impl Into<Body>) -> Response {
    let response = http::Response::builder().status(status).header(CONTENT_TYPE, mime).body(body.into());
    response.unwrap_or_default().into()
}
