//! Batches: one task for each entry, such as a file, each paid once, whenever the command is interrupted.

mod interrupt;
mod quote;
pub(super) mod watch;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use futures_util::stream;
use inferstore::types::TaskId;
use inferstore::{Client, Decimal, Error, ErrorKind, Outcome, PreparedRun, TaskDisposition};
use inferstore_batch::{Item, Journal, Step, within_limits};
use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::task::spawn_blocking;

use self::interrupt::WaitingItem;
use self::quote::Quote;
use super::contents::{Contents, files, regular_file};
use super::entries::Entry;
use super::journal::{Earlier, KnownKeys, NAME, hash_of, key};
use super::summary::{self, FileOutcome, Status};
use super::{RunOptions, configured, limited, warn_if_offline};
use crate::commands::outputs::{Delivery, TemplateVariables, relative_path};
use crate::commands::signals::Signals;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::progress::{Progress, SharedProgress, watch};
use crate::settings::Session;
use crate::table::Table;
use crate::values::md5_of;

/// The most entries that are checked at the same time.
const MAX_CONCURRENT_CHECKS: usize = 16;

/// The most mistakes that are reported.
const MAX_MISTAKES: usize = 10;

/// The entries that are run, and how.
pub(in crate::commands) struct Plan {
    pub(in crate::commands) client: Client,
    pub(in crate::commands) model: String,
    pub(in crate::commands) entries: Vec<Entry>,
    pub(in crate::commands) options: RunOptions,
    pub(in crate::commands) delivery: Delivery,
    /// The price of a run, where there is a budget.
    pub(in crate::commands) price: Option<Decimal>,
    /// All entries are checked before the first one is run.
    pub(in crate::commands) checks_all: bool,
}

/// A batch that was checked.
struct Batch<'a> {
    session: &'a Session,
    plan: Plan,
    items: inferstore_batch::Batch,
    progress: SharedProgress,
    /// A failure that every further file would meet.
    stopped: AtomicBool,
    /// The keys of the journal: an entry replaces the outputs of one with other files at the same paths.
    known: Arc<Mutex<KnownKeys>>,
    /// Hashes of the paths of outputs, which no other entry replaces.
    saved: Mutex<HashSet<u64>>,
    /// The files whose tasks may have been created, and which have not ended yet, by their index.
    waiting: Mutex<BTreeMap<usize, WaitingItem>>,
}

/// Runs the one entry of a plan, from the step that the journal has, and returns how it ended.
pub(in crate::commands) async fn run_one(
    plan: Plan,
    items: inferstore_batch::Batch,
    known: Arc<Mutex<KnownKeys>>,
    session: &Session,
) -> FileOutcome {
    let batch = Batch::of(plan, items, known, session);
    match batch.plan.entries.first() {
        Some(entry) => batch.outcome(0, entry).await,
        None => FileOutcome::default(),
    }
}

/// Runs the model on each entry, or only checks that it could.
pub(super) async fn execute(mut plan: Plan, session: &Session) -> Result {
    let folder = plan.check_options(session)?;
    plan.find_repeated();
    if plan.options.rows.is_none() {
        // A file may be given twice, by a pattern and by its name.
        plan.entries.retain(|entry| entry.same_as.is_none());
    }
    if plan.checks_all || plan.options.dry_run {
        plan.check(session).await?;
    }
    let path = folder.join(NAME);
    let journal = if path.exists() { Some(Journal::open(&path)?) } else { None };
    if let Some(journal) = &journal {
        let mut entries = std::mem::take(&mut plan.entries);
        plan.recognize(&mut entries, &KnownKeys::of(journal), |key| journal.step(key).cloned());
        plan.entries = entries;
    }
    let quote = plan.quote(journal.as_ref()).await?;
    if plan.options.dry_run {
        return plan.report(quote, session);
    }
    if let Some(budget) = &plan.options.budget {
        plan.price = Some(quote.check(budget)?);
    }
    if plan.options.rows.is_some() {
        session.note(quote.to_string());
    }
    let journal = journal.map_or_else(|| Journal::open(path), Ok)?;
    Batch::new(plan, journal, session).execute().await
}

