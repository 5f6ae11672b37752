//! Batches: one task for each entry, such as a file, each paid once, whenever the command is interrupted.

mod interrupt;
mod plan;
pub(super) mod watch;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use futures_util::stream;
use inferstore::types::TaskId;
use inferstore::{Decimal, Error, ErrorKind, Outcome, PreparedRun, TaskDisposition};
use inferstore_batch::{Item, Step, within_limits};
use parking_lot::Mutex;
use serde_json::value::to_raw_value;
use tokio::task::spawn_blocking;

use self::interrupt::WaitingItem;
pub(in crate::commands) use self::plan::Plan;
use super::contents::{files, regular_file};
use super::entries::Entry;
use super::journal::{Items, NAME, hash_of};
use super::summary::{FileOutcome, Status, Summary};
use super::warn_if_offline;
use crate::commands::outputs::{TemplateVariables, relative_path};
use crate::commands::signals::Signals;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::progress::{Progress, SharedProgress, watch};
use crate::settings::Session;
use crate::values::md5_of;

struct Batch<'a> {
    session: &'a Session,
    plan: Plan,
    items: Items,
    progress: SharedProgress,
    /// A failure that every further file would meet.
    stopped: AtomicBool,
    /// Hashes of the paths of outputs, which no other entry replaces.
    saved: Mutex<HashSet<u64>>,
    /// The files whose tasks may have been created, and which have not ended yet, by their index.
    waiting: Mutex<BTreeMap<usize, WaitingItem>>,
}

/// Runs the one entry of a plan, from the step that the journal has, and returns how it ended.
pub(in crate::commands) async fn run_one(
    plan: Plan,
    entry: &Entry,
    items: Items,
    session: &Session,
) -> FileOutcome {
    Batch::new(plan, items, session).outcome(0, entry).await
}

pub(super) async fn execute(mut plan: Plan, session: &Session) -> Result {
    let folder = plan.check_options(session)?;
    plan.find_repeated(session)?;
    if plan.checks_all || plan.options.dry_run {
        plan.check(session).await?;
    }
    let path = folder.join(NAME);
    let items = if path.exists() { Some(plan.items(&path)?) } else { None };
    if let Some(items) = &items {
        plan.recognize_all(items, session)?;
    }
    let quote = plan.quote(items.as_ref(), session).await?;
    if plan.options.dry_run {
        return plan.report(quote, session);
    }
    if let Some(budget) = &plan.options.budget {
        plan.price = Some(quote.check(budget)?);
    }
    if plan.options.rows.is_some() {
        session.note(quote.to_string());
    }
    let items = items.map_or_else(|| plan.items(&path), Ok)?;
    Batch::new(plan, items, session).execute().await
}

