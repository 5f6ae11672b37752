//! Batches: one task for each of several files, each paid once, whenever the command is interrupted.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use futures_util::stream;
use inferstore::types::TaskId;
use inferstore::{
    CallContext, Client, Decimal, Error, Inputs, Outcome, PreparedRun, RunEvent, TaskDisposition,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::inputs::{attach_path, identity_of};
use super::journal::{Earlier, Journal, Step, identity, key};
use super::names::unique_names;
use super::summary::{self, Ended, Status};
use super::{LIMIT_TIMEOUT, RunOptions, configured, contact_sheet, limit_delay, warn_if_offline};
use crate::commands::files::of_upload;
use crate::commands::outputs::{Delivery, Names, exists, expanded, shown};
use crate::commands::signals::Signals;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::progress::{Progress, watch};
use crate::settings::Session;
use crate::table::Table;

/// What is run on each file, and how.
pub(super) struct Plan {
    pub(super) client: Client,
    pub(super) model: String,
    /// The input that takes the files.
    pub(super) field: String,
    pub(super) inputs: Inputs,
    /// The other inputs, as they were given.
    pub(super) others: BTreeMap<String, Value>,
    pub(super) options: RunOptions,
    pub(super) delivery: Delivery,
}

/// A batch that was checked.
struct Batch {
    plan: Plan,
    journal: Mutex<Journal>,
    progress: Mutex<Progress>,
    /// A failure that every further file would meet.
    stopped: AtomicBool,
    /// The files whose tasks may have been created, and which have not ended yet, by their place.
    waiting: Mutex<BTreeMap<usize, Waiting>>,
}

/// A file that has not ended yet.
struct Waiting {
    /// What an interrupt reports of it.
    so_far: Ended,
    key: String,
    uploaded: Vec<String>,
}

/// Runs the model on each file, or only checks that it could.
pub(super) async fn execute(mut plan: Plan, mut files: Vec<String>, session: &Session) -> Result {
    plan.others.remove(&plan.field);
    let folder = plan.check_options(session)?;
    // A file may be given twice, by a pattern and by its name.
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(plan.key(file, session)));
    if plan.options.dry_run {
        return plan.check(&files, &folder, session).await;
    }
    Batch::new(plan, &folder, session)?.execute(files, session).await
}

impl Plan {
    /// Checks the options, and returns the folder of the outputs.
    fn check_options(&self, session: &Session) -> Result<PathBuf> {
        if self.options.detach || self.options.outputs.show {
            return Err(Failure::usage("several files cannot run with --detach or --show")
                .with_hint("give -o outputs/; after an interruption the same command continues"));
        }
        if !self.delivery.tells_runs_apart() {
            return Err(Failure::usage("every file of the batch would have the same output")
                .with_hint("write {input} or {task} into the template of -o; nothing was sent"));
        }
        if let Some(sheet) = &self.options.before_after {
            contact_sheet::check(&session.environment.folder.join(sheet))?;
        }
        self.delivery.folder(session).ok_or_else(|| {
            Failure::usage("several files need a folder for their outputs")
                .with_hint("give -o outputs/, or a template such as -o 'outputs/{input}.{ext}'")
        })
    }

    /// Checks every file, and creates nothing.
    async fn check(&self, files: &[String], folder: &Path, session: &Session) -> Result {
        for file in files {
            let checked = self.run(file, session).check().await;
            checked.map_err(|error| of_upload(error).about(file))?;
        }
        let Earlier { paid, begun } =
            Journal::earlier(folder, files.iter().map(|file| self.key(file, session)))?;
        let cost = self.client.model(&self.model).cost().await?.cost;
        // A missing quote is not a price of zero.
        let total = cost.map(|cost| files.iter().skip(paid).map(|_| &cost).sum::<Decimal>().to_string());
        session.output.note("nothing was uploaded, and no task was created");
        if paid > 0 {
            session.output.note(format!("{paid} of {} files are paid already", files.len()));
        }
        if begun > 0 {
            session.output.note(format!(
                "the tasks of {begun} of {} files may be created already; the cost counts them",
                files.len()
            ));
        }
        let table = Table::of_fields([
            ("model", Some(self.model.clone())),
            ("files", Some(files.len().to_string())),
            ("cost", total.clone()),
        ]);
        let json = json!({"model": self.model, "files": files, "cost": total}).to_string();
        session.output.report(&Report { table, json, ..Report::default() })
    }

