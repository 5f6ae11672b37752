//! A service to upload to, and a client of its storage whose every request a test chooses.

use std::error::Error;
use std::net::SocketAddr;

use inferstore_fetch::over_ring;
use inferstore_service::{Config, S3Config, Service};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Method, Response};
use serde_json::{Map, Value, json};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The variable that names a bucket, as `inferstore serve --objects` does. `.ci/cluster` sets it, and the suite
/// runs against that bucket then.
const BUCKET_VARIABLE: &str = "INFERSTORE_TEST_OBJECTS";

/// A prefix of its own in the bucket of the environment, if there is one.
pub(crate) fn bucket() -> Outcome<Option<S3Config>> {
    let Ok(url) = std::env::var(BUCKET_VARIABLE) else { return Ok(None) };
    let key = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let (bucket, parameters) = url.split_once('?').ok_or(format!("{BUCKET_VARIABLE} has no parameters"))?;
    let prefix = format!("{:016x}", fastrand::u64(..));
    let url = format!("{bucket}/{prefix}?{parameters}");
    Ok(Some(S3Config::new(&url, &key("AWS_ACCESS_KEY_ID")?, &key("AWS_SECRET_ACCESS_KEY")?)?))
}

/// A running service and a client of it.
pub(crate) struct Bench {
    pub(crate) service: Service,
    pub(crate) http: Client,
    pub(crate) key: String,
}

/// A target, as the service returned it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) endpoint: String,
    pub(crate) download_url: String,
    pub(crate) fields: Map<String, Value>,
}

/// What the object store said about an upload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) status: u16,
    /// S3's code, empty for a success.
    pub(crate) code: String,
}

impl Verdict {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// A client that speaks plain HTTP straight to this machine.
pub(crate) fn client() -> Outcome<Client> {
    Ok(over_ring(Client::builder()).no_proxy().build()?)
}

impl Bench {
    pub(crate) async fn start() -> Outcome<Self> {
        Self::with(Config::ephemeral()).await
    }

    /// Starts a service with these settings, and with the bucket of `bucket` where there is one.
    pub(crate) async fn with(mut config: Config) -> Outcome<Self> {
        if config.objects.is_none() {
            config.objects = bucket()?;
        }
        let chosen = config.first_account.api_key.clone();
        let service = Service::start(config).await?;
        let key = service.api_key().map(str::to_owned).or(chosen).ok_or("the service is not fresh")?;
        Ok(Self { service, http: client()?, key })
    }

    /// Calls the API: its status and the body.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Outcome<(u16, Value)> {
        let url = format!("{}{path}", self.service.base_url());
        let mut request = self.http.request(method, url).header("x-api-key", &self.key);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let response = request.send().await?;
        Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
    }

    /// The payload of a call that has to succeed.
    pub(crate) async fn get(&self, path: &str) -> Outcome<Value> {
        match self.call(Method::GET, path, None).await? {
            (200, mut response) if response["status"] == "success" => Ok(response["data"].take()),
            (status, response) => Err(format!("{path}: {status} {response}").into()),
        }
    }

    pub(crate) async fn presign(&self, name: &str, mime: &str, size: u64) -> Outcome<Target> {
        let body = json!({"folder": "documents", "mime": mime, "name": name, "size": size});
        self.presign_with(body).await
    }

    pub(crate) async fn presign_with(&self, body: Value) -> Outcome<Target> {
        let path = "/api-key/storage/upload/create-presigned-url";
        let (status, response) = self.call(Method::POST, path, Some(body)).await?;
        if status != 200 {
            return Err(format!("presign: {status} {response}").into());
        }
        let text = |name: &str| response["data"][name].as_str().unwrap_or_default().to_owned();
        Ok(Target {
            endpoint: text("endpoint"),
            download_url: text("download_url"),
            fields: serde_json::from_str(&text("fields"))?,
        })
    }

    /// Uploads as the description says: by what the target looks like.
    pub(crate) async fn upload(&self, target: &Target, bytes: Vec<u8>) -> Outcome<Verdict> {
        if target.is_put() { self.put(target, bytes).await } else { self.post(target, &bytes).await }
    }

