//! Runs started or watched by this console, their progress, and the stream of changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, Stream};
use inferstore::types::{TaskId, TaskStatus};
use inferstore::{Decimal, Error, RunEvent, RunEvents, UploadEvent};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cache::Kept;
use crate::failure::{Failure, named};

const MAX_RUNS: usize = 1_000;

/// Interval at which changes are coalesced before they are sent to a browser.
const CHANGE_INTERVAL: Duration = Duration::from_millis(50);

const MAX_COMPARED: usize = 9;

#[derive(Default)]
pub(crate) struct Runs {
    all: Mutex<BTreeMap<u64, Arc<Run>>>,
    changes: watch::Sender<u64>,
    /// Background tasks, which end with the console. The service's tasks continue.
    working: Mutex<JoinSet<()>>,
}

pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) model: Option<String>,
    pub(crate) inputs: Map<String, Value>,
    pub(crate) files: BTreeMap<String, String>,
    size: u64,
    /// Identifier of the form that started the run. Sending a form twice starts one run.
    pub(crate) form: u64,
    pub(crate) picture: Option<String>,
    pub(crate) created: Timestamp,
    started: Instant,
    progress: Mutex<Progress>,
}

#[derive(Clone, Default)]
pub(crate) struct Progress {
    /// Sent and total bytes by field.
    pub(crate) uploads: BTreeMap<String, (u64, u64)>,
    pub(crate) task: Option<TaskId>,
    pub(crate) status: Option<TaskStatus>,
    pub(crate) note: Option<String>,
    pub(crate) end: Option<Result<Option<Decimal>, Failure>>,
    pub(crate) elapsed: Duration,
    change: u64,
}

impl Runs {
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Run>> {
        self.all.lock().get(&id).cloned()
    }

    pub(crate) fn list(&self) -> Vec<Arc<Run>> {
        self.all.lock().values().rev().cloned().collect()
    }

    pub(crate) fn of_task(&self, task: &str) -> Option<Arc<Run>> {
        let is_own = |run: &Arc<Run>| run.progress.lock().task.as_ref().is_some_and(|id| id.as_str() == task);
        self.list().into_iter().find(is_own)
    }

    /// Returns the median duration of recent runs of the same model with files of similar size.
    pub(crate) fn usual(&self, run: &Run) -> Option<Duration> {
        let sizes = run.size / 2..=run.size * 2;
        let runs = self.list().into_iter();
        let similar = runs.filter(|other| other.model == run.model && sizes.contains(&other.size));
        let progress = similar.map(|other| other.progress()).filter(|other| matches!(other.end, Some(Ok(_))));
        let mut durations: Vec<_> = progress.map(|other| other.elapsed).take(MAX_COMPARED).collect();
        durations.sort();
        durations.get(durations.len() / 2).copied()
    }

    /// Starts a run, unless its form has already started one. `files` exist until the run has ended.
    pub(crate) fn start(
        &self,
        mut run: Run,
        files: Vec<(String, Kept)>,
        events: impl FnOnce() -> RunEvents,
    ) -> Arc<Run> {
        let mut all = self.all.lock();
        if let Some(same) = all.values().find(|same| same.form == run.form && run.form != 0) {
            return Arc::clone(same);
        }
        // A console that starts anew gives no run the address of an earlier one.
        let first = || Timestamp::now().as_millisecond().unsigned_abs();
        run.id = all.last_key_value().map_or_else(first, |(id, _)| id + 1);
        run.size = files.iter().map(|(_, file)| file.size).sum();
        let run = Arc::new(run);
        all.insert(run.id, Arc::clone(&run));
        if all.len() > MAX_RUNS {
            all.pop_first();
        }
        drop(all);
        run.change(&self.changes, |_| {});
        let mut working = self.working.lock();
        while working.try_join_next().is_some() {}
        let following = follow(Arc::clone(&run), events(), self.changes.clone());
        working.spawn(async move {
            following.await;
            drop(files);
        });
        run
    }

