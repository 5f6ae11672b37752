//! Caller of the API and of object storage; a test controls each request.

use std::error::Error;
use std::fmt;

use inferstore_fetch::over_ring;
use inferstore_service::Service;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Method, Response};
use serde_json::{Map, Value, json};

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) http: Client,
    base_url: String,
    pub(crate) key: String,
}

#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) endpoint: String,
    pub(crate) download_url: String,
    pub(crate) fields: Map<String, Value>,
}

#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) status: u16,
    /// Error code of S3; empty for a success.
    pub(crate) code: String,
    message: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.code, self.message)
    }
}

impl Verdict {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

pub(crate) fn client() -> TestResult<Client> {
    Ok(over_ring(Client::builder()).no_proxy().build()?)
}

impl Caller {
    pub(crate) fn new(service: &Service, key: &str) -> TestResult<Self> {
        Ok(Self { http: client()?, base_url: service.base_url().to_owned(), key: key.to_owned() })
    }

    pub(crate) fn first(service: &Service) -> TestResult<Self> {
        Self::new(service, service.api_key().ok_or("the service is not fresh")?)
    }

    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> TestResult<Response> {
        let url = format!("{}{path}", self.base_url);
        let mut request = self.http.request(method, url).header("x-api-key", &self.key);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        Ok(request.send().await?)
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> TestResult<(u16, Value)> {
        let response = self.send(method, path, body).await?;
        Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
    }

    pub(crate) async fn must(&self, method: Method, path: &str, body: Option<Value>) -> TestResult<Value> {
        match self.call(method, path, body).await? {
            (200, response) if response["status"] == "success" => Ok(response),
            (status, response) => Err(format!("{path}: {status} {response}").into()),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> TestResult<Value> {
        Ok(self.must(Method::GET, path, None).await?["data"].take())
    }

    pub(crate) async fn status(&self, path: &str) -> TestResult<u16> {
        Ok(self.send(Method::GET, path, None).await?.status().as_u16())
    }

    pub(crate) async fn try_create(&self, model: &str, input: &Value) -> TestResult<(u16, Value)> {
        self.call(Method::POST, &format!("/api-key/model/{model}/task"), Some(input.clone())).await
    }

    pub(crate) async fn create(&self, model: &str, input: Value) -> TestResult<String> {
        match self.try_create(model, &input).await? {
            (200, response) => Ok(response["data"]["data"].as_str().unwrap_or_default().to_owned()),
            (status, response) => Err(format!("{status} {response}").into()),
        }
    }

    pub(crate) async fn task(&self, id: &str) -> TestResult<Value> {
        self.get(&format!("/api-key/task/{id}/detail")).await
    }

    pub(crate) async fn presign(&self, name: &str, mime: &str, size: u64) -> TestResult<Target> {
        let body = json!({"folder": "documents", "mime": mime, "name": name, "size": size});
        self.presign_with(body).await
    }

    pub(crate) async fn presign_with(&self, body: Value) -> TestResult<Target> {
        let path = "/api-key/storage/upload/create-presigned-url";
        let response = self.must(Method::POST, path, Some(body)).await?;
        let text = |name: &str| response["data"][name].as_str().unwrap_or_default().to_owned();
        Ok(Target {
            endpoint: text("endpoint"),
            download_url: text("download_url"),
            fields: serde_json::from_str(&text("fields"))?,
        })
    }

    pub(crate) async fn upload(&self, target: &Target, bytes: Vec<u8>) -> TestResult<Verdict> {
        if target.is_put() { self.put(target, bytes).await } else { self.post(target, &bytes).await }
    }

    pub(crate) async fn put(&self, target: &Target, bytes: Vec<u8>) -> TestResult<Verdict> {
        let request = self.http.put(&target.endpoint).header(CONTENT_TYPE, target.field("Content-Type"));
        verdict(request.body(bytes).send().await?).await
    }

    pub(crate) async fn post(&self, target: &Target, bytes: &[u8]) -> TestResult<Verdict> {
        self.post_form(target, &target.form(bytes), HeaderMap::new()).await
    }

    pub(crate) async fn post_form(
        &self,
        target: &Target,
        form: &[u8],
        headers: HeaderMap,
    ) -> TestResult<Verdict> {
        verdict(self.send_form(target, form, headers).await?).await
    }

    pub(crate) async fn send_form(
        &self,
        target: &Target,
        form: &[u8],
        headers: HeaderMap,
    ) -> TestResult<Response> {
        let request = self.http.post(&target.endpoint).headers(headers);
        let request = request.header(CONTENT_TYPE, "multipart/form-data; boundary=edge");
        Ok(request.header(CONTENT_LENGTH, form.len()).body(form.to_vec()).send().await?)
    }

    pub(crate) async fn store(&self, name: &str, mime: &str, bytes: &[u8]) -> TestResult<String> {
        let target = self.presign(name, mime, bytes.len() as u64).await?;
        let verdict = self.upload(&target, bytes.to_vec()).await?;
        if verdict.is_success() { Ok(target.download_url) } else { Err(format!("{verdict:?}").into()) }
    }

    pub(crate) async fn delete(&self, url: &str) -> TestResult<(u16, Value)> {
        self.call(Method::DELETE, "/api-key/storage/store/url", Some(json!({"url": url}))).await
    }

    pub(crate) async fn read(&self, url: &str) -> TestResult<(u16, String)> {
        let response = self.http.get(url).send().await?;
        Ok((response.status().as_u16(), response.text().await?))
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

pub(crate) fn file_part(headers: &str, bytes: &[u8]) -> Vec<u8> {
    [format!("--edge\r\n{headers}\r\n\r\n").as_bytes(), bytes, b"\r\n"].concat()
}

pub(crate) async fn verdict(response: Response) -> TestResult<Verdict> {
    let status = response.status().as_u16();
    if response.headers().get("x-amz-request-id").is_none() {
        return Err("a response has no x-amz-request-id".into());
    }
    let text = response.text().await?;
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0.to_owned())
    };
    let code = element("Code").unwrap_or_default();
    if status >= 400 && code.is_empty() {
        return Err(format!("{status} without a code: {text}").into());
    }
    Ok(Verdict { status, code, message: element("Message").unwrap_or_default() })
}