impl Plan {
    /// Checks the options, and returns the folder of the outputs.
    fn check_options(&self, session: &Session) -> Result<PathBuf> {
        if self.options.detach || self.options.outputs.show {
            return Err(Failure::usage("a batch cannot run with --detach or --show")
                .with_hint("give -o outputs/; after an interruption the same command continues"));
        }
        if !self.delivery.tells_runs_apart() {
            return Err(Failure::usage("every file of the batch would have the same output")
                .with_hint("write {input} or {task} into the template of -o; nothing was sent"));
        }
        self.delivery.folder(session).ok_or_else(|| {
            Failure::usage("several files need a folder for their outputs")
                .with_hint("give -o outputs/, or a template such as -o 'outputs/{input}.{ext}'")
        })
    }

    /// Marks the entries whose inputs are those of an entry before: they are run once.
    fn find_repeated(&mut self) {
        let mut first = HashMap::new();
        for (place, key) in self.keys().into_iter().enumerate() {
            let first = *first.entry(key).or_insert(place);
            self.entries[place].same_as = (first < place).then_some(first);
        }
    }

    /// The entries that are run, with their places.
    fn distinct(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries.iter().enumerate().filter(|(_, entry)| entry.same_as.is_none())
    }

    /// Checks every entry, and creates nothing. Each mistake is reported with its row or file.
    async fn check(&self, session: &Session) -> Result {
        let checks = stream::iter(&self.entries).map(|entry| async {
            // The price and the nodes are those of all entries.
            let run = self.client.model(&*self.model).run(entry.inputs.clone());
            let run = run.options(|run| run.skip_validation = self.options.no_check);
            run.check().await.err().map(|error| Failure::from(error).about(&entry.label))
        });
        let mistakes = checks.buffered(MAX_CONCURRENT_CHECKS).filter_map(ready).take(MAX_MISTAKES);
        session.output.failures(mistakes.collect().await)
    }

    /// Reads the price, and what earlier starts have paid.
    async fn quote(&self, journal: Option<&Journal>) -> Result<Quote> {
        let needs_price =
            self.options.budget.is_some() || self.options.dry_run || self.options.rows.is_some();
        let price = if needs_price { self.client.model(&*self.model).cost().await?.cost } else { None };
        let keys = self.distinct().map(|(_, entry)| self.key(entry));
        let earlier =
            journal.map(|journal| Earlier::count(journal, keys, price.as_ref())).unwrap_or_default();
        Ok(Quote { price, count: self.distinct().count(), earlier })
    }

    /// Reports what the batch would cost.
    fn report(&self, quote: Quote, session: &Session) -> Result {
        let Quote { count, earlier: Earlier { paid, begun, .. }, .. } = quote;
        let total = quote.total().map(|total| total.to_string());
        session.note("nothing was uploaded, and no task was created");
        if paid > 0 {
            session.note(format!("{paid} of {count} files are paid already"));
        }
        if begun > 0 {
            session.note(format!(
                "the tasks of {begun} of {count} files may be created already; the cost counts them"
            ));
        }
        let table = Table::of_fields([
            ("model", Some(self.model.clone())),
            ("files", Some(count.to_string())),
            ("cost", total.clone()),
        ]);
        let files: Vec<&str> = self.distinct().map(|(_, entry)| entry.label.as_str()).collect();
        let json = json!({"model": self.model, "files": files, "cost": total}).to_string();
        session.output.report(&Report { table, json, ..Report::default() })
    }

    fn run(&self, entry: &Entry) -> inferstore::Run {
        let run = configured(&self.client, &self.model, entry.inputs.clone(), &self.options);
        limited(run, self.max_cost())
    }

    /// The most that a run may cost: the price where there is a budget, so that the sum is known before.
    fn max_cost(&self) -> Option<&Decimal> {
        self.options.max_cost.iter().chain(&self.price).min()
    }

    fn names(&self, entry: &Entry) -> TemplateVariables {
        let input = Some(entry.name.clone()).filter(|name| !name.is_empty());
        TemplateVariables { input, model: Some(self.model.clone()) }
    }

    /// The keys of the entries in the journal.
    pub(in crate::commands) fn keys(&self) -> Vec<String> {
        self.entries.iter().map(|entry| self.key(entry)).collect()
    }

    /// Finds the items of entries whose files have new times, and the contents that they had.
    pub(in crate::commands) fn recognize(
        &self,
        entries: &mut [Entry],
        known: &KnownKeys,
        step: impl Fn(&str) -> Option<Step>,
    ) {
        let mut contents = Contents::default();
        for entry in entries {
            let key = self.key(entry);
            if step(&key).is_none() {
                entry.item = contents.same_item(&key, known, &step);
            }
        }
    }

