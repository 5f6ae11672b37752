//! Batches: one task for each of several files, each paid once, whenever the command is interrupted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use futures_util::stream;
use inferstore::types::TaskId;
use inferstore::{Client, Decimal, Error, Inputs, RunEvent, TaskDisposition};
use serde_json::json;

use super::inputs::{attach_path, stem_of};
use super::journal::{Journal, NAME, Step, key};
use super::{RunOptions, configured, warn_if_offline};
use crate::commands::files::before_or_after;
use crate::commands::outputs::{Delivery, Names, expanded};
use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::progress::{Progress, watch};
use crate::settings::Session;
use crate::table::{Cell as TableCell, Fit, Table};

/// A batch that was checked.
pub(super) struct Batch {
    client: Client,
    model: String,
    /// The input that takes the files.
    field: String,
    inputs: Inputs,
    given: BTreeMap<String, String>,
    options: RunOptions,
    delivery: Delivery,
    journal: Mutex<Journal>,
    progress: Mutex<Progress>,
    /// The first failure that every further file would meet.
    stopped: AtomicBool,
    /// The tasks that are waited for, by the key of their file.
    waiting: Mutex<BTreeMap<String, TaskId>>,
}

/// How a file ended.
struct Ended {
    place: usize,
    file: String,
    result: Result<Finished>,
}

/// A file whose outputs are there.
struct Finished {
    task: TaskId,
    cost: String,
    outputs: Vec<PathBuf>,
    /// By an earlier start.
    was_done: bool,
}

impl Batch {
    #[expect(clippy::too_many_arguments, reason = "the parts of a run, taken apart once")]
    pub(super) fn new(
        client: Client,
        model: String,
        field: String,
        inputs: Inputs,
        given: BTreeMap<String, String>,
        options: RunOptions,
        delivery: Delivery,
        session: &Session,
    ) -> Result<Self> {
        if options.detach || options.outputs.show {
            return Err(Failure::usage("several files cannot run with --detach or --show")
                .with_hint("give -o outputs/; after an interruption the same command continues"));
        }
        if !delivery.tells_runs_apart() {
            return Err(Failure::usage("every file of the batch would have the same output")
                .with_hint("write {input} or {task} into the template of -o; nothing was sent"));
        }
        #[cfg(feature = "show")]
        if let Some(sheet) = &options.before_after {
            super::contact_sheet::check(&session.environment.folder.join(sheet))?;
        }
        let Some(folder) = delivery.folder(session) else {
            return Err(Failure::usage("several files need a folder for their outputs")
                .with_hint("give -o outputs/, or a template such as -o 'outputs/{input}.{ext}'"));
        };
        let journal = Journal::open(&folder)?;
        client.tasks().claim(journal.tasks());
        let progress = Mutex::new(Progress::new(&session.output));
        let journal = Mutex::new(journal);
        let (stopped, waiting) = (AtomicBool::new(false), Mutex::default());
        Ok(Self {
            client,
            model,
            field,
            inputs,
            given,
            options,
            delivery,
            journal,
            progress,
            stopped,
            waiting,
        })
    }

    pub(super) async fn execute(self, mut files: Vec<String>, session: &Session) -> Result {
        // A file may be given twice, by a pattern and by its name.
        let mut seen = HashSet::new();
        files.retain(|file| seen.insert(self.key(file, session)));
        if self.options.dry_run {
            return self.check(&files, session).await;
        }
        warn_if_offline(&self.model, &self.client, session).await;
        let total = files.len();
        self.progress().count(total);
        let names = unique_names(&files);
        let jobs = usize::from(self.options.jobs);
        let runs = stream::iter(files.into_iter().enumerate()).map(|(place, file)| {
            let name = names.get(&file).cloned().unwrap_or_default();
            let batch = &self;
            async move {
                let result = batch.one(&file, name, session).await;
                batch.progress().counted(&file);
                Ended { place, file, result }
            }
        });
        let mut runs = std::pin::pin!(runs.buffer_unordered(jobs));
        let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
        let mut ended = Vec::new();
        let is_interrupted = loop {
            tokio::select! {
                biased;
                _ = &mut interrupted => break true,
                next = runs.next() => match next {
                    Some(one) => ended.push(one),
                    None => break false,
                },
            }
        };
        self.progress().end();
        ended.sort_by_key(|ended| ended.place);
        summary(&ended, total, session)?;
        #[cfg(feature = "show")]
        self.write_contact_sheet(&ended, session)?;
        if is_interrupted {
            let tasks = match self.options.cancel_on_interrupt {
                true => format!("{} queued tasks were canceled", self.cancel_waiting().await?),
                false => "tasks that were created go on".to_owned(),
            };
            return Err(Failure::new(exit::DETACHED, format!("interrupted; {tasks}"))
                .with_hint("the same command continues, and pays nothing twice"));
        }
        failure_of(ended)
    }