    pub(crate) async fn put(&self, target: &Target, bytes: Vec<u8>) -> Outcome<Verdict> {
        let request = self.http.put(&target.endpoint).header(CONTENT_TYPE, target.field("Content-Type"));
        verdict(request.body(bytes).send().await?).await
    }

    pub(crate) async fn post(&self, target: &Target, bytes: &[u8]) -> Outcome<Verdict> {
        self.post_form(target, &target.form(bytes), HeaderMap::new()).await
    }

    pub(crate) async fn post_form(
        &self,
        target: &Target,
        form: &[u8],
        headers: HeaderMap,
    ) -> Outcome<Verdict> {
        let request = self.http.post(&target.endpoint).headers(headers);
        let request = request.header(CONTENT_TYPE, "multipart/form-data; boundary=edge");
        verdict(request.header(CONTENT_LENGTH, form.len()).body(form.to_vec()).send().await?).await
    }

    /// Stores a file in `documents`, and returns its URL.
    pub(crate) async fn store(&self, name: &str, mime: &str, bytes: &[u8]) -> Outcome<String> {
        let target = self.presign(name, mime, bytes.len() as u64).await?;
        let verdict = self.upload(&target, bytes.to_vec()).await?;
        if verdict.is_success() { Ok(target.download_url) } else { Err(format!("{verdict:?}").into()) }
    }

    pub(crate) async fn delete(&self, url: &str) -> Outcome<(u16, Value)> {
        self.call(Method::DELETE, "/api-key/storage/store/url", Some(json!({"url": url}))).await
    }

    /// How many files there are, as the statistics and the disk have it: nothing may lie about.
    pub(crate) async fn count(&self) -> Outcome<u64> {
        let counted = self.get("/api-key/storage/upload/statistics").await?["total_files"].as_u64();
        if std::env::var_os(BUCKET_VARIABLE).is_some() {
            return counted.ok_or_else(|| "the statistics have no number".into());
        }
        let objects = self.service.data_folder().join("objects");
        let mut blobs = 0;
        for folder in std::fs::read_dir(objects.join("blobs"))? {
            blobs += std::fs::read_dir(folder?.path())?.count() as u64;
        }
        let incoming = std::fs::read_dir(objects.join("incoming"))?.count();
        if counted != Some(blobs) || incoming > 0 {
            return Err(format!("{counted:?} files, {blobs} blobs, {incoming} incoming").into());
        }
        Ok(blobs)
    }
}

impl Target {
    pub(crate) fn is_put(&self) -> bool {
        self.endpoint.contains("X-Amz-Algorithm")
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn with_field(&self, name: &str, value: &str) -> Self {
        let mut target = self.clone();
        target.fields.insert(name.to_owned(), value.into());
        target
    }

    /// The form: every field, then the file.
    pub(crate) fn form(&self, bytes: &[u8]) -> Vec<u8> {
        let mut form = self.field_parts();
        form.extend(file_part("Content-Disposition: form-data; name=\"file\"; filename=\"file\"", bytes));
        form.extend(b"--edge--\r\n");
        form
    }

    pub(crate) fn field_parts(&self) -> Vec<u8> {
        let part = |name: &String, value: &Value| {
            let value = value.as_str().unwrap_or_default();
            format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        self.fields.iter().map(|(name, value)| part(name, value)).collect::<String>().into_bytes()
    }
}

/// The part of a form that holds the file, with these headers.
pub(crate) fn file_part(headers: &str, bytes: &[u8]) -> Vec<u8> {
    [format!("--edge\r\n{headers}\r\n\r\n").as_bytes(), bytes, b"\r\n"].concat()
}

pub(crate) async fn verdict(response: Response) -> Outcome<Verdict> {
    let status = response.status().as_u16();
    if response.headers().get("x-amz-request-id").is_none() {
        return Err("an response has no x-amz-request-id".into());
    }
    let text = response.text().await?;
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let code = code.map(|(code, _)| code.to_owned()).unwrap_or_default();
    if status >= 400 && code.is_empty() {
        return Err(format!("{status} without a code: {text}").into());
    }
    Ok(Verdict { status, code })
}

/// An address of this machine that is free now, for a service that is started several times.
pub(crate) fn free_address() -> Outcome<SocketAddr> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// Bytes that show it when any of them is lost or moved.
pub(crate) fn pattern(length: u64) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}
