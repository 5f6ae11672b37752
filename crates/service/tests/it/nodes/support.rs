//! A service without workers of its own, its customers, and nodes whose every request a test chooses.

use std::error::Error;
use std::time::Duration;

use inferstore_fetch::over_ring;
use inferstore_service::{Config, ModelSpec, Scope, Service};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method};
use serde_json::{Value, json};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Long enough that nothing is lost by accident, short enough to wait for.
pub(crate) const LEASE: Duration = Duration::from_millis(400);
pub(crate) const PUBLISHER: &str = "ada";
pub(crate) const PRICE: &str = "0.25";

/// A running service, a client of it, and the key of nodes.
pub(crate) struct Bench {
    pub(crate) service: Service,
    pub(crate) http: Client,
    pub(crate) node_key: String,
    key: String,
    publisher_key: String,
}

/// A node that has registered.
pub(crate) struct Node<'a> {
    bench: &'a Bench,
    pub(crate) url: String,
}

/// A task on a node, with the address of its lease.
#[derive(Debug)]
pub(crate) struct Leased {
    pub(crate) url: String,
    pub(crate) task: String,
    pub(crate) data: Value,
}

impl Bench {
    pub(crate) async fn start() -> Outcome<Self> {
        let mut config = Config::ephemeral();
        config.nodes = Some(([127, 0, 0, 1], 0).into());
        config.workers = 0;
        config.lease = LEASE;
        Self::around(Service::start(config).await?).await
    }

    pub(crate) async fn around(service: Service) -> Outcome<Self> {
        let key = service.api_key().ok_or("the service is not fresh")?.to_owned();
        service.add_account(PUBLISHER, Scope::Personal).await?;
        let publisher_key = service.add_key(PUBLISHER).await?;
        let node_key = service.add_node_key("bench").await?;
        Ok(Self {
            service,
            http: over_ring(Client::builder()).no_proxy().build()?,
            node_key,
            key,
            publisher_key,
        })
    }

    /// Ends the service in order and starts the next one in the same folder.
    pub(crate) async fn restart(self, next: impl Future<Output = Outcome<Service>>) -> Outcome<Self> {
        let Self { service, http, node_key, key, publisher_key } = self;
        service.shutdown().await;
        Ok(Self { service: next.await?, http, node_key, key, publisher_key })
    }

    /// Publishes a model that turns a text and perhaps a file into a text and a file.
    pub(crate) async fn publish(&self, id: &str) -> Outcome {
        self.service.publish_model(PUBLISHER, echo(id)?).await?;
        Ok(())
    }

    pub(crate) async fn get(&self, path: &str) -> Outcome<Value> {
        self.get_as(&self.key, path).await
    }

    /// What the publisher reads.
    pub(crate) async fn get_as_publisher(&self, path: &str) -> Outcome<Value> {
        self.get_as(&self.publisher_key, path).await
    }

    async fn get_as(&self, key: &str, path: &str) -> Outcome<Value> {
        Ok(self.response_as(key, path).await?["data"].take())
    }

    /// The whole response to a read that succeeds.
    async fn response_as(&self, key: &str, path: &str) -> Outcome<Value> {
        let url = format!("{}{path}", self.service.base_url());
        let text = self.http.get(url).header("x-api-key", key).send().await?.text().await?;
        let response: Value = serde_json::from_str(&text)?;
        if response["status"] == "success" { Ok(response) } else { Err(text.into()) }
    }

    pub(crate) async fn create(&self, model: &str, input: Value) -> Outcome<String> {
        let (_, response) = self.create_as(&self.key, model, &input).await?;
        Ok(response["data"]["data"].as_str().ok_or_else(|| response.to_string())?.to_owned())
    }

    /// Creates a task with a key: the status and the body.
    pub(crate) async fn create_as(&self, key: &str, model: &str, input: &Value) -> Outcome<(u16, Value)> {
        let url = format!("{}/api-key/model/{model}/task", self.service.base_url());
        let request = self.http.post(url).header("x-api-key", key);
        let request = request.header(CONTENT_TYPE, "application/json").body(input.to_string());
        let response = request.send().await?;
        Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
    }

