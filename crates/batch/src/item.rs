//! Batches and their items: each item becomes one task, even if the program is killed and started again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use inferstore::{Client, Decimal, ErrorKind, Outcome, PreparedRun, Task, TaskDisposition};
use parking_lot::Mutex;
use serde_json::value::to_raw_value;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, sleep};

use crate::step::stamp;
use crate::{ItemId, Journal, JournalError, Step};

/// Longest time for which [`within_limits`] retries.
const LIMIT_TIMEOUT: Duration = Duration::from_secs(600);

/// Reason why a step of an item failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the client failed.
    #[error(transparent)]
    Client(#[from] inferstore::Error),
    /// The journal could not record a step. The item may be one step further than the journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The batch could exceed its [budget](Batch::budget). No task was created for the item.
    #[error(
        "the budget is used up: {committed} of {budget} are spent or reserved, and a run costs up to {cost}"
    )]
    Budget {
        /// The budget of the batch.
        budget: Decimal,
        /// Amount that the other items have cost, or can cost.
        committed: Decimal,
        /// Maximum cost of the run.
        cost: Decimal,
    },
    /// A run in a batch with a [budget](Batch::budget) has no [`max_cost`](PreparedRun::max_cost).
    #[error("a run within a budget needs max_cost, the most that it may cost")]
    Unlimited,
}

/// Batch: a client, and the journal of its items. Clones share both. A method of a batch or an item that returns a
/// [`JournalError`] and has no section *Errors* fails if the journal cannot be read or written.
#[derive(Clone, Debug)]
pub struct Batch {
    client: Client,
    journal: Arc<Mutex<Journal>>,
    /// Lock of each item that is being started: concurrent starts create one task.
    locks: Arc<Mutex<HashMap<String, Arc<AsyncMutex<()>>>>>,
    deletes_inputs: bool,
    budget: Option<Decimal>,
}

impl Batch {
    /// Creates a batch from a journal. Claims the tasks of the journal, so that no other item adopts one of them.
    pub fn new(client: &Client, journal: Journal) -> Result<Self, JournalError> {
        for item in journal.items() {
            let (_, _, step) = item?;
            client.tasks().claim(step.task());
        }
        let journal = Arc::new(Mutex::new(journal));
        Ok(Self {
            client: client.clone(),
            journal,
            locks: Arc::default(),
            deletes_inputs: false,
            budget: None,
        })
    }

    /// Opens the journal at this path, or creates it: see [`Journal::open`].
    pub fn open(client: &Client, journal: impl AsRef<Path>) -> Result<Self, JournalError> {
        Self::new(client, Journal::open(journal)?)
    }

    /// Records with the end of each item that its uploaded inputs are to be deleted; [`Item::delete_inputs`]
    /// deletes them, possibly at the next start. Default: `false`.
    pub fn delete_inputs(self, delete: bool) -> Self {
        Self { deletes_inputs: delete, ..self }
    }

    /// Limits the total cost of all items of the journal, across starts of the program. A run is prepared
    /// only if its [`max_cost`](PreparedRun::max_cost) and the committed cost of the other items stay within
    /// the budget; every run has to state a `max_cost`. Default: no limit.
    pub fn budget(self, budget: impl Into<Option<Decimal>>) -> Self {
        Self { budget: budget.into(), ..self }
    }

    /// Returns the committed cost of all items: see [`Journal::committed`].
    pub fn committed(&self, unknown: &Decimal) -> Decimal {
        self.journal.lock().committed(unknown)
    }

    /// Records the hash of the content of a file, so that a later start recognizes a file whose time alone has
    /// changed. `file` identifies the file as it is, such as by its path, size and time. An item that has this key
    /// stays as it is.
    pub fn record_content(&self, file: &str, hash: impl Into<String>) -> Result<(), JournalError> {
        let mut journal = self.journal.lock();
        match journal.step(file)? {
            None | Some(Step::Content(_)) => journal.write(file, &Step::Content(hash.into())),
            Some(_) => Ok(()),
        }
    }

    /// Returns the identifier of the item with this key, also before its first step.
    pub fn id(&self, key: &str) -> Result<ItemId, JournalError> {
        self.journal.lock().id(key)
    }

    /// Returns the key and the last step of the item with this identifier. `None`: it has no step.
    pub fn read(&self, id: ItemId) -> Result<Option<(String, Step)>, JournalError> {
        self.journal.lock().item(id)
    }

    /// Returns the item with this key. The key identifies the item at the next start, such as the path of a file.
    pub fn item(&self, key: impl Into<String>) -> Item {
        Item { batch: self.clone(), key: key.into() }
    }
}

/// Item of a batch. Its methods record each step between calls of the client; [`start`](Self::start) records its own.
#[derive(Clone, Debug)]
pub struct Item {
    batch: Batch,
    key: String,
}