    fn run(&self, file: &str, session: &Session) -> inferstore::Run {
        let inputs = attach_path(self.inputs.clone(), self.field.clone(), file, session);
        configured(&self.client, &self.model, inputs, &self.options)
    }

    fn key(&self, file: &str, session: &Session) -> String {
        key(self.client.base_url(), &self.model, &self.others, identity_of(file, session))
    }
}

impl Batch {
    fn new(plan: Plan, folder: &Path, session: &Session) -> Result<Self> {
        let journal = Journal::open(folder)?;
        if let Some(sheet) = &plan.options.before_after {
            check_sheet(sheet, &journal, plan.options.outputs.overwrite, session)?;
        }
        plan.client.tasks().claim(journal.tasks());
        Ok(Self {
            plan,
            journal: Mutex::new(journal),
            progress: Mutex::new(Progress::new(&session.output)),
            stopped: AtomicBool::new(false),
            waiting: Mutex::default(),
        })
    }

    async fn execute(self, files: Vec<String>, session: &Session) -> Result {
        warn_if_offline(&self.plan.model, &self.plan.client, &self.plan.options, session).await;
        let total = files.len();
        self.progress().count(total);
        let mut signals = Signals::new()?;
        let (mut ended, is_interrupted) = self.run_all(files, &mut signals, session).await;
        self.progress().end();
        let mut tasks = "tasks that were created go on".to_owned();
        if is_interrupted {
            let waiting = std::mem::take(&mut *self.waiting());
            let left = self.leave(waiting, &mut signals).await;
            if self.plan.options.cancel_on_interrupt {
                let canceled = left.iter().filter(|ended| ended.status == Status::Canceled).count();
                tasks = format!("{canceled} queued tasks were canceled");
            }
            ended.extend(left);
        }
        ended.sort_by_key(|ended| ended.place);
        let reported = summary::report(&ended, total, session);
        let sheet = self.write_contact_sheet(&ended, session);
        if let Err(failure) = &sheet {
            session.output.note(&failure.headline);
        }
        if is_interrupted {
            let headline = format!("interrupted; {tasks}");
            let hint = "the same command continues, and pays nothing twice".to_owned();
            return Err(summary::failure_of(&ended, exit::DETACHED, headline, hint));
        }
        summary::result(&ended)?;
        // What the files cost matters more than the sheet.
        reported.and(sheet)
    }