    /// Cancels the tasks that are still queued; returns how many.
    async fn cancel_waiting(&self) -> Result<usize> {
        let waiting = std::mem::take(&mut *self.waiting());
        let mut canceled = 0;
        for (key, task) in waiting {
            // One that runs goes on.
            if self.client.task(task).cancel().await.is_ok() {
                self.journal().write(&key, Step::Failed("canceled".to_owned()))?;
                canceled += 1;
            }
        }
        Ok(canceled)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, TaskId>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the contact sheet of the files that succeeded, if one is asked for.
    #[cfg(feature = "show")]
    fn write_contact_sheet(&self, ended: &[Ended], session: &Session) -> Result {
        use super::contact_sheet::{Pair, write};

        let Some(sheet) = &self.options.before_after else { return Ok(()) };
        let folder = &session.environment.folder;
        let pair = |ended: &Ended| {
            let finished = ended.result.as_ref().ok()?;
            let input = folder.join(expanded(&ended.file, session));
            Some(Pair { input, outputs: finished.outputs.iter().map(|output| folder.join(output)).collect() })
        };
        let pairs: Vec<Pair> = ended.iter().filter_map(pair).collect();
        let shown = write(&pairs, &folder.join(sheet))?;
        session.output.note(format!("{} shows {shown} of {} results", sheet.display(), pairs.len()));
        Ok(())
    }

    /// Checks every file, and creates nothing.
    async fn check(&self, files: &[String], session: &Session) -> Result {
        for file in files {
            let checked = self.run(file, session).check().await;
            checked.map_err(|error| about(file, before_or_after(error, false)))?;
        }
        let cost = self.client.model(&self.model).cost().await?.cost.unwrap_or_default();
        let total: Decimal = files.iter().map(|_| &cost).sum();
        session.output.note("nothing was uploaded, and no task was created");
        let table = Table::of_fields([
            ("model", Some(self.model.clone())),
            ("files", Some(files.len().to_string())),
            ("cost", Some(total.to_string())),
        ]);
        let json = json!({"model": self.model, "files": files, "cost": total.to_string()}).to_string();
        session.output.report(&Report { table, json, ..Report::default() })
    }

    fn run(&self, file: &str, session: &Session) -> inferstore::Run {
        let inputs = attach_path(self.inputs.clone(), self.field.clone(), file, session);
        configured(&self.client, &self.model, inputs, &self.options)
    }

    fn key(&self, file: &str, session: &Session) -> String {
        key(&self.model, &self.given, file, &session.environment.folder.join(expanded(file, session)))
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self, file: &str, state: &str) {
        self.progress().state(file, state);
    }

    /// Runs one file to its outputs, from the step that the journal has.
    async fn one(&self, file: &str, name: String, session: &Session) -> Result<Finished> {
        let key = self.key(file, session);
        let step = self.journal().step(&key).cloned();
        let (mut is_resumed, mut was_done) = (false, false);
        let (task, uploaded) = match step {
            Some(Step::Done { task, cost, outputs }) => {
                if outputs.iter().all(|output| session.environment.folder.join(output).exists()) {
                    let outputs = outputs.iter().map(|output| shown(output, session)).collect();
                    return Ok(Finished { task, cost, outputs, was_done: true });
                }
                was_done = true;
                (task, Vec::new())
            }
            Some(Step::Started { task, uploaded }) => {
                is_resumed = true;
                (task, uploaded)
            }
            Some(Step::Prepared(prepared)) => {
                self.state(file, "looking for its task");
                self.start(&key, prepared)
                    .await
                    .map_err(|failure| self.stop_if_hopeless(about(file, failure)))?
            }
            None | Some(Step::Failed(_)) => {
                if self.stopped.load(Ordering::Relaxed) {
                    return Err(Failure::new(exit::FAILED, format!("{file}: not started")));
                }
                self.state(file, "uploading");
                let prepared = self.run(file, session).prepare().await;
                let prepared = prepared
                    .map_err(|error| self.stop_if_hopeless(about(file, before_or_after(error, false))))?;
                self.journal().write(&key, Step::Prepared(prepared.clone()))?;
                self.start(&key, prepared)
                    .await
                    .map_err(|failure| self.stop_if_hopeless(about(file, failure)))?
            }
        };
        self.waiting().insert(key.clone(), task.clone());
        let options = self.options.wait.clone();
        let wait = self.client.task(task.clone()).wait().model(&*self.model).deadline(options.deadline);
        let wait = wait.cancel_at_deadline(options.cancel_at_deadline).poll(options.poll);
        let outcome = watch(wait.events(), |event| {
            if let RunEvent::Status(status) = event {
                self.state(file, status.as_str());
            }
        });
        let outcome = outcome.await;
        self.waiting().remove(&key);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                let has_ended = match &error {
                    Error::TaskFailed(_) | Error::TaskCanceled(_) => true,
                    Error::DeadlineReached(reached) => reached.disposition == TaskDisposition::Canceled,
                    Error::ModelOffline(offline) => offline.disposition == TaskDisposition::Canceled,
                    _ => false,
                };
                let failure = about(file, error.into());
                if has_ended {
                    self.journal().write(&key, Step::Failed(failure.headline.clone()))?;
                    self.delete(uploaded).await;
                }
                return Err(failure);
            }
        };
        self.state(file, "downloading");
        let names = Names { input: Some(name), model: Some(self.model.clone()) };
        // An interrupted start may have saved them already.
        let delivery = if is_resumed { self.delivery.clone().replacing() } else { self.delivery.clone() };
        let saved = delivery.without_progress().deliver(&outcome, &names, session).await;
        let outputs: Vec<PathBuf> =
            saved.map_err(|failure| about(file, failure))?.into_iter().map(|(_, path)| path).collect();
        let cost = outcome.cost.clone().unwrap_or_default().to_string();
        let absolute =
            outputs.iter().map(|output| absolute(&session.environment.folder.join(output))).collect();
        let done = Step::Done { task: task.clone(), cost: cost.clone(), outputs: absolute };
        self.journal().write(&key, done)?;
        self.delete(uploaded).await;
        Ok(Finished { task, cost, outputs, was_done })
    }

    /// Creates the task, or finds the one that an interrupted start created.
    async fn start(&self, key: &str, prepared: inferstore::PreparedRun) -> Result<(TaskId, Vec<String>)> {
        let uploaded = prepared.uploaded.clone();
        let task = self.client.adopt_or_start(prepared).await?.id().clone();
        let step = Step::Started { task: task.clone(), uploaded: uploaded.clone() };
        self.journal().write(key, step)?;
        Ok((task, uploaded))
    }

    async fn delete(&self, uploaded: Vec<String>) {
        for url in uploaded.iter().filter(|_| self.options.delete_inputs) {
            if self.client.storage().delete(url.as_str()).await.is_err() {
                self.progress().note(&format!("an input is still stored: {url}"));
            }
        }
    }

    /// A refused key, an empty balance or a service that is gone ends all files that have not started.
    fn stop_if_hopeless(&self, failure: Failure) -> Failure {
        let is_payment = failure.headline.contains("(status 402)");
        if is_payment || matches!(failure.code, exit::KEY | exit::NOT_REACHED) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        failure
    }
}

