//! Runs: what this console has started or watches, their progress, and the stream of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::response::sse::Event;
use futures_util::stream::{self, Stream};
use inferstore::types::{TaskId, TaskStatus};
use inferstore::{Decimal, Error, RunEvent, RunEvents, UploadEvent};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::{self, Receiver, error::RecvError};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::files::{FileName, Upload};
use crate::pages::run as page;
use crate::state::lock;

/// How many runs are remembered; those that have ended are forgotten first.
const MAX_RUNS: usize = 1_000;

/// How many notes of a run are kept.
const MAX_NOTES: usize = 50;

/// How often the progress of an upload is shown. Everything else is shown at once.
const UPLOAD_INTERVAL: Duration = Duration::from_millis(100);

/// All runs of this console.
pub(crate) struct Runs {
    all: Mutex<(u64, BTreeMap<u64, Arc<Run>>)>,
    changes: broadcast::Sender<u64>,
    /// Ends them with the console. Their tasks go on.
    working: Mutex<JoinSet<()>>,
}

/// One run, or the wait for a task that was created elsewhere.
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) model: Option<String>,
    pub(crate) inputs: Map<String, Value>,
    pub(crate) files: BTreeMap<String, FileName>,
    /// The form that started it. Sending a form twice starts one run.
    pub(crate) form: u64,
    started: Instant,
    progress: Mutex<Progress>,
}

/// How far a run is.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    /// Sent and whole bytes, by field.
    pub(crate) uploads: BTreeMap<String, (u64, u64)>,
    pub(crate) task: Option<TaskId>,
    pub(crate) status: Option<TaskStatus>,
    pub(crate) notes: Vec<(Duration, String)>,
    pub(crate) end: Option<End>,
    pub(crate) elapsed: Duration,
    shown: Option<Instant>,
}

/// How a run ended.
#[derive(Clone)]
pub(crate) enum End {
    Success(Option<Decimal>),
    Failure(Failure),
}

impl Default for Runs {
    fn default() -> Self {
        Self { all: Mutex::default(), changes: broadcast::channel(1024).0, working: Mutex::default() }
    }
}

impl Runs {
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Run>> {
        lock(&self.all).1.get(&id).cloned()
    }

    /// All of them, newest first.
    pub(crate) fn list(&self) -> Vec<Arc<Run>> {
        lock(&self.all).1.values().rev().cloned().collect()
    }

    /// The latest run that this task belongs to.
    pub(crate) fn of_task(&self, task: &str) -> Option<Arc<Run>> {
        self.list()
            .into_iter()
            .find(|run| lock(&run.progress).task.as_ref().is_some_and(|id| id.as_str() == task))
    }

    /// Starts a run, unless its form has started one already. Its files are kept until it has ended.
    pub(crate) fn start(
        &self,
        mut run: Run,
        files: Vec<Upload>,
        events: impl FnOnce() -> RunEvents,
    ) -> Arc<Run> {
        let run = {
            let mut all = lock(&self.all);
            if let Some(same) = all.1.values().find(|same| same.form == run.form && run.form != 0) {
                return Arc::clone(same);
            }
            all.0 += 1;
            run.id = all.0;
            let run = Arc::new(run);
            all.1.insert(run.id, Arc::clone(&run));
            let ended = all.1.iter().find(|(_, run)| lock(&run.progress).end.is_some()).map(|(id, _)| *id);
            if let Some(ended) = ended.filter(|_| all.1.len() > MAX_RUNS) {
                all.1.remove(&ended);
            }
            run
        };
        let mut working = lock(&self.working);
        while working.try_join_next().is_some() {}
        let following = follow(Arc::clone(&run), events(), self.changes.clone());
        working.spawn(async move {
            following.await;
            drop(files);
        });
        run
    }

    /// Notes something about a run for its pages.
    pub(crate) fn note(&self, run: &Run, text: String) {
        run.note(&mut lock(&run.progress), text);
        // An error means that no page is open.
        let _ = self.changes.send(run.id);
    }

    /// The changes of one run, or of all: what is now, and then every change.
    pub(crate) fn changes(
        self: &Arc<Self>,
        one: Option<u64>,
    ) -> impl Stream<Item = Result<Event, Infallible>> + use<> {
        let changes = self.changes.subscribe();
        let due = self.due(one);
        let start = (Arc::clone(self), changes, due);
        stream::unfold(start, move |(runs, mut changes, mut due)| async move {
            loop {
                if let Some(id) = due.pop_first() {
                    let Some(run) = runs.get(id) else { continue };
                    let progress = run.progress();
                    let html = match one {
                        Some(_) => page::steps(&run, &progress),
                        None => page::row(&run, &progress),
                    };
                    let change =
                        json!({ "run": id, "html": html.into_string(), "over": progress.end.is_some() });
                    return Some((Ok(Event::default().data(change.to_string())), (runs, changes, due)));
                }
                due = next(&runs, &mut changes, one).await?;
            }
        })
    }

