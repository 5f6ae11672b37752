//! A service with its controls on, and a caller of both.

use std::error::Error;
use std::time::{Duration, Instant};

use inferstore_fetch::over_ring;
use inferstore_service::{Config, Controls, Service};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// A model that every service with controls can run.
pub(crate) const MODEL: &str = "color-extraction";

/// A running service with controls, and a client of its API.
pub(crate) struct Bench {
    pub(crate) service: Service,
    pub(crate) controls: Controls,
    pub(crate) http: Client,
    pub(crate) key: String,
}

impl Bench {
    pub(crate) async fn start() -> Outcome<Self> {
        Self::with(Config::ephemeral().with_controls()).await
    }

    pub(crate) async fn with(config: Config) -> Outcome<Self> {
        let service = Service::start(config).await?;
        let (controls, key) = (service.controls()?, service.api_key().unwrap_or_default().to_owned());
        Ok(Self { service, controls, http: over_ring(Client::builder()).no_proxy().build()?, key })
    }

    /// Calls the API and returns the status and the body.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Outcome<Response> {
        let url = format!("{}{path}", self.service.base_url());
        let mut request = self.http.request(method, url).header("x-api-key", &self.key);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        Ok(request.send().await?)
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Outcome<(u16, Value)> {
        let response = self.send(method, path, body).await?;
        Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
    }

    /// The payload of a read that has to succeed.
    pub(crate) async fn get(&self, path: &str) -> Outcome<Value> {
        match self.call(Method::GET, path, None).await? {
            (200, mut response) => Ok(response["data"].take()),
            (status, response) => Err(format!("{path}: {status} {response}").into()),
        }
    }

    /// Creates a task, and returns its identifier.
    pub(crate) async fn create(&self) -> Outcome<String> {
        match self.try_create().await? {
            (200, response) => Ok(response["data"]["data"].as_str().unwrap_or_default().to_owned()),
            (status, response) => Err(format!("{status} {response}").into()),
        }
    }

    pub(crate) async fn try_create(&self) -> Outcome<(u16, Value)> {
        let input = json!({"input": "https://files.example/street.png"});
        self.call(Method::POST, &format!("/api-key/model/{MODEL}/task"), Some(input)).await
    }

    pub(crate) async fn task(&self, id: &str) -> Outcome<Value> {
        self.get(&format!("/api-key/task/{id}/detail")).await
    }

    /// Reads a task until it has one of these statuses.
    pub(crate) async fn until(&self, id: &str, statuses: &[&str]) -> Outcome<Value> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            let task = self.task(id).await?;
            if statuses.iter().any(|status| task["status"] == *status) {
                return Ok(task);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(format!("{id} never came to be one of {statuses:?}").into())
    }

    pub(crate) async fn tasks(&self) -> Outcome<u64> {
        Ok(self.get("/api-key/task/histories").await?["total"].as_u64().unwrap_or_default())
    }

    pub(crate) async fn balance(&self) -> Outcome<Value> {
        self.get("/api-key/balance").await
    }

    /// Uploads a small file into `documents`, and returns its URL.
    pub(crate) async fn store(&self, name: &str, content: &str) -> Outcome<String> {
        let target = self.presign(name, content.len()).await?;
        let response = self.upload(&target, content).await?;
        match response.status().is_success() {
            true => Ok(target["download_url"].as_str().unwrap_or_default().to_owned()),
            false => Err(format!("{}: {}", response.status(), response.text().await?).into()),
        }
    }

    pub(crate) async fn presign(&self, name: &str, size: usize) -> Outcome<Value> {
        let body = json!({"folder": "documents", "mime": "text/plain", "name": name, "size": size});
        let path = "/api-key/storage/upload/create-presigned-url";
        match self.call(Method::POST, path, Some(body)).await? {
            (200, mut response) => Ok(response["data"].take()),
            (status, response) => Err(format!("{status} {response}").into()),
        }
    }

    pub(crate) async fn upload(&self, target: &Value, content: &str) -> Outcome<Response> {
        let fields: serde_json::Map<String, Value> =
            serde_json::from_str(target["fields"].as_str().unwrap_or_default())?;
        let mut form = String::new();
        for (name, value) in &fields {
            let value = value.as_str().unwrap_or_default();
            form.push_str(&format!(
                "--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            ));
        }
        form.push_str("--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n");
        form.push_str(content);
        form.push_str("\r\n--edge--\r\n");
        let request = self.http.post(target["endpoint"].as_str().unwrap_or_default());
        let request = request.header("content-type", "multipart/form-data; boundary=edge");
        Ok(request.body(form).send().await?)
    }

    /// The text behind a URL of the object store, and its status.
    pub(crate) async fn read(&self, url: &str) -> Outcome<(u16, String)> {
        let response = self.http.get(url).send().await?;
        Ok((response.status().as_u16(), response.text().await?))
    }

    /// The books add up.
    pub(crate) async fn audit(&self) -> Outcome {
        let faults = self.service.audit().await?.faults;
        if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
    }
}
