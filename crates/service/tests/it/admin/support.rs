//! A service on a folder, its operator, and a caller of its API.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use inferstore_fetch::over_ring;
use inferstore_service::{AdminClient, Config, Data, Service};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// A running service on a folder that goes with it.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) service: Service,
    pub(crate) admin: AdminClient,
    pub(crate) caller: Caller,
}

/// A caller of the API.
#[derive(Clone)]
pub(crate) struct Caller {
    http: Client,
    base_url: String,
    pub(crate) key: String,
}

impl Bench {
    pub(crate) async fn start() -> Outcome<Self> {
        Self::with(Config::ephemeral()).await
    }

    /// The same with settings; the data are in the folder.
    pub(crate) async fn with(config: Config) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let mut config = config.with_controls();
        config.data = Data::Folder(folder.path().to_owned());
        let service = Service::start(config).await?;
        let admin = AdminClient::open(folder.path()).await?;
        let caller = Caller::new(&service, service.api_key().ok_or("the folder is new")?)?;
        Ok(Self { folder, service, admin, caller })
    }
}

/// Starts a service on a folder.
pub(crate) async fn start(folder: &Path) -> Outcome<Service> {
    Ok(Service::start(Config::folder(folder)).await?)
}

impl Caller {
    pub(crate) fn new(service: &Service, key: &str) -> Outcome<Self> {
        let http = over_ring(Client::builder()).no_proxy().timeout(Duration::from_secs(60)).build()?;
        Ok(Self { http, base_url: service.base_url().to_owned(), key: key.to_owned() })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base_url)).header("x-api-key", &self.key)
    }

    pub(crate) async fn status(&self, path: &str) -> Outcome<u16> {
        Ok(self.request(Method::GET, path).send().await?.status().as_u16())
    }

    pub(crate) async fn get(&self, path: &str) -> Outcome<Value> {
        let response = self.request(Method::GET, path).send().await?.error_for_status()?;
        let mut response: Value = serde_json::from_str(&response.text().await?)?;
        Ok(response["data"].take())
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Value) -> Outcome<Value> {
        let request = self.request(method, path).header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await?;
        let (status, text) = (response.status(), response.text().await?);
        if !status.is_success() {
            return Err(format!("{path}: {status} {text}").into());
        }
        let mut response: Value = serde_json::from_str(&text)?;
        Ok(response["data"].take())
    }

    /// Uploads a file, and returns its URL.
    pub(crate) async fn upload(&self, name: &str, content: &str) -> Outcome<String> {
        let target =
            json!({"folder": "documents", "mime": "text/plain", "name": name, "size": content.len()});
        let target = self.send(Method::POST, "/api-key/storage/upload/create-presigned-url", target).await?;
        let fields: Value = serde_json::from_str(target["fields"].as_str().unwrap_or_default())?;
        let mut form = String::new();
        for (name, value) in fields.as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            form.push_str(&format!(
                "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            ));
        }
        form.push_str("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n");
        form.push_str(&format!("{content}\r\n--b--\r\n"));
        let request = self.http.post(target["endpoint"].as_str().unwrap_or_default());
        let request = request.header("content-type", "multipart/form-data; boundary=b").body(form);
        request.send().await?.error_for_status()?;
        Ok(target["download_url"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) async fn delete_file(&self, url: &str) -> Outcome {
        self.send(Method::DELETE, "/api-key/storage/store/url", json!({ "url": url })).await.map(drop)
    }

    /// The status and the text behind a URL of object storage.
    pub(crate) async fn read(&self, url: &str) -> Outcome<(u16, String)> {
        let response = self.http.get(url).send().await?;
        Ok((response.status().as_u16(), response.text().await?))
    }
}