impl Item {
    /// Returns the last step of the item, ignoring the pending deletion of inputs.
    pub fn step(&self) -> Result<Option<Step>, JournalError> {
        Ok(self.recorded()?.map(Step::into_last))
    }

    fn recorded(&self) -> Result<Option<Step>, JournalError> {
        self.batch.journal.lock().step(&self.key)
    }

    /// Returns the task in the journal, or a new one for the prepared run in the journal, else for the run that
    /// `prepare` returns. While a limit of the account applies, the call retries as [`within_limits`] does.
    ///
    /// # Errors
    ///
    /// Errors of `prepare` and of [`Client::adopt_or_start`]; a step that cannot be recorded.
    pub async fn start<Prepared>(&self, prepare: impl Fn() -> Prepared) -> Result<Task, Error>
    where
        Prepared: Future<Output = inferstore::Result<PreparedRun>>,
    {
        let lock = {
            let mut locks = self.batch.locks.lock();
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(self.key.clone()).or_default())
        };
        let _alone = lock.lock().await;
        let step = self.resume().await?;
        if let Some(task) = step.as_ref().and_then(Step::task) {
            let task = self.batch.client.task(task);
            return Ok(match step {
                Some(Step::Started { model: Some(model), .. }) => task.of_model(model),
                _ => task,
            });
        }
        let run = match step {
            Some(Step::Prepared(run)) => run,
            _ => {
                // Delete the inputs of an earlier run now: the next line of the journal replaces the record of them.
                self.delete_inputs().await;
                let run = within_limits(prepare, || ()).await?;
                if let Err(error) = self.prepared(&run) {
                    self.discard(&run).await;
                    return Err(error);
                }
                run
            }
        };
        let task = within_limits(|| self.batch.client.adopt_or_start(run.clone()), || ()).await;
        self.started(task)
    }

    /// Returns the last step; reads a task that was [gone](Step::Gone) again first: it is started, or has failed.
    ///
    /// # Errors
    ///
    /// The task cannot be read for another reason, or the step cannot be recorded.
    pub async fn resume(&self) -> Result<Option<Step>, Error> {
        let step = self.step()?;
        let Some(Step::Gone { task, uploaded, max_cost }) = step else { return Ok(step) };
        match self.batch.client.task(&task).get().await {
            Ok(_) => Ok(Some(Step::Started { task, uploaded, model: None, max_cost })),
            Err(error) if error.is_gone() => {
                self.failed("the service does not know its task")?;
                Ok(self.step()?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Records a prepared run, before its task is created.
    ///
    /// # Errors
    ///
    /// The run exceeds the budget, or the step cannot be recorded.
    pub fn prepared(&self, run: &PreparedRun) -> Result<(), Error> {
        // The lock covers check and write: items are prepared concurrently.
        let mut journal = self.batch.journal.lock();
        if let Some(budget) = &self.batch.budget {
            let cost = run.max_cost.as_ref().ok_or(Error::Unlimited)?;
            let committed = journal.committed_by_others(&self.key, cost)?;
            if &(&committed + cost) > budget {
                let (budget, cost) = (budget.clone(), cost.clone());
                return Err(Error::Budget { budget, committed, cost });
            }
        }
        Ok(journal.write(&self.key, &Step::Prepared(run.clone()))?)
    }

    /// Deletes the uploaded inputs of a run that could not be recorded. Inputs that cannot be deleted stay stored.
    pub async fn discard(&self, run: &PreparedRun) {
        for url in &run.uploaded {
            let _ = self.batch.client.delete_file(url).await;
        }
    }

    /// Records that other files have replaced the saved outputs: the next start saves the outputs again, at no cost.
    pub fn outdated(&self) -> Result<(), JournalError> {
        match self.step()? {
            Some(Step::Done { task, cost, .. }) => {
                let cost = cost.parse().ok();
                self.write(Step::Saving { task, uploaded: Vec::new(), outputs: Vec::new(), cost })
            }
            _ => Ok(()),
        }
    }

    /// Records the task of the prepared run, or that the service rejected the run permanently.
    ///
    /// # Errors
    ///
    /// The error in `task`; the step cannot be recorded.
    pub fn started(&self, task: inferstore::Result<Task>) -> Result<Task, Error> {
        match task {
            Ok(task) => {
                let (uploaded, max_cost) = self.before()?;
                let model = task.model().cloned();
                self.write(Step::Started { task: task.id().clone(), uploaded, model, max_cost })?;
                Ok(task)
            }
            Err(error) => {
                if error.is_refused_create() {
                    self.failed(error.to_string())?;
                }
                Err(error.into())
            }
        }
    }

    /// Records the result of waiting for the task. An outcome is saved next. An item whose task failed or was
    /// canceled runs again at the next start. A task that may still run is awaited again.
    ///
    /// # Errors
    ///
    /// The error in `outcome`; the step cannot be recorded.
    pub fn ended(&self, outcome: inferstore::Result<Outcome>) -> Result<Outcome, Error> {
        let error = match outcome {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        let has_ended = matches!(error.kind(), ErrorKind::TaskFailed | ErrorKind::TaskCanceled)
            || error.disposition() == Some(TaskDisposition::Canceled);
        match error.task_id() {
            _ if has_ended => self.failed(error.to_string())?,
            Some(task) if error.is_gone() => {
                let (uploaded, max_cost) = self.before()?;
                self.write(Step::Gone { task: task.clone(), uploaded, max_cost })?;
            }
            _ => {}
        }
        Err(error.into())
    }

    /// Records the cost of a task that has succeeded, and the paths to which its outputs are about to be moved: at the
    /// next start, files at these paths belong to the item.
    pub fn saving(&self, outcome: &Outcome, outputs: Vec<PathBuf>) -> Result<(), JournalError> {
        let cost = Some(outcome.cost.clone().unwrap_or_default());
        let (uploaded, _) = self.before()?;
        self.write(Step::Saving { task: outcome.task.clone(), uploaded, outputs, cost })
    }

    /// Records the paths of the saved outputs.
    pub fn done(&self, outcome: &Outcome, outputs: Vec<PathBuf>) -> Result<(), JournalError> {
        let cost = outcome.cost.clone().unwrap_or_default().to_string();
        let output = to_raw_value(&outcome.output).unwrap_or_default();
        let stamps = outputs.iter().map(|path| stamp(path)).collect();
        self.end(Step::Done { task: outcome.task.clone(), cost, outputs, stamps, output })
    }

    /// Records that the item has no task, or one that failed or was canceled: the item runs again at the next start.
    pub fn failed(&self, why: impl Into<String>) -> Result<(), JournalError> {
        self.end(Step::Failed(why.into()))
    }

    /// Deletes the inputs of an item that has ended, also at an earlier start, if the batch deletes inputs. Returns the
    /// URLs that could not be deleted; the next start retries, except for files that the service does not know.
    pub async fn delete_inputs(&self) -> Vec<(String, inferstore::Error)> {
        // The next start deletes what a journal that cannot be read names.
        let Ok(Some(Step::Deleting { uploaded, then })) = self.recorded() else { return Vec::new() };
        let mut left = Vec::new();
        for url in uploaded {
            if let Err(error) = self.batch.client.delete_file(&url).await {
                left.push((url, error));
            }
        }
        // A member of an organization cannot delete its files: the service returns 404 at every attempt.
        if left.iter().all(|(_, error)| error.is_not_found()) {
            // If this line is lost, the next start deletes once more.
            let _ = self.write(*then);
        }
        left
    }

    /// Returns the stored inputs of the item so far, and the maximum cost of its task.
    fn before(&self) -> Result<(Vec<String>, Option<Decimal>), JournalError> {
        let step = self.step()?;
        Ok(step.map(|step| (step.uploaded().to_vec(), step.max_cost())).unwrap_or_default())
    }

    fn write(&self, step: Step) -> Result<(), JournalError> {
        self.batch.journal.lock().write(&self.key, &step)
    }

    fn end(&self, step: Step) -> Result<(), JournalError> {
        let (uploaded, _) = self.before()?;
        if !self.batch.deletes_inputs || uploaded.is_empty() {
            return self.write(step);
        }
        self.write(Step::Deleting { uploaded, then: Box::new(step) })
    }
}

/// Retries a call for up to 10 minutes while a limit of the account applies, such as the number of its
/// unfinished tasks. A call rejected with 429 had no effect. `limited` is called before each backoff.
pub async fn within_limits<T, Called>(call: impl Fn() -> Called, limited: impl Fn()) -> inferstore::Result<T>
where
    Called: IntoFuture<Output = inferstore::Result<T>>,
{
    let until = Instant::now() + LIMIT_TIMEOUT;
    loop {
        let called = call().await;
        let pause = called.as_ref().err().and_then(limit_pause);
        match pause.filter(|pause| Instant::now().checked_add(*pause).is_some_and(|at| at < until)) {
            None => return called,
            Some(pause) => {
                limited();
                sleep(pause).await;
            }
        }
    }
}

/// Returns the backoff before the retry of a call that a limit of the account rejected.
pub fn limit_pause(error: &inferstore::Error) -> Option<Duration> {
    let is_limited = error.kind() == ErrorKind::RateLimited;
    is_limited.then(|| error.retry_after().unwrap_or(Duration::from_secs(1)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may end when its set-up fails")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_item_that_was_started_leaves_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let client = Client::new("http://127.0.0.1:1/api/v1", "k").unwrap();
        let batch = Batch::open(&client, folder.path().join("journal.jsonl")).unwrap();
        for number in 0..9 {
            let prepare = || async { Err(inferstore::Error::InvalidArgument("no input".to_owned())) };
            assert!(batch.item(number.to_string()).start(prepare).await.is_err());
        }
        assert!(batch.locks.lock().len() <= 1);
    }
}
