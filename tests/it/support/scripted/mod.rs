//! A service for tests of clients: it does what the description says, on real sockets and in memory,
//! and misbehaves when told to.

mod answer;
mod catalog;
mod clock;
mod content;
mod fault;
mod fault_queue;
mod form;
mod http;
mod inputs;
mod journal;
mod object_storage;
mod plan;
mod route;
mod serving;
mod state;
mod storage;
mod tasks;
mod tests;
mod uri;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) use catalog::DEFAULT_MODEL;
pub(crate) use content::{Content, Fingerprint};
pub(crate) use fault::{Fault, Repeated};
pub(crate) use journal::Entry;
pub(crate) use object_storage::Upload;
pub(crate) use plan::{Stay, TaskPlan};
pub(crate) use route::Route;
pub(crate) use state::Funds;
pub(crate) use storage::PRESIGNED_SECRET;
pub(crate) use tasks::CreatedTask;

use catalog::Model;
use fault_queue::{Random, Rate};
use route::Side;
use serving::Shared;
use state::State;

/// The service, until it is dropped.
pub(crate) struct ScriptedService {
    api_origin: String,
    shared: Arc<Shared>,
    listeners: [JoinHandle<()>; 2],
}

impl ScriptedService {
    /// Listens on two free ports of the loopback interface: one for the API, one for object storage.
    pub(crate) async fn start() -> Self {
        let (api, api_origin) = listen().await;
        let (storage, storage_origin) = listen().await;
        let shared = Arc::new(Shared::new(State::new(storage_origin)));
        let listeners = [(api, Side::Api), (storage, Side::Storage)]
            .map(|(listener, side)| tokio::spawn(serving::serve(listener, side, Arc::clone(&shared))));
        Self { api_origin, shared, listeners }
    }

    /// The versioned root, as a client is told it.
    pub(crate) fn base_url(&self) -> String {
        format!("{}/api/v1", self.api_origin)
    }

    /// The only key that the service accepts.
    pub(crate) fn key(&self) -> &'static str {
        state::KEY
    }

    // ---- faults ----------------------------------------------------------------------------------

    /// The next request of the operation meets this fault: once, or as often as `times` and `always`
    /// say. Several wait in line. What is told of an operation comes before what is told of any.
    pub(crate) async fn fault(&self, route: Route, fault: impl Into<Repeated>) {
        self.shared.faults().add(route, fault.into());
    }

    /// Requests of the operation that no waiting fault meets, meet one of these with a probability
    /// from 0 to 1. The same seed draws the same sequence.
    pub(crate) async fn fault_rate(&self, route: Route, probability: f64, faults: Vec<Fault>, seed: u64) {
        self.shared.faults().add_rate(Rate { route, probability, faults, random: Random(seed) });
    }

    /// From now on the service behaves.
    pub(crate) async fn clear_faults(&self) {
        self.shared.faults().clear();
    }

    /// How many faults wait that were to happen a number of times. A test that ends with some left
    /// did not test what it says.
    pub(crate) fn faults_left(&self) -> usize {
        self.shared.faults().left()
    }

    // ---- models and money ------------------------------------------------------------------------

    /// Adds a model: any fields of a model and of its version in one object. Only `id` is required.
    pub(crate) fn add_model(&self, model: Value) {
        self.shared.state().models.push(Model::new(model));
    }

    /// What becomes of tasks of the model that are created from now on.
    pub(crate) fn set_plan(&self, model: &str, plan: TaskPlan) {
        self.shared.state().model(model).plan = plan;
    }

    /// Whether anything serves the model. While nothing does, its tasks stay in the queue.
    pub(crate) fn set_serving(&self, model: &str, serving: bool) {
        self.shared.state().model(model).is_serving = serving;
    }

    /// Any JSON, since a price may also be a number in quotes, or null.
    pub(crate) fn set_price(&self, model: &str, price: Value) {
        self.shared.state().model(model).record["price"] = price;
    }

    /// Activates another version of the model, with other inputs.
    pub(crate) fn set_version(&self, model: &str, commit_hash: &str, input_format: Value) {
        let mut state = self.shared.state();
        let version = &mut state.model(model).version;
        version["commit_hash"] = commit_hash.into();
        version["input_format"] = input_format;
    }

    pub(crate) fn set_funds(&self, funds: Funds) {
        self.shared.state().funds = funds;
    }

    /// Sets the clock of the service ahead, or behind with a negative number.
    pub(crate) fn set_clock_ahead(&self, seconds: i64) {
        self.shared.state().clock.seconds_ahead = seconds;
    }

    // ---- tasks -----------------------------------------------------------------------------------

    /// The tasks that requests created, in order.
    pub(crate) fn created(&self) -> Vec<CreatedTask> {
        let mut state = self.shared.state();
        state.let_time_pass();
        state.tasks.iter().filter(|task| task.was_requested).map(tasks::Task::as_created).collect()
    }

    /// The tasks that requests canceled, in order.
    pub(crate) fn canceled(&self) -> Vec<String> {
        self.shared.state().canceled.clone()
    }

    /// Puts a task into the history as if another client had created it now. Returns its identifier.
    /// A task on a model that the service does not have stays in the queue.
    pub(crate) fn add_task(&self, model: &str, input_data: Value) -> String {
        self.shared.state().add_task(model, input_data)
    }

    /// Drops so many of the oldest tasks from the history, which moves all others to other places. Each can
    /// still be read by itself.
    pub(crate) fn trim_history(&self, count: usize) {
        self.shared.state().trimmed += count;
    }

    // ---- storage ---------------------------------------------------------------------------------

    /// The uploads that arrived whole, stored or not, in order.
    pub(crate) fn uploads(&self) -> Vec<Upload> {
        self.shared.state().storage.uploads.clone()
    }

    /// Keeps no more than this of a file that is uploaded from now on. A file that was not kept whole
    /// cannot be downloaded.
    pub(crate) fn keep_first(&self, bytes: usize) {
        self.shared.state().storage.kept = bytes;
    }

    /// Puts a file into storage as if it had been uploaded now. Returns its URL.
    pub(crate) fn store_file(&self, key: &str, mime: &str, content: impl Into<Content>) -> String {
        let content = content.into();
        let mut state = self.shared.state();
        let now = state.clock.now();
        let measures = (content.length(), content.fingerprint());
        state.storage.put(key, mime, measures, Some(content), now);
        state.storage.url(key)
    }

    /// The targets that were issued so far are no longer accepted.
    pub(crate) fn expire_targets(&self) {
        for target in &mut self.shared.state().storage.targets {
            target.is_expired = true;
        }
    }

    /// The next so many targets are issued after their time.
    pub(crate) fn issue_expired_targets(&self, count: usize) {
        self.shared.state().storage.expired_ahead = count;
    }

    // ---- the journal -----------------------------------------------------------------------------

    /// All requests whose headers arrived, in order.
    pub(crate) fn journal(&self) -> Vec<Entry> {
        self.shared.journal().entries.clone()
    }

    /// How many requests of the operation arrived.
    pub(crate) fn count(&self, route: Route) -> usize {
        self.shared.journal().count(route)
    }

    /// How many connections were accepted, by both listeners.
    pub(crate) fn connections(&self) -> usize {
        self.shared.journal().connections
    }

    /// Waits until so many requests of the operation have arrived.
    pub(crate) async fn until_seen(&self, route: Route, count: usize) {
        while self.count(route) < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Drop for ScriptedService {
    fn drop(&mut self) {
        for listener in &self.listeners {
            listener.abort();
        }
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    (listener, format!("http://{address}"))
}
