//! Measured service, and requests to it.

use std::path::Path;
use std::process::Command;

use inferstore_measure::{Answer, Connection, Server, request};
use serde_json::Value;

pub(crate) struct Service {
    pub(crate) server: Server,
    pub(crate) base_url: String,
    pub(crate) key: String,
    pub(crate) operations: String,
    pub(crate) nodes: String,
    pub(crate) node_key: String,
}

impl Service {
    /// Starts a service on a folder; `None`: a temporary one, where nothing is synced to disk.
    pub(crate) fn start(folder: Option<&Path>, workers: usize) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_service-to-measure"));
        command.arg(folder.unwrap_or(Path::new("ephemeral"))).arg(workers.to_string());
        let server = Server::announced(&mut command).expect("the service starts");
        let [_, base_url, key, operations, nodes, node_key] = &server.words[..] else {
            panic!("the service says where it is, not {:?}", server.words)
        };
        let (base_url, key, operations) = (base_url.clone(), key.clone(), operations.clone());
        let (nodes, node_key) = (nodes.clone(), node_key.clone());
        Self { server, base_url, key, operations, nodes, node_key }
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
        to_api(&self.base_url, &self.key, method, path, body)
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.base_url).expect("the service listens")
    }
}

pub(crate) fn to_api(base_url: &str, key: &str, method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
    let headers = [("x-api-key", key), ("accept", "application/json"), ("content-type", "application/json")];
    let headers = if body.is_some() { &headers[..] } else { &headers[..2] };
    request(method, &format!("{base_url}{path}"), headers, body)
}

pub(crate) fn payload(answer: &Answer) -> Value {
    let text = String::from_utf8_lossy(&answer.body);
    assert!((200..300).contains(&answer.status), "{}: {text}", answer.status);
    let mut whole: Value = serde_json::from_slice(&answer.body).expect("JSON");
    whole["data"].take()
}
