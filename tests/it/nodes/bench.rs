//! Service without workers of its own, a customer, and nodes.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use inferstore::{Client, Inputs};
use inferstore_node::{Config as NodeConfig, NodeKey, serve};
use inferstore_service::{Config, ModelSpec, Scope, Service};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::Quickly;

pub(crate) const LEASE: Duration = Duration::from_millis(900);
pub(crate) const PUBLISHER: &str = "ada";

pub(crate) struct Bench {
    pub(crate) service: Service,
    pub(crate) client: Client,
    pub(crate) key: String,
}

pub(crate) struct Node {
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), inferstore_node::Error>>,
}

impl Bench {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::ephemeral();
        config.nodes = Some(([127, 0, 0, 1], 0).into());
        config.workers = 0;
        config.lease = LEASE;
        change(&mut config);
        let service = Service::start(config).await.expect("the service starts");
        service.add_account(PUBLISHER, Scope::Personal).await.expect("the name is free");
        let key = service.add_node_key("bench").await.expect("the name is free");
        let api_key = service.api_key().expect("the service is fresh");
        let client = Client::new(service.base_url(), api_key).expect("the address is right");
        Self { service, client, key }
    }

    pub(crate) async fn publish(&self, id: &str, inputs: Value, outputs: Value) {
        let spec = json!({
            "id": id, "name": id, "description": "For a test.", "price": "0.5", "visibility": "public",
            "input_format": inputs, "output_format": outputs
        });
        let spec = ModelSpec::from_json(&spec.to_string()).expect("the model is well-formed");
        self.service.publish_model(PUBLISHER, spec).await.expect("the model can be published");
    }

    pub(crate) fn settings(&self, models: &Value) -> String {
        let nodes_url = self.service.nodes_url().expect("there is a listener for nodes");
        json!({ "service": nodes_url, "models": models }).to_string()
    }

    pub(crate) fn node(&self, models: &Value) -> Node {
        Node::start(&self.settings(models), &self.key)
    }

    pub(crate) async fn run(&self, model: &str, inputs: Inputs) -> Result<Value, String> {
        let run = async { self.client.model(model).run(inputs).quickly().await };
        let ran = tokio::time::timeout(Duration::from_mins(1), run).await;
        match ran.expect("the task ends within a minute") {
            Ok(outcome) => Ok(outcome.output),
            Err(failure) => Err(failure.to_string()),
        }
    }

    pub(crate) async fn download(&self, url: &Value) -> Vec<u8> {
        let url = url.as_str().expect("a file is passed as its URL");
        self.client.download(url).bytes().await.expect("the object store answers").to_vec()
    }

    pub(crate) async fn earned(&self) -> String {
        let audit = self.service.audit().await.expect("the books can be read");
        assert_eq!(audit.faults, Vec::<String>::new());
        let key = self.service.add_key(PUBLISHER).await.expect("the account is there");
        let publisher = Client::new(self.service.base_url(), key).expect("the address is right");
        let balance = publisher.balance().await.expect("the service answers");
        balance.earnings.expect("the publisher has earnings").to_string()
    }
}

impl Node {
    /// Starts a node with these settings, in JSON.
    pub(crate) fn start(settings: &str, key: &str) -> Self {
        Self::with(NodeConfig::from_json(settings).expect("the settings are right"), key)
    }

    pub(crate) fn with(config: NodeConfig, key: &str) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let key = NodeKey::new(key);
        let running = tokio::spawn(async move { serve(config, key, async { drop(stopped.await) }).await });
        Self { stop: Some(stop), running }
    }

    pub(crate) async fn stop(mut self) -> Result<(), inferstore_node::Error> {
        drop(self.stop.take());
        self.running.await.expect("the node does not crash")
    }

    pub(crate) async fn ended(self) -> Result<(), inferstore_node::Error> {
        self.running.await.expect("the node does not crash")
    }
}

pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::piped()).spawn().expect("the program is there"))
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().expect("the process is ours");
        self.0.wait().expect("a killed process ends");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