    /// The task once it has ended.
    pub(crate) async fn ended(&self, task: &str) -> Outcome<Value> {
        loop {
            let read = self.task(task).await?;
            if !matches!(read["status"].as_str(), Some("in_queue" | "computing")) {
                return Ok(read);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn task(&self, id: &str) -> Outcome<Value> {
        self.get(&format!("/api-key/task/{id}/detail")).await
    }

    /// What the service says of the task beside its record.
    pub(crate) async fn message_of(&self, task: &str) -> Outcome<String> {
        let response = self.response_as(&self.key, &format!("/api-key/task/{task}/detail")).await?;
        Ok(response["message"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn nodes_url(&self) -> Outcome<String> {
        Ok(format!("{}/nodes/v1", self.service.nodes_url().ok_or("there is no listener for nodes")?))
    }

    /// Calls the listener of nodes: its status and the body.
    pub(crate) async fn call(&self, url: &str, key: &str, body: &Value) -> Outcome<(u16, Value)> {
        let request = self.http.post(url).header("x-node-key", key);
        let request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        let response = request.send().await?;
        Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
    }

    pub(crate) async fn register(&self, models: &[&str]) -> Outcome<Node<'_>> {
        let url = self.nodes_url()?;
        let (status, response) =
            self.call(&format!("{url}/register"), &self.node_key, &json!({ "models": models })).await?;
        let node = response["data"]["node"].as_str().filter(|_| status == 200);
        let node = node.ok_or_else(|| format!("register: {status} {response}"))?;
        Ok(Node { url: format!("{url}/{node}"), bench: self })
    }
}

impl Node<'_> {
    pub(crate) async fn call(&self, path: &str, body: &Value) -> Outcome<(u16, Value)> {
        self.bench.call(&format!("{}{path}", self.url), &self.bench.node_key, body).await
    }

    /// A task, if there is one within so many seconds.
    pub(crate) async fn lease(&self, wait_seconds: f64) -> Outcome<Option<Leased>> {
        let (status, mut response) = self.call("/lease", &json!({ "wait_seconds": wait_seconds })).await?;
        if status != 200 {
            return Err(format!("lease: {status} {response}").into());
        }
        let data = response["data"].take();
        let Some(task) = data["task"].as_str().map(str::to_owned) else { return Ok(None) };
        Ok(Some(Leased { url: format!("{}/tasks/{task}/{}", self.url, data["attempt"]), task, data }))
    }

    pub(crate) async fn of_lease(&self, lease: &Leased, path: &str, body: &Value) -> Outcome<(u16, Value)> {
        self.bench.call(&format!("{}{path}", lease.url), &self.bench.node_key, body).await
    }

    pub(crate) async fn put(
        &self,
        lease: &Leased,
        file: &str,
        mime: &str,
        bytes: &[u8],
    ) -> Outcome<(u16, Value)> {
        let request = self.bench.http.put(format!("{}/files/{file}", lease.url));
        let request = request.header("x-node-key", &self.bench.node_key).header(CONTENT_TYPE, mime);
        let response = request.body(bytes.to_vec()).send().await?;
        Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
    }

    /// Does everything right: puts the file, hands in what came out. The status of the end.
    pub(crate) async fn finish(&self, lease: &Leased, said: &str) -> Outcome<u16> {
        let (status, response) = self.put(lease, "picture.png", "image/png", said.as_bytes()).await?;
        if status != 200 {
            return Ok(status);
        }
        let output = json!({ "output": { "picture": response["data"]["url"], "said": said } });
        Ok(self.of_lease(lease, "/finish", &output).await?.0)
    }
}

/// The model of these tests.
pub(crate) fn echo(id: &str) -> Outcome<ModelSpec> {
    let spec = json!({
        "id": id, "name": "echo", "description": "Says it again.", "price": PRICE, "visibility": "public",
        "input_format": { "say": { "type": "string", "required": true, "position": 0 } },
        "output_format": {
            "said": { "type": "string", "position": 0 },
            "picture": { "type": "file", "mime_type": ["image/png"], "position": 1 }
        }
    });
    Ok(ModelSpec::from_json(&spec.to_string())?)
}

/// Posts and hangs up: after all of the request, without reading the response, or in the middle of it.
pub(crate) async fn post_and_hang_up(bench: &Bench, url: &str, body: &str, is_whole: bool) -> Outcome {
    use tokio::io::AsyncWriteExt;
    let url = reqwest::Url::parse(url)?;
    let host = format!("{}:{}", url.host_str().unwrap_or_default(), url.port().unwrap_or_default());
    let mut stream = tokio::net::TcpStream::connect(&host).await?;
    let (key, path, length) = (&bench.node_key, url.path(), body.len());
    let head = format!(
        "{} {path} HTTP/1.1\r\nhost: {host}\r\nx-node-key: {key}\r\ncontent-type: {}\r\n\
         content-length: {length}\r\n\r\n",
        if path.contains("/files/") { Method::PUT } else { Method::POST },
        if path.contains("/files/") { "image/png" } else { "application/json" },
    );
    let sent = if is_whole { body.len() } else { body.len() / 2 };
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body.as_bytes()[..sent]).await?;
    stream.flush().await?;
    if is_whole {
        // Long enough to arrive, too short for a response to be certain.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}