    pub(crate) fn note(&self, run: &Run, text: String) {
        run.change(&self.changes, |progress| progress.note = Some(text));
    }

    pub(crate) fn count(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Streams the current progress and then the changes of one run, or the changes of all after this number of them.
    pub(crate) fn changes(
        self: &Arc<Self>,
        one: Option<u64>,
        after: u64,
    ) -> impl Stream<Item = (Arc<Run>, Progress)> + use<> {
        // A page of a console that was restarted has seen more changes than there are.
        let after = Some(after).filter(|after| *after <= self.count()).unwrap_or_default();
        let start = (Arc::clone(self), self.changes.subscribe(), after);
        stream::unfold(start, move |(runs, mut changes, seen)| async move {
            loop {
                // Read the counter first: a change during the search triggers the next round.
                let latest = *changes.borrow_and_update();
                let runs_of_page = runs.list().into_iter().filter(|run| one.is_none_or(|one| one == run.id));
                let progress = runs_of_page.map(|run| (run.progress(), run));
                let due = progress.filter(|(progress, _)| (seen + 1..=latest).contains(&progress.change));
                if let Some((progress, run)) = due.min_by_key(|(progress, _)| progress.change) {
                    let change = progress.change;
                    return Some(((run, progress), (runs, changes, change)));
                }
                changes.changed().await.ok()?;
                tokio::time::sleep(CHANGE_INTERVAL).await;
            }
        })
    }
}

async fn follow(run: Arc<Run>, mut events: RunEvents, changes: watch::Sender<u64>) {
    while let Some(event) = events.next().await {
        run.change(&changes, |progress| progress.apply(event));
    }
    let result = events.finish().await;
    run.change(&changes, |progress| {
        progress.elapsed = run.started.elapsed();
        progress.end = Some(result.map(|outcome| outcome.cost).map_err(|error| failure(&run, error)));
    });
}

fn failure(run: &Run, error: Error) -> Failure {
    let field = match &error {
        Error::File(file) => file.field.clone().unwrap_or_default(),
        _ => String::new(),
    };
    let name = run.files.get(&field).map_or("a file", String::as_str);
    named(error, name).into()
}

impl Run {
    pub(crate) fn new(model: Option<String>, inputs: Map<String, Value>, task: Option<TaskId>) -> Self {
        let progress = Mutex::new(Progress { task, ..Progress::default() });
        Self {
            id: 0,
            model,
            inputs,
            files: BTreeMap::new(),
            size: 0,
            form: 0,
            picture: None,
            created: now(),
            started: Instant::now(),
            progress,
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        let mut progress = self.progress.lock().clone();
        if progress.end.is_none() {
            progress.elapsed = self.started.elapsed();
        }
        progress
    }

    fn change(&self, changes: &watch::Sender<u64>, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.progress.lock();
        change(&mut progress);
        changes.send_modify(|count| {
            *count += 1;
            progress.change = *count;
        });
    }
}

impl Progress {
    fn apply(&mut self, event: RunEvent) {
        match event {
            RunEvent::Upload { field, event: UploadEvent::Progress { sent, size, .. } } => {
                self.uploads.insert(field, (sent, size));
            }
            RunEvent::Upload { field, event: UploadEvent::Retrying { problem, .. } } => {
                self.note = Some(format!("The upload of {field} is sent again: {problem}"));
            }
            RunEvent::Created(task) => self.task = Some(task),
            RunEvent::Status(status) => self.status = Some(status),
            RunEvent::ReadFailed(text) => {
                self.note = Some(format!("The task could not be read; the wait goes on: {text}"));
            }
            _ => {}
        }
    }

    pub(crate) fn has_result(&self) -> bool {
        let is_over =
            matches!(self.end, Some(Ok(_))) || self.status.as_ref().is_some_and(TaskStatus::is_terminal);
        self.end.is_some() && is_over && self.task.is_some()
    }
}

pub(crate) fn now() -> Timestamp {
    Timestamp::now().round(jiff::Unit::Second).unwrap_or_else(|_| Timestamp::now())
}
