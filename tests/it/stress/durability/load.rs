//! Load on a service that is killed, and the acknowledgements of the service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::support::picture::bitmap;

/// Minimal caller of the API: no retries, and no response means no acknowledgement.
#[derive(Clone)]
pub(crate) struct Caller {
    http: Client,
    base_url: String,
    api_key: String,
}

impl Caller {
    pub(crate) fn new(base_url: &str, api_key: &str) -> Self {
        let http = inferstore_api::http_client_builder()
            .timeout(Duration::from_secs(30))
            .build()
            .expect("a plain client");
        Self { http, base_url: base_url.to_owned(), api_key: api_key.to_owned() }
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Option<(StatusCode, Value)> {
        let mut request = self.http.request(method, format!("{}{path}", self.base_url));
        request = request.header("x-api-key", &self.api_key);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await.ok()?;
        let status = response.status();
        Some((status, serde_json::from_slice(&response.bytes().await.ok()?).ok()?))
    }

    pub(crate) async fn data(&self, path: &str) -> Value {
        let (status, mut body) =
            self.call(Method::GET, path, None).await.expect("a running service responds");
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body["data"].take()
    }

    pub(crate) async fn read(&self, url: &str) -> Vec<u8> {
        let answer = self.http.get(url).send().await.expect("the object store answers");
        assert_eq!(answer.status(), StatusCode::OK, "a listed file cannot be read");
        answer.bytes().await.expect("a listed file arrives whole").into()
    }

    pub(crate) async fn upload(&self, name: &str, content: &[u8]) -> Option<String> {
        let order = json!({"folder": "samples", "mime": "image/bmp", "name": name, "size": content.len()});
        let path = "/api-key/storage/upload/create-presigned-url";
        let (status, body) = self.call(Method::POST, path, Some(order)).await?;
        assert_eq!(status, StatusCode::OK, "{body}");
        let status = self.send(&body["data"], content).await?;
        assert!(status.is_success(), "an upload was refused: {status}");
        body["data"]["download_url"].as_str().map(str::to_owned)
    }

    pub(crate) async fn send(&self, target: &Value, content: &[u8]) -> Option<StatusCode> {
        let fields: Value = serde_json::from_str(target["fields"].as_str()?).ok()?;
        let mut form = Vec::new();
        for (name, value) in fields.as_object()? {
            let head = format!("--frontier\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
            form.extend_from_slice(head.as_bytes());
            form.extend_from_slice(format!("{}\r\n", value.as_str()?).as_bytes());
        }
        form.extend_from_slice(
            b"--frontier\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n",
        );
        form.extend_from_slice(content);
        form.extend_from_slice(b"\r\n--frontier--\r\n");
        let request = self.http.post(target["endpoint"].as_str()?);
        let request = request.header("content-type", "multipart/form-data; boundary=frontier");
        Some(request.body(form).send().await.ok()?.status())
    }
}

fn picture(number: u8) -> Vec<u8> {
    bitmap([30, number, 90], [200, 30, number])
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Acknowledged(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    picture: String,
    sent: usize,
    tasks: BTreeSet<String>,
    canceled: BTreeSet<String>,
    shown: BTreeMap<String, String>,
    files: BTreeMap<String, Vec<u8>>,
    read: BTreeSet<String>,
}

impl Acknowledged {
    fn reported<Result>(&self, read: impl FnOnce(&mut Known) -> Result) -> Result {
        read(&mut self.0.lock().expect("no test thread has failed"))
    }

    pub(crate) fn tasks(&self) -> usize {
        self.reported(|reported| reported.tasks.len())
    }

    pub(crate) fn files(&self) -> usize {
        self.reported(|reported| reported.files.len())
    }

    pub(crate) async fn prepare(&self, caller: &Caller) {
        let url = caller.upload("input.bmp", &picture(0)).await.expect("the service runs");
        self.reported(|reported| {
            reported.files.insert(url.clone(), picture(0));
            reported.picture = url;
        });
    }

    pub(crate) fn read_all_again(&self) {
        self.reported(|reported| reported.read.clear());
    }

    pub(crate) async fn check(&self, caller: &Caller) {
        let tasks = self.look(caller).await;
        self.reported(|reported| {
            for id in &reported.tasks {
                assert!(tasks.contains_key(id), "the acknowledged task {id} is lost");
            }
            for id in &reported.canceled {
                assert_eq!(tasks[id], "canceled", "the acknowledged cancel of {id} is lost");
            }
            assert!(tasks.len() <= reported.sent, "{} tasks came of {} creates", tasks.len(), reported.sent);
        });
        self.check_files(caller).await;
    }

    async fn look(&self, caller: &Caller) -> BTreeMap<String, String> {
        let mut tasks = BTreeMap::new();
        for record in caller.tasks().await {
            let (id, status) = (text(&record["task_id"]), text(&record["status"]));
            let before = self.reported(|reported| reported.shown.insert(id.clone(), status.clone()));
            let may_follow = match before.as_deref() {
                None | Some("in_queue") => true,
                Some("computing") => status != "in_queue",
                Some(terminal) => status == terminal,
            };
            assert!(may_follow, "task {id} went from {before:?} to {status}");
            tasks.insert(id, status);
        }
        tasks
    }

    async fn check_files(&self, caller: &Caller) {
        let mut listed = BTreeMap::new();
        for page in 1.. {
            let path = format!("/api-key/storage/upload/samples?page={page}&pageSize=100");
            let answer = caller.data(&path).await;
            for file in answer["files"].as_array().into_iter().flatten() {
                listed.insert(text(&file["download_url"]), file["size"].as_u64());
            }
            if page >= answer["total_pages"].as_u64().unwrap_or(0) {
                break;
            }
        }
        for (url, size) in &listed {
            // There are thousands of files after hundreds of kills: files that were compared are read again
            // only at the end.
            if !self.reported(|reported| reported.read.insert(url.clone())) {
                continue;
            }
            let content = caller.read(url).await;
            assert_eq!(Some(content.len() as u64), *size, "a listed file has another size");
            if let Some(wanted) = self.reported(|reported| reported.files.get(url).cloned()) {
                assert_eq!(content, wanted, "a file has changed");
            }
        }
        self.reported(|reported| {
            for url in reported.files.keys() {
                assert!(listed.contains_key(url), "an acknowledged file is lost");
            }
        });
    }

    pub(crate) async fn until_all_tasks_have_ended(&self, caller: &Caller) {
        let ended = async {
            loop {
                let tasks = self.look(caller).await;
                if tasks.values().all(|status| !matches!(status.as_str(), "in_queue" | "computing")) {
                    return tasks;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let tasks = tokio::time::timeout(Duration::from_secs(120), ended).await.expect("tasks end");
        let failed: Vec<_> = tasks.iter().filter(|(_, status)| *status == "failed").collect();
        assert!(failed.is_empty(), "tasks failed because the service was killed: {failed:?}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().map(str::to_owned).unwrap_or_default()
}

pub(crate) async fn run(caller: &Caller, acknowledged: &Acknowledged) {
    tokio::join!(
        create(caller, acknowledged, false),
        create(caller, acknowledged, true),
        upload(caller, acknowledged, 1),
        upload(caller, acknowledged, 2),
    );
}

async fn create(caller: &Caller, acknowledged: &Acknowledged, and_cancel: bool) {
    loop {
        let input = acknowledged.reported(|reported| {
            reported.sent += 1;
            json!({"input": reported.picture})
        });
        let answer = caller.call(Method::POST, "/api-key/model/color-extraction/task", Some(input)).await;
        let Some((StatusCode::OK, body)) = answer else { continue };
        let id = text(&body["data"]["data"]);
        acknowledged.reported(|reported| reported.tasks.insert(id.clone()));
        if and_cancel {
            let path = format!("/api-key/task/{id}/cancel");
            if let Some((StatusCode::OK, _)) = caller.call(Method::DELETE, &path, None).await {
                acknowledged.reported(|reported| reported.canceled.insert(id));
            }
        }
    }
}

async fn upload(caller: &Caller, acknowledged: &Acknowledged, number: u8) {
    loop {
        let name = format!("{number}-{}.bmp", fastrand::u64(..));
        if let Some(url) = caller.upload(&name, &picture(number)).await {
            acknowledged.reported(|reported| reported.files.insert(url, picture(number)));
        }
    }
}