/// The path from the root: the same command may continue in another working folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The path as it is seen from the working folder.
fn shown(path: &Path, session: &Session) -> PathBuf {
    let folder = absolute(&session.environment.folder.join("."));
    path.strip_prefix(folder).unwrap_or(path).to_owned()
}

/// The failure with the file that it is about.
fn about(file: &str, failure: Failure) -> Failure {
    if failure.headline.contains(file) {
        return failure;
    }
    Failure { headline: format!("{file}: {}", failure.headline), ..failure }
}

/// A name for each file that no other one has: its stem, else its name, else its path.
fn unique_names(files: &[String]) -> HashMap<String, String> {
    let full = |file: &str| {
        let path = Path::new(file);
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().replace('.', "_"))
    };
    let whole = |file: &str| file.replace(['/', '\\', '.', ':'], "_");
    let stem = |file: &str| stem_of(file).unwrap_or_else(|| whole(file));
    let count =
        |name: &str, of: &dyn Fn(&str) -> String| files.iter().filter(|file| of(file) == name).count();
    let mut names = HashMap::new();
    for file in files {
        let mut name = stem(file);
        if count(&name, &stem) > 1 {
            name = full(file);
            if count(&name, &full) > 1 {
                name = whole(file);
            }
        }
        names.insert(file.clone(), name);
    }
    names
}