impl<'a> Batch<'a> {
    fn new(plan: Plan, items: Items, session: &'a Session) -> Self {
        Self {
            session,
            plan,
            items,
            progress: Progress::shared(&session.output),
            stopped: AtomicBool::new(false),
            saved: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    async fn execute(self) -> Result {
        warn_if_offline(&self.plan.model, &self.plan.client, &self.plan.options, self.session).await;
        let mut signals = Signals::new()?;
        let total = self.plan.places().len();
        self.progress.lock().count(self.plan.distinct.len());
        let mut summary = Summary::default();
        let is_interrupted = self.run_all(&mut summary, &mut signals).await;
        self.progress.lock().end();
        if is_interrupted {
            return self.interrupted(summary, total, &mut signals).await;
        }
        self.report(summary, total)
    }

    fn report(&self, mut summary: Summary, total: usize) -> Result {
        let count = summary.len();
        let reported = summary.report(total, self.session);
        summary.result(count).and(reported)
    }

    /// Adds an entry that has ended, and those with the same inputs.
    fn add(&self, ended: FileOutcome, summary: &mut Summary) {
        for &place in self.plan.repeated.get(&ended.place).into_iter().flatten() {
            let file = self.plan.label(place);
            summary.add(FileOutcome { place, file, is_repeated: true, ..ended.clone() }, self.session);
        }
        summary.add(ended, self.session);
    }

    /// Runs all files, until they have ended or a signal comes. Returns whether one came.
    async fn run_all(&self, summary: &mut Summary, signals: &mut Signals) -> bool {
        let run = async |place: usize| match self.plan.entry(place, self.session) {
            Ok(entry) => self.outcome(place, &entry).await,
            Err(failure) => {
                let (file, failure) = (self.plan.label(place), Some(failure));
                FileOutcome { place, file, failure, ..FileOutcome::default() }
            }
        };
        let runs = stream::iter(self.plan.distinct.iter().copied()).map(run);
        let mut runs = std::pin::pin!(runs.buffer_unordered(usize::from(self.plan.options.jobs)));
        loop {
            tokio::select! {
                biased;
                () = signals.next() => return true,
                next = runs.next() => match next {
                    Some(ended) => self.add(ended, summary),
                    None => return false,
                },
            }
        }
    }

    async fn outcome(&self, place: usize, entry: &Entry) -> FileOutcome {
        let mut ended = FileOutcome { place, file: entry.label.clone(), ..FileOutcome::default() };
        ended.failure = self.one(&mut ended, entry).await.err();
        self.waiting.lock().remove(&place);
        self.progress.lock().counted(&ended.file);
        ended
    }

    /// Runs one file to its outputs, from the step that the journal has.
    async fn one(&self, ended: &mut FileOutcome, entry: &Entry) -> Result {
        let file = ended.file.clone();
        let key = self.plan.key(entry);
        let item = self.items.batch().item(key.clone());
        let step = item.resume().await.map_err(|error| Failure::from(error).about(&file))?;
        self.delete_inputs(&item).await;
        // What an earlier start has begun to save.
        let mut own = Vec::new();
        let task = match step {
            Some(Step::Done { task, cost, outputs, output, .. }) => {
                if outputs.iter().all(|output| output.exists()) {
                    ended.was_done = true;
                    ended.status = Status::Success;
                    ended.task = Some(task);
                    ended.cost = cost.parse().ok();
                    self.saved.lock().extend(outputs.iter().map(hash_of));
                    ended.outputs =
                        outputs.iter().map(|output| relative_path(output, self.session)).collect();
                    ended.output = output;
                    return Ok(());
                }
                (ended.was_done, own) = (true, outputs);
                task
            }
            Some(Step::Saving { task, outputs, .. }) => {
                (ended.was_done, own) = (true, outputs);
                task
            }
            Some(Step::Started { task, .. }) => task,
            Some(Step::Prepared(prepared)) => {
                self.progress.lock().state(&file, "looking for its task");
                self.start(ended, &item, prepared).await?
            }
            _ => {
                if self.stopped.load(Ordering::Relaxed) {
                    return Err(Failure::new(exit::FAILED, format!("{file}: not started")));
                }
                ended.status = Status::Failed;
                let (_, outdated) = self.outdated(&key)?;
                let free = self.plan.delivery.check_free(&self.plan.names(entry), &outdated, self.session);
                free.map_err(|failure| failure.about(&file))?;
                self.progress.lock().state(&file, "preparing");
                self.record_contents(&key).await?;
                let prepare = || self.plan.run(entry).prepare();
                let prepared = within_limits(prepare, || self.show_limit(&file)).await.map_err(|error| {
                    self.stop_if_all_would_fail(&error);
                    Failure::from(error).about(&file)
                })?;
                if let Err(error) = item.prepared(&prepared) {
                    item.discard(&prepared).await;
                    self.stopped.store(true, Ordering::Relaxed);
                    return Err(Failure::from(error).about(&file));
                }
                self.start(ended, &item, prepared).await?
            }
        };
        ended.task = Some(task.clone());
        ended.status = Status::Unfinished;
        let outcome = self.wait(ended, &item, task).await?;
        ended.cost.clone_from(&outcome.cost);
        ended.output = to_raw_value(&outcome.output).unwrap_or_default();
        ended.status = Status::NotSaved;
        self.note(&item, ended);
        if !ended.was_done {
            // The next start does not report the cost again.
            item.saving(&outcome, Vec::new())?;
        }
        self.progress.lock().state(&file, "downloading");
        let outputs = self.save(&item, &key, &outcome, own, &self.plan.names(entry)).await;
        let outputs = outputs.map_err(|failure| {
            self.stopped.fetch_or(failure.is_local, Ordering::Relaxed);
            failure.about(&file)
        })?;
        ended.outputs = outputs.iter().map(|output| relative_path(output, self.session)).collect();
        item.done(&outcome, outputs)?;
        ended.status = Status::Success;
        self.note(&item, ended);
        self.delete_inputs(&item).await;
        Ok(())
    }

    /// Records the hashes of the files of an item. One that cannot be read fails at its upload.
    async fn record_contents(&self, key: &str) -> Result {
        for file in files(key) {
            let name = file.to_string();
            if let Some(path) = regular_file(&file).map(Path::to_owned)
                && self.items.content(&name)?.is_none()
                && let Ok(Ok(hash)) = spawn_blocking(move || md5_of(&path)).await
            {
                self.items.batch().record_content(&name, hash)?;
            }
        }
        Ok(())
    }

    /// Creates the task, or finds the one that an interrupted start created.
    async fn start(&self, ended: &mut FileOutcome, item: &Item, mut prepared: PreparedRun) -> Result<TaskId> {
        // An earlier start may have had others. Within a budget, the journal reserves what that one allowed.
        let reserved = prepared.max_cost.take().filter(|_| self.plan.price.is_some());
        prepared.max_cost = self.plan.max_cost().into_iter().chain(&reserved).min().cloned();
        prepared.require_serving = self.plan.options.require_serving;
        ended.status = Status::Unknown;
        self.note(item, ended);
        let start = || self.plan.client.adopt_or_start(prepared.clone());
        let started = within_limits(start, || self.show_limit(&ended.file)).await;
        match &started {
            Ok(task) => {
                ended.task = Some(task.id().clone());
                ended.status = Status::Unfinished;
            }
            Err(error) => self.stop_if_all_would_fail(error),
        }
        match item.started(started) {
            Ok(task) => Ok(task.id().clone()),
            Err(error) => {
                if matches!(item.step(), Ok(Some(Step::Failed(_)))) {
                    ended.status = Status::Failed;
                    self.delete_inputs(item).await;
                }
                Err(Failure::from(error).about(&ended.file))
            }
        }
    }

    fn show_limit(&self, file: &str) {
        self.progress.lock().state(file, "waiting: the service limits the account");
    }

    async fn wait(&self, ended: &mut FileOutcome, item: &Item, task: TaskId) -> Result<Outcome> {
        self.note(item, ended);
        let options = self.plan.options.wait.clone();
        let wait = self.plan.client.task(&task).of_model(&*self.plan.model).wait().deadline(options.deadline);
        let wait = wait.cancel_at_deadline(options.cancel_at_deadline).poll(options.poll);
        let outcome = watch(wait.events(), |event| self.progress.lock().status(&ended.file, event)).await;
        if let Err(error) = &outcome {
            ended.status = status_after(error);
            self.note(item, ended);
            let is_last = error.kind() == ErrorKind::TaskFailed && self.is_balance_too_small().await;
            self.stopped.fetch_or(is_last, Ordering::Relaxed);
        }
        let is_gone = ended.status == Status::Unknown;
        match item.ended(outcome) {
            Err(inferstore_batch::Error::Client(_)) if is_gone => {
                let headline = format!("{}: the service does not know its task {task}", ended.file);
                Err(Failure::new(exit::FAILED, headline)
                    .with_hint("the next start asks for it once more, and then runs the file again"))
            }
            Err(error) => {
                self.delete_inputs(item).await;
                Err(Failure::from(error).about(&ended.file))
            }
            Ok(outcome) => Ok(outcome),
        }
    }

    /// Saves the outputs, and returns their paths. Those that an earlier start saved at the paths `own` stay there.
    async fn save(
        &self,
        item: &Item,
        key: &str,
        outcome: &Outcome,
        own: Vec<PathBuf>,
        names: &TemplateVariables,
    ) -> Result<Vec<PathBuf>> {
        let delivery = &self.plan.delivery;
        let staged = delivery.stage(outcome, names, self.session).await;
        // No code of something that may be done again: the run is paid.
        let staged = staged.map_err(|failure| failure.with_code(exit::FAILED))?;
        let (earlier, outdated) = self.outdated(key)?;
        let named = |old: &Path, new: &Path| {
            let (old, new) = (relative_path(old, self.session), relative_path(new, self.session));
            let line = format!("{} exists and stays; the new output is {}", old.display(), new.display());
            self.progress.lock().note(&line);
        };
        let outputs = {
            let mut saved = self.saved.lock();
            let is_taken = |path: &Path| saved.contains(&hash_of(path));
            let outputs = delivery.destinations(&staged, &own, &outdated, is_taken, named)?;
            saved.extend(outputs.iter().map(hash_of));
            outputs
        };
        item.saving(outcome, outputs.clone())?;
        for earlier in &earlier {
            if let Some(Step::Done { outputs: old, .. }) = earlier.step()?
                && old.iter().any(|path| outputs.contains(path))
            {
                earlier.outdated()?;
            }
        }
        delivery.save_staged(&staged, &outputs, &own, &outdated)?;
        Ok(outputs)
    }

    /// The items of the same entry with other contents of its files, and their outputs that nobody has changed.
    fn outdated(&self, key: &str) -> Result<(Vec<Item>, Vec<PathBuf>)> {
        let (keys, steps): (Vec<String>, Vec<Step>) = self.items.outdated_by(key)?.into_iter().unzip();
        let items = keys.into_iter().map(|key| self.items.batch().item(key)).collect();
        Ok((items, steps.iter().flat_map(Step::unchanged_outputs).collect()))
    }

    /// Deletes the inputs of a file that has ended, perhaps at an earlier start.
    async fn delete_inputs(&self, item: &Item) {
        for (url, error) in item.delete_inputs().await {
            // Members of an organization cannot delete its files: they are not found.
            if self.plan.options.org.is_some() || !error.is_not_found() {
                self.progress.lock().note(&format!("an input is still stored: {url}"));
            }
        }
    }

    /// Starts no further file after a failure that all would meet: refused key, empty balance, limit, no service.
    fn stop_if_all_would_fail(&self, error: &Error) {
        let would_all_fail = match error.kind() {
            ErrorKind::Unauthorized | ErrorKind::InsufficientBalance => true,
            ErrorKind::CostLimitExceeded | ErrorKind::ModelOffline => true,
            // Object storage that is not reached has no context: the upload of another file may succeed.
            ErrorKind::NoResponse => error.context().is_some(),
            _ => false,
        };
        self.stopped.fetch_or(would_all_fail, Ordering::Relaxed);
    }

    /// Returns true when the balance does not cover another task. A service may fail such a task instead of refusing it.
    async fn is_balance_too_small(&self) -> bool {
        let client = &self.plan.client;
        let model = client.model(&*self.plan.model);
        let (Ok(balance), Ok(model)) = tokio::join!(client.balance(), model.get()) else { return false };
        let held: Decimal = [balance.balance, balance.free_balance].into_iter().flatten().sum();
        model.price.is_some_and(|price| held < price)
    }
}

fn status_after(error: &Error) -> Status {
    match error.kind() {
        ErrorKind::TaskFailed => Status::Failed,
        ErrorKind::TaskCanceled => Status::Canceled,
        _ if error.disposition() == Some(TaskDisposition::Canceled) => Status::Canceled,
        _ if error.is_gone() => Status::Unknown,
        _ => Status::Unfinished,
    }
}
