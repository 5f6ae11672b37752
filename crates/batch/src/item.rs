//! Batches and their items: each item becomes one task, whenever the program is killed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use inferstore::{Client, Decimal, ErrorKind, Outcome, PreparedRun, Task, TaskDisposition};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, sleep};

use crate::{Journal, JournalError, Step};

/// The longest time for which [`within_limits`] calls again.
const LIMIT_TIMEOUT: Duration = Duration::from_secs(600);

/// Why an item has not gone on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the client failed.
    #[error(transparent)]
    Client(#[from] inferstore::Error),
    /// A step could not be written. The item may be at the step that follows.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The batch could cost more than its [budget](Batch::budget). Nothing was created for the item.
    #[error(
        "the budget is used up: {committed} of {budget} are spent or reserved, and a run costs up to {cost}"
    )]
    Budget {
        /// The budget of the batch.
        budget: Decimal,
        /// What the other items have cost, or can cost.
        committed: Decimal,
        /// The most that the run costs.
        cost: Decimal,
    },
    /// A run of a batch with a [budget](Batch::budget) states no [`max_cost`](PreparedRun::max_cost).
    #[error("a run within a budget needs max_cost, the most that it may cost")]
    Unlimited,
}

/// A batch: a client, and the journal of its items. Clones share both.
#[derive(Clone, Debug)]
pub struct Batch {
    client: Client,
    journal: Arc<Mutex<Journal>>,
    /// One for each item that was started: it is created once, however often it is started at the same time.
    locks: Arc<Mutex<HashMap<String, Arc<AsyncMutex<()>>>>>,
    deletes_inputs: bool,
    budget: Option<Decimal>,
}

impl Batch {
    /// A batch with this journal. The tasks in it are claimed, so that none of them is adopted for another item.
    pub fn new(client: &Client, journal: Journal) -> Self {
        client.tasks().claim(journal.tasks());
        let journal = Arc::new(Mutex::new(journal));
        Self { client: client.clone(), journal, locks: Arc::default(), deletes_inputs: false, budget: None }
    }

    /// Opens the journal at this path, or creates it.
    ///
    /// # Errors
    ///
    /// Errors of [`Journal::open`].
    pub fn open(client: &Client, journal: impl AsRef<Path>) -> Result<Self, JournalError> {
        Ok(Self::new(client, Journal::open(journal)?))
    }

    /// Notes with the end of each item that its uploaded inputs are to be deleted: [`Item::delete_inputs`] deletes them,
    /// perhaps at the next start. Default: `false`.
    pub fn delete_inputs(self, delete: bool) -> Self {
        Self { deletes_inputs: delete, ..self }
    }

    /// Limits the cost of all items of the journal together, also across starts. A run is noted as prepared only if what
    /// the items have cost and can cost stays within the budget with its [`max_cost`](PreparedRun::max_cost), which every
    /// run has to state. Default: no limit.
    pub fn budget(self, budget: impl Into<Option<Decimal>>) -> Self {
        Self { budget: budget.into(), ..self }
    }

    /// What all items of the journal have cost, or can cost. An item whose cost the journal does not state counts as
    /// `unknown`.
    pub fn committed(&self, unknown: &Decimal) -> Decimal {
        self.journal.lock().committed(unknown)
    }

    /// The item with this key: whatever makes it the same one at the next start, such as the path of a file.
    pub fn item(&self, key: impl Into<String>) -> Item {
        Item { batch: self.clone(), key: key.into() }
    }
}

/// An item of a batch. Its methods note the steps between the calls of the client; [`start`](Self::start) has the first
/// ones in it.
#[derive(Clone, Debug)]
pub struct Item {
    batch: Batch,
    key: String,
}

impl Item {
    /// Returns the last step of the item, apart from inputs that are still to be deleted.
    pub fn step(&self) -> Option<Step> {
        self.batch.journal.lock().step(&self.key).map(Step::last).cloned()
    }