    fn key(&self, entry: &Entry) -> String {
        if let Some(item) = &entry.item {
            return item.clone();
        }
        key(self.client.base_url(), &self.model, &entry.others, &entry.file)
    }
}

impl<'a> Batch<'a> {
    fn new(plan: Plan, journal: Journal, session: &'a Session) -> Self {
        let known = Arc::new(Mutex::new(KnownKeys::of(&journal)));
        let items = inferstore_batch::Batch::new(&plan.client, journal)
            .delete_inputs(plan.options.delete_inputs)
            .budget(plan.options.budget.clone());
        Self::of(plan, items, known, session)
    }

    fn of(
        plan: Plan,
        items: inferstore_batch::Batch,
        known: Arc<Mutex<KnownKeys>>,
        session: &'a Session,
    ) -> Self {
        Self {
            session,
            plan,
            items,
            progress: Progress::shared(&session.output),
            stopped: AtomicBool::new(false),
            known,
            saved: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// Runs the entries, and reports them.
    async fn execute(self) -> Result {
        warn_if_offline(&self.plan.model, &self.plan.client, &self.plan.options, self.session).await;
        let mut signals = Signals::new()?;
        let total = self.plan.entries.len();
        self.progress.lock().count(self.plan.distinct().count());
        let (mut ended, is_interrupted) = self.run_all(&mut signals).await;
        self.progress.lock().end();
        if is_interrupted {
            return self.interrupted(ended, total, &mut signals).await;
        }
        ended.extend(self.repeated(&ended));
        let reported = summary::report(&mut ended, total, self.session);
        summary::result(&ended).and(reported)
    }

    /// The outcomes of the entries that were not run, because another one has the same inputs.
    fn repeated(&self, ended: &[FileOutcome]) -> Vec<FileOutcome> {
        let by_place: HashMap<usize, &FileOutcome> = ended.iter().map(|ended| (ended.place, ended)).collect();
        let entries = self.plan.entries.iter().enumerate();
        let repeated = entries.filter_map(|(place, entry)| {
            let first = *by_place.get(&entry.same_as?)?;
            Some(FileOutcome { place, file: entry.label.clone(), is_repeated: true, ..first.clone() })
        });
        repeated.collect()
    }

    /// Runs all files, until they have ended or a signal comes.
    async fn run_all(&self, signals: &mut Signals) -> (Vec<FileOutcome>, bool) {
        let jobs = usize::from(self.plan.options.jobs);
        let runs = stream::iter(self.plan.distinct()).map(|(place, entry)| self.outcome(place, entry));
        let mut runs = std::pin::pin!(runs.buffer_unordered(jobs));
        let mut ended = Vec::with_capacity(self.plan.entries.len());
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

    /// Runs an entry to its end.
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
        let item = self.items.item(key.clone());
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
                let (_, outdated) = self.outdated(&key);
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
                && self.items.content(&name).is_none()
                && let Ok(Ok(hash)) = spawn_blocking(move || md5_of(&path)).await
            {
                self.items.record_content(&name, hash)?;
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
                if matches!(item.step(), Some(Step::Failed(_))) {
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

    /// Waits for the task of a file.
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
        let (earlier, outdated) = self.outdated(key);
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
            if let Some(Step::Done { outputs: old, .. }) = earlier.step()
                && old.iter().any(|path| outputs.contains(path))
            {
                earlier.outdated()?;
            }
        }
        delivery.save_staged(&staged, &outputs, &own, &outdated)?;
        Ok(outputs)
    }

    /// The items of the same entry with other contents of its files, and their outputs that nobody has changed.
    fn outdated(&self, key: &str) -> (Vec<Item>, Vec<PathBuf>) {
        let items: Vec<Item> = self.known.lock().outdated_by(key).map(|key| self.items.item(key)).collect();
        let outputs = items.iter().filter_map(Item::step).flat_map(|step| step.unchanged_outputs()).collect();
        (items, outputs)
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

    /// Starts no further file after a failure that it would meet too: a refused key, an empty balance, a limit, or a
    /// service that is gone.
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

/// The status of a file whose wait ended with this error.
fn status_after(error: &Error) -> Status {
    match error.kind() {
        ErrorKind::TaskFailed => Status::Failed,
        ErrorKind::TaskCanceled => Status::Canceled,
        _ if error.disposition() == Some(TaskDisposition::Canceled) => Status::Canceled,
        _ if error.is_gone() => Status::Unknown,
        _ => Status::Unfinished,
    }
}