    fn due(&self, one: Option<u64>) -> BTreeSet<u64> {
        one.map_or_else(|| lock(&self.all).1.keys().copied().collect(), |id| BTreeSet::from([id]))
    }
}

/// The runs that have changed, or None when the console ends.
async fn next(runs: &Runs, changes: &mut Receiver<u64>, one: Option<u64>) -> Option<BTreeSet<u64>> {
    let mut due = match changes.recv().await {
        Ok(id) => BTreeSet::from([id]),
        // A slow browser has missed changes: it gets the present state of everything.
        Err(RecvError::Lagged(_)) => runs.due(one),
        Err(RecvError::Closed) => return None,
    };
    while let Ok(id) = changes.try_recv() {
        due.insert(id);
    }
    due.retain(|id| one.is_none_or(|one| one == *id));
    Some(due)
}

async fn follow(run: Arc<Run>, mut events: RunEvents, changes: broadcast::Sender<u64>) {
    while let Some(event) = events.next().await {
        if run.apply(event) {
            let _ = changes.send(run.id);
        }
    }
    let result = events.finish().await;
    {
        let mut progress = lock(&run.progress);
        progress.elapsed = run.started.elapsed();
        progress.end = Some(match result {
            Ok(outcome) => End::Success(outcome.cost),
            Err(error) => {
                match error {
                    Error::TaskFailed(_) => progress.status = Some(TaskStatus::Failed),
                    Error::TaskCanceled(_) => progress.status = Some(TaskStatus::Canceled),
                    _ => {}
                }
                End::Failure(Failure::of(&error))
            }
        });
    }
    let _ = changes.send(run.id);
}

impl Run {
    pub(crate) fn new(model: Option<String>, inputs: Map<String, Value>, task: Option<TaskId>) -> Self {
        let progress = Mutex::new(Progress { task, ..Progress::default() });
        Self { id: 0, model, inputs, files: BTreeMap::new(), form: 0, started: Instant::now(), progress }
    }

    pub(crate) fn progress(&self) -> Progress {
        let mut progress = lock(&self.progress).clone();
        if progress.end.is_none() {
            progress.elapsed = self.started.elapsed();
        }
        progress
    }

    fn note(&self, progress: &mut Progress, text: String) {
        if progress.notes.len() < MAX_NOTES {
            progress.notes.push((self.started.elapsed(), text));
        }
    }

    /// Applies an event, and returns whether pages show it now.
    fn apply(&self, event: RunEvent) -> bool {
        let mut progress = lock(&self.progress);
        match event {
            RunEvent::Upload { field, event: UploadEvent::Started { size, .. } } => {
                progress.uploads.insert(field, (0, size));
            }
            RunEvent::Upload { field, event: UploadEvent::Progress { sent, size, .. } } => {
                progress.uploads.insert(field, (sent, size));
                let is_recent = progress.shown.is_some_and(|shown| shown.elapsed() < UPLOAD_INTERVAL);
                if sent < size && is_recent {
                    return false;
                }
                progress.shown = Some(Instant::now());
            }
            RunEvent::Upload { field, event: UploadEvent::Retrying { problem, .. } } => {
                self.note(&mut progress, format!("The upload of {field} is sent again: {problem}"));
            }
            RunEvent::Created(task) => progress.task = Some(task),
            RunEvent::Status(status) => progress.status = Some(status),
            RunEvent::Warning(text) => self.note(&mut progress, text),
            RunEvent::ReadFailed(text) => {
                self.note(&mut progress, format!("The task could not be read; the wait goes on: {text}"));
            }
            RunEvent::ModelOffline => self.note(&mut progress, "No node serves the model now.".to_owned()),
            _ => {}
        }
        true
    }
}

impl Progress {
    /// Whether the task has ended, and has a page that says how.
    pub(crate) fn has_result(&self) -> bool {
        let is_over = matches!(self.end, Some(End::Success(_)))
            || self.status.as_ref().is_some_and(TaskStatus::is_terminal);
        self.end.is_some() && is_over && self.task.is_some()
    }
}