    /// Returns the task of the item: the one in the journal, else one that is created for the run that `prepare` returns.
    /// A run that is prepared already is not prepared again. While the service limits the account, both are repeated, as
    /// [`within_limits`] does it.
    ///
    /// # Errors
    ///
    /// Errors of `prepare` and of [`Client::adopt_or_start`]; a step that cannot be written.
    pub async fn start<Prepared>(&self, prepare: impl Fn() -> Prepared) -> Result<Task, Error>
    where
        Prepared: Future<Output = inferstore::Result<PreparedRun>>,
    {
        let lock = Arc::clone(self.batch.locks.lock().entry(self.key.clone()).or_default());
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
                // The next line of the journal forgets those of an earlier run.
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

    /// Returns the last step, after a task that was [gone](Step::Gone) has been read once more: it is started, or the
    /// item has failed.
    ///
    /// # Errors
    ///
    /// The task cannot be read for another reason, or the step cannot be written.
    pub async fn resume(&self) -> Result<Option<Step>, Error> {
        let step = self.step();
        let Some(Step::Gone { task, uploaded, max_cost }) = step else { return Ok(step) };
        match self.batch.client.task(&task).get().await {
            Ok(_) => Ok(Some(Step::Started { task, uploaded, model: None, max_cost })),
            Err(error) if error.is_gone() => {
                self.failed("the service does not know its task")?;
                Ok(self.step())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Notes a prepared run, before its task is created.
    ///
    /// # Errors
    ///
    /// The budget does not allow the run; the step cannot be written.
    pub fn prepared(&self, run: &PreparedRun) -> Result<(), Error> {
        // Held from the check to the line: items are prepared at the same time.
        let mut journal = self.batch.journal.lock();
        if let Some(budget) = &self.batch.budget {
            let cost = run.max_cost.as_ref().ok_or(Error::Unlimited)?;
            let committed = journal.committed_by_others(&self.key, cost);
            if &(&committed + cost) > budget {
                let (budget, cost) = (budget.clone(), cost.clone());
                return Err(Error::Budget { budget, committed, cost });
            }
        }
        Ok(journal.write(&self.key, Step::Prepared(run.clone()))?)
    }

    /// Deletes the uploaded inputs of a run that could not be noted. Those that cannot be deleted stay stored.
    pub async fn discard(&self, run: &PreparedRun) {
        for url in &run.uploaded {
            let _ = self.batch.client.delete_file(url).await;
        }
    }

    /// Notes that other files came to the paths of the outputs: the next start saves them again, and pays nothing.
    ///
    /// # Errors
    ///
    /// The step cannot be written.
    pub fn outdated(&self) -> Result<(), JournalError> {
        match self.step() {
            Some(Step::Done { task, cost, .. }) => {
                let max_cost = cost.parse().ok();
                self.write(Step::Started { task, uploaded: Vec::new(), model: None, max_cost })
            }
            _ => Ok(()),
        }
    }

    /// Notes the task that the prepared run has become, or that the service refused it for good.
    ///
    /// # Errors
    ///
    /// The error in `task`; the step cannot be written.
    pub fn started(&self, task: inferstore::Result<Task>) -> Result<Task, Error> {
        match task {
            Ok(task) => {
                let uploaded = self.uploaded();
                let model = task.model().cloned();
                let max_cost = self.max_cost();
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

    /// Notes what the end of the wait for the task means: an outcome is to be saved next; a task that failed or was
    /// canceled is run again at the next start, and one that may go on is waited for again.
    ///
    /// # Errors
    ///
    /// The error in `outcome`; the step cannot be written.
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
                let max_cost = self.max_cost();
                self.write(Step::Gone { task: task.clone(), uploaded: self.uploaded(), max_cost })?;
            }
            _ => {}
        }
        Err(error.into())
    }

    /// Notes where the outputs are moved next: at the next start, what is at these paths is the item's own.
    ///
    /// # Errors
    ///
    /// The step cannot be written.
    pub fn saving(&self, outcome: &Outcome, outputs: Vec<PathBuf>) -> Result<(), JournalError> {
        let cost = Some(outcome.cost.clone().unwrap_or_default());
        self.write(Step::Saving { task: outcome.task.clone(), uploaded: self.uploaded(), outputs, cost })
    }

    /// Notes that the outputs are saved at these paths.
    ///
    /// # Errors
    ///
    /// The step cannot be written.
    pub fn done(&self, outcome: &Outcome, outputs: Vec<PathBuf>) -> Result<(), JournalError> {
        let cost = outcome.cost.clone().unwrap_or_default().to_string();
        let output = outcome.output.clone();
        self.end(Step::Done { task: outcome.task.clone(), cost, outputs, output })
    }

    /// Notes that there is no task, or that it failed or was canceled: the item is run again at the next start.
    ///
    /// # Errors
    ///
    /// The step cannot be written.
    pub fn failed(&self, why: impl Into<String>) -> Result<(), JournalError> {
        self.end(Step::Failed(why.into()))
    }

    /// Deletes the inputs of an item that has ended, perhaps at an earlier start, if the batch deletes inputs. Returns the
    /// URLs that could not be deleted: the next start tries again, but for those that the service does not know.
    pub async fn delete_inputs(&self) -> Vec<(String, inferstore::Error)> {
        let step = self.batch.journal.lock().step(&self.key).cloned();
        let Some(Step::Deleting { uploaded, then }) = step else { return Vec::new() };
        let mut left = Vec::new();
        for url in uploaded {
            if let Err(error) = self.batch.client.delete_file(&url).await {
                left.push((url, error));
            }
        }
        // Members of an organization cannot delete its files: they are not found, however often it is tried.
        if left.iter().all(|(_, error)| error.is_not_found()) {
            // Without the line, the next start tries once more.
            let _ = self.write(*then);
        }
        left
    }

    fn max_cost(&self) -> Option<Decimal> {
        self.step().and_then(|step| step.max_cost())
    }

    fn uploaded(&self) -> Vec<String> {
        self.step().map(|step| step.uploaded().to_vec()).unwrap_or_default()
    }

    fn write(&self, step: Step) -> Result<(), JournalError> {
        self.batch.journal.lock().write(&self.key, step)
    }

    /// Writes the last step, and the inputs that are deleted next.
    fn end(&self, step: Step) -> Result<(), JournalError> {
        let uploaded = self.uploaded();
        if !self.batch.deletes_inputs || uploaded.is_empty() {
            return self.write(step);
        }
        self.write(Step::Deleting { uploaded, then: Box::new(step) })
    }
}

/// Calls again while the service limits the account, such as the number of its unfinished tasks, for 10 minutes at most:
/// what it refused with 429 had no effect. `limited` is called before each pause.
///
/// # Errors
///
/// Errors of the call.
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

/// Returns the pause before another attempt of a call that a limit of the account refused.
pub fn limit_pause(error: &inferstore::Error) -> Option<Duration> {
    let is_limited = error.kind() == ErrorKind::RateLimited;
    is_limited.then(|| error.retry_after().unwrap_or(Duration::from_secs(1)))
}
