//! Scripted service and object store on a local socket, which presigns targets and records the requests.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use inferstore_wire::Reaction;
use inferstore_wire::Request;
use serde_json::json;

use crate::{ApiKey, Client, ClientBuilder, Retry};

pub(crate) type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Returns the whole text of an error: message, causes and `Debug`.
pub(crate) fn said<T>(result: crate::Result<T>) -> String {
    let Err(error) = result else { return "it worked".to_owned() };
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    format!("{text} {error:?}")
}

/// Largest file that is uploaded as a form.
pub(crate) const FORM_CEILING: u64 = 5_242_880;

/// Secrets that must never be shown; the key must never reach object storage.
pub(crate) const KEY: &str = "PLANTED-KEY";
pub(crate) const SIGNATURE: &str = "PLANTED-SIGNATURE";

const PRESIGN: &str = "/api/v1/api-key/storage/upload/create-presigned-url";

/// Makes an error response of object storage.
pub(crate) fn refusal(status: u16, code: &str) -> Reaction {
    let body = format!("<Error><Code>{code}</Code><Message>{SIGNATURE} is not good enough</Message></Error>");
    Reaction::Answer(status, Vec::new(), body.into_bytes())
}

pub(crate) struct Server(inferstore_wire::Server);

impl Server {
    /// Presigns every target, and reacts to other requests as scripted, before reading their body.
    pub(crate) fn start(mut react: impl FnMut(&Request) -> Reaction + Send + 'static) -> Self {
        let mut targets = 0;
        Self(inferstore_wire::Server::start(move |request| {
            if request.target != PRESIGN {
                return react(request);
            }
            targets += 1;
            let number = targets;
            Reaction::Read(Box::new(move |request| Reaction::Json(200, presigned(request, number))))
        }))
    }

    pub(crate) fn origin(&self) -> String {
        self.0.origin()
    }

    /// Returns a client with short backoffs.
    pub(crate) fn client(&self) -> crate::Result<Client> {
        self.builder(5).build()
    }

    /// Returns a client builder with this maximum number of attempts.
    pub(crate) fn builder(&self, max_attempts: u32) -> ClientBuilder {
        let retry = Retry { initial_backoff: Duration::from_millis(1), max_attempts, ..Retry::default() };
        Client::builder(self.0.base_url(), ApiKey::new(KEY)).settings(|settings| settings.retry = retry)
    }

    /// Returns the requests to object storage, in the order of their end.
    pub(crate) fn stored(&self) -> Vec<Request> {
        self.0.requests().into_iter().filter(|request| request.target != PRESIGN).collect()
    }

    /// Returns the requests for a target.
    pub(crate) fn presigned(&self) -> Vec<Request> {
        self.0.requests().into_iter().filter(|request| request.target == PRESIGN).collect()
    }
}

/// Makes a target whose name has its number.
fn presigned(request: &Request, count: usize) -> String {
    let asked: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let store = format!("http://{}/bucket", request.header("host").unwrap_or_default());
    let (endpoint, fields) = if asked["size"].as_u64().unwrap_or_default() > FORM_CEILING {
        let endpoint = format!("{store}/key?X-Amz-Algorithm=A&X-Amz-Signature={SIGNATURE}&target={count}");
        (endpoint, json!({ "Content-Type": asked["mime"] }).to_string())
    } else {
        let fields =
            format!(r#"{{"x-amz-signature":"{SIGNATURE}","key":"k","Content-Type":{}}}"#, asked["mime"]);
        (format!("{store}?target={count}"), fields)
    };
    let download_url = format!("https://host.example/{count}");
    let data = json!({ "endpoint": endpoint, "fields": fields, "download_url": download_url });
    json!({ "status": "success", "message": "", "data": data }).to_string()
}

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("inferstore-test-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a sparse file of this size.
    pub(crate) fn sparse(&self, name: &str, size: u64) -> io::Result<PathBuf> {
        let path = self.path(name);
        std::fs::File::create(&path)?.set_len(size)?;
        Ok(path)
    }

    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let entries =
            std::fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names: Vec<String> = entries.collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
