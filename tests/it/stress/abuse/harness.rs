//! Service in a process of its own, one honest caller, and measurements during abuse.

use std::time::{Duration, Instant};

use inferstore_wire::until;
use serde_json::json;
use tempfile::TempDir;

use super::super::process::{Process, Start, free_ports};
use super::super::raw::{self, BACKSTOP};
use super::super::uploads::Target;
use crate::support::caller::Caller;

const CONTENT: &[u8] = b"an honest file";

pub(super) struct Harness {
    pub(super) process: Process,
    pub(super) honest: Caller,
    pub(super) api: String,
    pub(super) storage: String,
    pub(super) operations: String,
    pub(super) nodes: String,
    pub(super) second_key: String,
    pub(super) node_key: String,
    folder: TempDir,
    memory_before: u64,
    handles_before: usize,
}

impl Harness {
    pub(super) async fn open(settings: &[(&str, u64)]) -> Self {
        raise_the_limit_of_handles();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ports = free_ports::<4>();
        let mut reported: Vec<_> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        reported.push(format!("operations={}", ports[2]));
        reported.push(format!("nodes={}", ports[3]));
        let start = Start::plain(folder.path(), [ports[0], ports[1]]);
        let process = Start { settings: &reported, ..start }.ready();
        let honest = Caller::at(&process.base_url, Some(&process.api_key));
        let [api, storage, operations, nodes] = ports.map(|port| format!("127.0.0.1:{port}"));
        let [second_key, node_key] = &process.further_keys[..] else { panic!("two keys were asked for") };
        let (second_key, node_key) = (second_key.clone(), node_key.clone());
        let mut harness = Self {
            process,
            honest,
            api,
            storage,
            operations,
            nodes,
            second_key,
            node_key,
            folder,
            memory_before: 0,
            handles_before: 0,
        };
        harness.serve_the_honest(3).await;
        harness.memory_before = harness.process.peak_memory();
        harness.handles_before = harness.process.handles();
        harness
    }

    /// Runs rounds of all operations of the honest caller, each of which must be answered; returns the total time.
    pub(super) async fn serve_the_honest(&self, rounds: usize) -> Duration {
        let begun = Instant::now();
        let rounds = async {
            for _ in 0..rounds {
                // A full service closes connections that have been idle for a while.
                let honest = self.honest.anew();
                honest.get("/api-key/balance").await.data();
                honest.post("/api-key/model/list", &json!({"search": "color"})).await.data();
                let url = self.store("honest.txt", CONTENT.to_vec(), &honest).await.download_url;
                let content = honest.http().get(&url).send().await.expect("an answer");
                assert_eq!(content.bytes().await.expect("it arrives whole"), CONTENT);
                let input = json!({ "input": url });
                let task = honest.post("/api-key/model/color-extraction/task", &input).await;
                let task = task.data()["data"].as_str().expect("an identifier").to_owned();
                honest.get(&format!("/api-key/task/{task}/detail")).await.data();
            }
        };
        tokio::time::timeout(BACKSTOP, rounds).await.expect("honest clients are served all the time");
        begun.elapsed()
    }

    pub(super) async fn target(&self, name: &str, size: usize, caller: &Caller) -> Target {
        let order = json!({"folder": "samples", "mime": "text/plain", "name": name, "size": size});
        Target::read(caller.post("/api-key/storage/upload/create-presigned-url", &order).await.data())
    }

    pub(super) async fn store(&self, name: &str, content: Vec<u8>, caller: &Caller) -> Target {
        let target = self.target(name, content.len(), caller).await;
        let reply = target.upload(content).send().await.expect("an answer");
        assert!(matches!(reply.status, 200 | 204), "{reply:?}");
        target
    }

    pub(super) fn second(&self) -> Caller {
        self.honest.with_key(Some(&self.second_key))
    }

    pub(super) fn held(&self) -> usize {
        self.process.handles().saturating_sub(self.handles_before)
    }

    pub(super) fn grown(&self) -> u64 {
        self.process.peak_memory().saturating_sub(self.memory_before)
    }

    /// Waits until no connection but the honest caller's, no request and no partial file is left.
    pub(super) async fn until_released(&self) {
        until("everything is released", || async {
            self.held() <= 8 && self.halves() == 0 && self.in_progress().await == 0
        })
        .await;
    }

    pub(super) fn halves(&self) -> usize {
        let incoming = self.folder.path().join("objects/incoming");
        std::fs::read_dir(incoming).into_iter().flatten().count()
    }

    pub(super) async fn in_progress(&self) -> u64 {
        let request = "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let reply = raw::exchange(&self.operations, request.as_bytes(), false).await.expect("figures");
        let line = reply.text.lines().find_map(|line| line.strip_prefix("inferstore_requests_in_progress "));
        line.and_then(|number| number.parse().ok()).expect("a figure")
    }
}

/// Raises the limit on open files to the maximum of the machine: ten thousand connections exceed the default.
/// Child processes inherit the limit.
fn raise_the_limit_of_handles() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("up to the hard limit everybody may");
}