    /// Runs all files, until they have ended or a signal comes.
    async fn run_all(
        &self,
        files: Vec<String>,
        signals: &mut Signals,
        session: &Session,
    ) -> (Vec<Ended>, bool) {
        let names = unique_names(&files);
        let jobs = usize::from(self.plan.options.jobs);
        let runs = files.into_iter().zip(names).enumerate();
        let runs = stream::iter(runs).map(|(place, (file, name))| async move {
            let mut ended = Ended { place, file, ..Ended::default() };
            ended.failure = self.one(&mut ended, name, session).await.err();
            self.waiting().remove(&place);
            self.progress().counted(&ended.file);
            ended
        });
        let mut runs = std::pin::pin!(runs.buffer_unordered(jobs));
        let mut ended = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = signals.next() => return (ended, true),
                next = runs.next() => match next {
                    Some(one) => ended.push(one),
                    None => return (ended, false),
                },
            }
        }
    }

    /// Leaves the tasks that were waited for alone, or cancels those that are still queued. Another signal ends that.
    async fn leave(&self, waiting: BTreeMap<usize, Waiting>, signals: &mut Signals) -> Vec<Ended> {
        let mut left: Vec<Waiting> = waiting.into_values().collect();
        if self.plan.options.cancel_on_interrupt {
            let cancels = stream::iter(&mut left)
                .for_each_concurrent(usize::from(self.plan.options.jobs), |waiting| self.cancel(waiting));
            tokio::select! {
                biased;
                () = signals.next() => {}
                () = cancels => {}
            }
        }
        left.into_iter().map(|waiting| waiting.so_far).collect()
    }

    /// Cancels the task of a file if it is still queued. One that runs goes on.
    async fn cancel(&self, Waiting { so_far, key, uploaded }: &mut Waiting) {
        // A task whose create was interrupted is not known.
        let Some(task) = so_far.task.clone().filter(|_| so_far.status == Status::Unfinished) else { return };
        if self.plan.client.task(task).cancel().await.is_ok() {
            so_far.status = Status::Canceled;
            // Without the line, the next start reads that the task is canceled.
            let _ = self.end(key, Step::Failed("canceled".to_owned()), uploaded);
            self.delete(key).await;
        }
    }

    /// Notes what an interrupt reports of a file from now on.
    fn note(&self, key: &str, ended: &Ended, uploaded: &[String]) {
        let waiting = Waiting { so_far: ended.clone(), key: key.to_owned(), uploaded: uploaded.to_vec() };
        self.waiting().insert(ended.place, waiting);
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<usize, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one file to its outputs, from the step that the journal has.
    async fn one(&self, ended: &mut Ended, name: String, session: &Session) -> Result {
        let file = ended.file.clone();
        let key = self.plan.key(&file, session);
        self.delete(&key).await;
        let mut step = self.journal().step(&key).map(Step::last).cloned();
        if let Some(Step::Gone { task, uploaded }) = step {
            step = match self.plan.client.task(task.clone()).get().await {
                Ok(_) => Some(Step::Started { task, uploaded }),
                Err(error) if is_gone(&error) => {
                    self.end(&key, Step::Failed("the service does not know its task".to_owned()), &uploaded)?;
                    self.delete(&key).await;
                    None
                }
                Err(error) => return Err(Failure::from(error).about(&file)),
            };
        }
        // What an earlier start has begun to save.
        let mut own = Vec::new();
        let (task, uploaded) = match step {
            Some(Step::Done { task, cost, outputs, output }) => {
                ended.was_done = true;
                if outputs.iter().all(|output| output.exists()) {
                    ended.status = Status::Success;
                    ended.task = Some(task);
                    ended.cost = cost.parse().ok();
                    ended.outputs = outputs.iter().map(|output| shown(output, session)).collect();
                    ended.output = output;
                    return Ok(());
                }
                own = outputs;
                (task, Vec::new())
            }
            Some(Step::Saving { task, uploaded, outputs }) => {
                own = outputs;
                (task, uploaded)
            }
            Some(Step::Started { task, uploaded } | Step::Gone { task, uploaded }) => (task, uploaded),
            Some(Step::Prepared(prepared)) => {
                self.progress().state(&file, "looking for its task");
                self.start(ended, &key, prepared).await?
            }
            None | Some(Step::Failed(_) | Step::Deleting { .. } | Step::ContactSheet(_)) => {
                if self.stopped.load(Ordering::Relaxed) {
                    return Err(Failure::new(exit::FAILED, format!("{file}: not started")));
                }
                self.progress().state(&file, "preparing");
                ended.status = Status::Failed;
                let prepare = || self.plan.run(&file, session).prepare();
                let prepared = self.within_limits(&file, prepare).await.map_err(|error| {
                    self.stop_if_all_would_fail(&error);
                    of_upload(error).about(&file)
                })?;
                self.journal().write(&key, Step::Prepared(prepared.clone()))?;
                self.start(ended, &key, prepared).await?
            }
        };
        ended.task = Some(task.clone());
        ended.status = Status::Unfinished;
        let outcome = self.wait(ended, &key, task, &uploaded).await?;
        ended.cost.clone_from(&outcome.cost);
        ended.output = outcome.output.clone();
        ended.status = Status::NotSaved;
        self.note(&key, ended, &uploaded);
        self.progress().state(&file, "downloading");
        let names = Names { input: Some(name), model: Some(self.plan.model.clone()) };
        let outputs = self.save(&key, &outcome, &uploaded, own, &names, session).await;
        let outputs = outputs.map_err(|failure| failure.about(&file))?;
        ended.outputs = outputs.iter().map(|output| shown(output, session)).collect();
        let cost = outcome.cost.clone().unwrap_or_default().to_string();
        let done = Step::Done { task: outcome.task, cost, outputs, output: outcome.output };
        self.end(&key, done, &uploaded)?;
        ended.status = Status::Success;
        self.note(&key, ended, &uploaded);
        self.delete(&key).await;
        Ok(())
    }

    /// Creates the task, or finds the one that an interrupted start created.
    async fn start(
        &self,
        ended: &mut Ended,
        key: &str,
        mut prepared: PreparedRun,
    ) -> Result<(TaskId, Vec<String>)> {
        // An earlier start may have had others.
        prepared.max_cost.clone_from(&self.plan.options.max_cost);
        prepared.require_serving = self.plan.options.require_serving;
        let uploaded = prepared.uploaded.clone();
        ended.status = Status::Unknown;
        self.note(key, ended, &uploaded);
        let start = || self.plan.client.adopt_or_start(prepared.clone());
        match self.within_limits(&ended.file, start).await {
            Ok(task) => {
                let task = task.id().clone();
                let step = Step::Started { task: task.clone(), uploaded: uploaded.clone() };
                ended.task = Some(task.clone());
                ended.status = Status::Unfinished;
                self.journal().write(key, step)?;
                Ok((task, uploaded))
            }
            Err(error) => {
                self.stop_if_all_would_fail(&error);
                let is_refused = is_refused(&error);
                let failure = Failure::from(error).about(&ended.file);
                if is_refused {
                    ended.status = Status::Failed;
                    self.end(key, Step::Failed(failure.headline.clone()), &uploaded)?;
                    self.delete(key).await;
                }
                Err(failure)
            }
        }
    }

    /// Uploads, or creates a task or finds it, again while the service limits the account: what it refused for that
    /// reason had no effect.
    async fn within_limits<T, Called>(&self, file: &str, call: impl Fn() -> Called) -> Result<T, Error>
    where
        Called: Future<Output = Result<T, Error>>,
    {
        let until = Instant::now() + LIMIT_TIMEOUT;
        loop {
            let called = call().await;
            let delay = called.as_ref().err().and_then(limit_delay);
            match delay.filter(|delay| Instant::now() + *delay < until) {
                None => return called,
                Some(delay) => {
                    self.progress().state(file, "waiting: the service limits the account");
                    sleep(delay).await;
                }
            }
        }
    }

    /// Waits for the task of a file.
    async fn wait(&self, ended: &mut Ended, key: &str, task: TaskId, uploaded: &[String]) -> Result<Outcome> {
        self.note(key, ended, uploaded);
        let options = self.plan.options.wait.clone();
        let wait = self.plan.client.task(task.clone()).wait();
        let wait = wait.model(&*self.plan.model).deadline(options.deadline);
        let wait = wait.cancel_at_deadline(options.cancel_at_deadline).poll(options.poll);
        let outcome = watch(wait.events(), |event| {
            if let RunEvent::Status(status) = event {
                self.progress().state(&ended.file, status.as_str());
            }
        });
        let error = match outcome.await {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        ended.status = status_after(&error);
        self.note(key, ended, uploaded);
        if matches!(error, Error::TaskFailed(_)) && self.is_balance_too_small().await {
            self.stopped.store(true, Ordering::Relaxed);
        }
        if is_gone(&error) {
            let headline = format!("{}: the service does not know its task {task}", ended.file);
            self.journal().write(key, Step::Gone { task, uploaded: uploaded.to_vec() })?;
            return Err(Failure::new(exit::FAILED, headline)
                .with_hint("the next start asks for it once more, and then runs the file again"));
        }
        let failure = Failure::from(error).about(&ended.file);
        if ended.status != Status::Unfinished {
            self.end(key, Step::Failed(failure.headline.clone()), uploaded)?;
            self.delete(key).await;
        }
        Err(failure)
    }

    /// Saves the outputs, and returns their paths. Those that an earlier start saved at the paths `own` stay there.
    async fn save(
        &self,
        key: &str,
        outcome: &Outcome,
        uploaded: &[String],
        own: Vec<PathBuf>,
        names: &Names,
        session: &Session,
    ) -> Result<Vec<PathBuf>> {
        let delivery = &self.plan.delivery;
        let staged = delivery.stage(outcome, names, session).await;
        // No code of something that may be done again: the run is paid.
        let staged = staged.map_err(|failure| failure.with_code(exit::FAILED))?;
        let outputs = delivery.destinations(&staged, &own)?;
        let task = outcome.task.clone();
        let step = Step::Saving { task, uploaded: uploaded.to_vec(), outputs: outputs.clone() };
        self.journal().write(key, step)?;
        delivery.save_staged(&staged, &outputs, &own)?;
        Ok(outputs)
    }

    /// Writes the last step of a file, and the inputs that are deleted next.
    fn end(&self, key: &str, then: Step, uploaded: &[String]) -> Result {
        let deletes = self.plan.options.delete_inputs && !uploaded.is_empty();
        let deleting = |then| Step::Deleting { uploaded: uploaded.to_vec(), then: Box::new(then) };
        self.journal().write(key, if deletes { deleting(then) } else { then })
    }

    /// Deletes the inputs of a file that has ended, perhaps at an earlier start.
    async fn delete(&self, key: &str) {
        let step = self.journal().step(key).cloned();
        let Some(Step::Deleting { uploaded, then }) = step else { return };
        let mut is_last_attempt = true;
        for url in &uploaded {
            let Err(error) = self.plan.client.storage().delete(url.as_str()).await else { continue };
            // Members of an organization cannot delete its files: they are not found, however often it is tried.
            if self.plan.options.org.is_some() || !error.is_not_found() {
                self.progress().note(&format!("an input is still stored: {url}"));
            }
            is_last_attempt &= error.is_not_found();
        }
        if is_last_attempt {
            // Without the line, the next start tries once more.
            let _ = self.journal().write(key, *then);
        }
    }

    /// Starts no further file after a failure that it would meet too: a refused key, an empty balance, a limit, or a
    /// service that is gone.
    fn stop_if_all_would_fail(&self, error: &Error) {
        let would_all_fail = match error {
            Error::Unauthorized(_) | Error::Transport(_) | Error::CostLimitExceeded(_) => true,
            Error::ModelOffline(offline) => offline.task.is_none(),
            error => error.is_insufficient_balance(),
        };
        if would_all_fail {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the balance does not cover another task. A service may fail a task for that instead of refusing it.
    async fn is_balance_too_small(&self) -> bool {
        let client = &self.plan.client;
        let account = client.account();
        let model = client.model(&*self.plan.model);
        let (Ok(balance), Ok(model)) = tokio::join!(account.balance(), model.get()) else { return false };
        let held: Decimal = [balance.balance, balance.free_balance].into_iter().flatten().sum();
        model.price.is_some_and(|price| held < price)
    }

    /// Writes the contact sheet of the files that succeeded, if one is asked for.
    fn write_contact_sheet(&self, ended: &[Ended], session: &Session) -> Result {
        let Some(sheet) = &self.plan.options.before_after else { return Ok(()) };
        let folder = &session.environment.folder;
        let pair = |ended: &Ended| {
            let input = folder.join(expanded(&ended.file, session));
            contact_sheet::Pair {
                input,
                outputs: ended.outputs.iter().map(|output| folder.join(output)).collect(),
            }
        };
        let succeeded = ended.iter().filter(|ended| ended.status == Status::Success);
        let pairs: Vec<_> = succeeded.map(pair).collect();
        let written = contact_sheet::write(&pairs, &folder.join(sheet))?;
        let note = |as_written| self.journal().write(&sheet_key(sheet), Step::ContactSheet(as_written));
        let shown = written.put(note)?;
        session.output.note(format!("{} shows {shown} of {} results", sheet.display(), pairs.len()));
        Ok(())
    }
}

/// Fails when something is at the place of the contact sheet that no earlier start wrote.
fn check_sheet(sheet: &Path, journal: &Journal, overwrite: bool, session: &Session) -> Result {
    let written = match journal.step(&sheet_key(sheet)) {
        Some(Step::ContactSheet(written)) => Some(written),
        _ => None,
    };
    let is_own = written == Some(&sheet_of(sheet, session));
    let is_taken = session.environment.folder.join(sheet).exists();
    if is_taken && !overwrite && !is_own { Err(exists(&sheet.display().to_string())) } else { Ok(()) }
}

fn sheet_key(sheet: &Path) -> String {
    json!(["contact sheet", sheet]).to_string()
}

fn sheet_of(sheet: &Path, session: &Session) -> Value {
    identity(&sheet.display().to_string(), &session.environment.folder.join(sheet))
}

/// Whether a create was refused for good: there is no task, and none will appear.
fn is_refused(error: &Error) -> bool {
    match error {
        // They follow a search of the history that found nothing.
        Error::CostLimitExceeded(_) | Error::InvalidArgument(_) => true,
        Error::ModelOffline(offline) => offline.task.is_none(),
        Error::Api(context) | Error::Unauthorized(context) => {
            let status = context.status.unwrap_or_default();
            let is_permanent = (400..500).contains(&status) && !matches!(status, 408 | 429);
            context.operation == "createTask" && is_permanent
        }
        _ => false,
    }
}

/// Whether the service has the task no more.
fn is_gone(error: &Error) -> bool {
    let is_of_service = |context: &CallContext| context.operation == "getTask" && context.message.is_some();
    error.is_not_found() && error.context().is_some_and(is_of_service)
}

/// What became of a task whose wait ended with this error.
fn status_after(error: &Error) -> Status {
    let disposition = match error {
        Error::TaskFailed(_) => return Status::Failed,
        Error::TaskCanceled(_) => return Status::Canceled,
        Error::DeadlineReached(reached) => reached.disposition,
        Error::ModelOffline(offline) => offline.disposition,
        error if is_gone(error) => return Status::Unknown,
        _ => return Status::Unfinished,
    };
    if disposition == TaskDisposition::Canceled { Status::Canceled } else { Status::Unfinished }
}