/// What became of each file, and the sum.
fn summary(ended: &[Ended], total: usize, session: &Session) -> Result {
    let mut table = Table::new([
        ("FILE", Fit::Keep),
        ("STATUS", Fit::Keep),
        ("COST", Fit::Drop(1)),
        ("OUTPUT", Fit::Keep),
    ]);
    let (mut records, mut quiet) = (Vec::new(), Vec::new());
    let (mut succeeded, mut skipped, mut cost) = (0, 0, Decimal::default());
    for Ended { file, result, .. } in ended {
        match result {
            Ok(finished) => {
                succeeded += 1;
                skipped += usize::from(finished.was_done);
                if !finished.was_done {
                    cost += finished.cost.parse::<Decimal>().unwrap_or_default();
                }
                let outputs: Vec<String> =
                    finished.outputs.iter().map(|path| path.display().to_string()).collect();
                table.add([
                    TableCell::from(file.as_str()),
                    TableCell::status("success"),
                    TableCell::from(finished.cost.as_str()),
                    TableCell::from(outputs.join(" ")),
                ]);
                let record = json!({
                    "file": file,
                    "status": "success",
                    "task": finished.task.as_str(),
                    "cost": finished.cost,
                    "outputs": outputs,
                });
                records.push(record.to_string());
                quiet.extend(outputs);
            }
            Err(failure) => {
                session.output.note(crate::table::printable(&failure.headline));
                table.add([
                    TableCell::from(file.as_str()),
                    TableCell::status("failed"),
                    TableCell::default(),
                    TableCell::default(),
                ]);
                let record = json!({"file": file, "status": "failed", "error": failure.headline});
                records.push(record.to_string());
            }
        }
    }
    let earlier = if skipped > 0 { format!(", {skipped} of them earlier") } else { String::new() };
    let below = format!("{succeeded} of {total} succeeded{earlier}; cost {cost}");
    let json = format!("[{}]", records.join(","));
    let table = if ended.is_empty() { Table::default() } else { table };
    session.output.report(&Report { table, below: Some(below), json, records: Some(records), quiet })
}

/// The failure of the batch: with the exit code of its files if they have the same.
fn failure_of(ended: Vec<Ended>) -> Result {
    let total = ended.len();
    let failures: Vec<Failure> = ended.into_iter().filter_map(|ended| ended.result.err()).collect();
    let Some(first) = failures.first() else { return Ok(()) };
    let code = match failures.iter().all(|failure| failure.code == first.code) {
        true => first.code,
        false => exit::FAILED,
    };
    let hint = first.hint.clone().map(|hint| format!("{hint}; then ")).unwrap_or_default();
    Err(Failure::new(code, format!("{} of {total} files failed", failures.len())).with_hint(format!(
        "{hint}run the same command again: it continues where {NAME} in the folder of -o ends"
    )))
}

#[cfg(test)]
mod tests {
    use super::unique_names;

    #[test]
    fn every_file_of_a_batch_has_a_name_of_its_own() {
        let files = ["a.png", "b.png", "b.jpg", "x/c.png", "y/c.png"].map(str::to_owned);
        let names = unique_names(&files);
        let names: Vec<&str> = files.iter().map(|file| names[file].as_str()).collect();
        assert_eq!(names, ["a", "b_png", "b_jpg", "x_c_png", "y_c_png"]);
    }
}
