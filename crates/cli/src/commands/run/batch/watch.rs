//! `run --watch`: a batch over a folder that fills. Each file is run once, also across restarts.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use inferstore_batch::Step;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::plan::Quote;
use super::{Batch, Plan};
use crate::commands::outputs::expanded;
use crate::commands::run::contents::{Contents, identity};
use crate::commands::run::entries::{Entry, Template};
use crate::commands::run::journal::{Earlier, NAME};
use crate::commands::run::summary::{Status, Summary};
use crate::commands::run::warn_if_offline;
use crate::commands::signals::Signals;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::settings::Session;

/// Interval at which the folder is read. A file is complete when it is the same at two reads.
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval after which a file is run again that no task was created for, because the service could not respond.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

pub(in crate::commands::run) async fn execute(
    mut plan: Plan,
    given: &str,
    template: &Template,
    session: &Session,
) -> Result {
    let outputs = plan.check_options(session)?;
    let folder = session.here(expanded(given, session));
    let is_same =
        folder.canonicalize().ok().is_some_and(|folder| outputs.canonicalize().ok() == Some(folder));
    if is_same {
        return Err(Failure::usage("the outputs would become inputs: -o names the folder that is watched")
            .with_hint(format!("give another folder, such as -o {}/outputs/", given.trim_end_matches('/'))));
    }
    let items = plan.items(&outputs.join(NAME))?;
    if let Some(budget) = &plan.options.budget {
        let price = plan.client.model(&*plan.model).cost().await?.cost;
        let earlier = Earlier::count(items.batch(), std::iter::empty(), price.as_ref())?;
        plan.price = Some(Quote { price, count: 0, earlier }.check(budget)?);
    }
    warn_if_offline(&plan.model, &plan.client, &plan.options, session).await;
    let mut signals = Signals::new()?;
    let batch = Batch::new(plan, items, session);
    let mut watched = Watched { given, path: &folder, before: BTreeMap::new(), odd: HashSet::new() };
    watched.read(session)?;
    session.note(format!("watching {given}; Ctrl-C ends it, and the same command continues"));
    let jobs = usize::from(batch.plan.options.jobs);
    let (mut queue, mut latest, mut places) = (VecDeque::new(), HashMap::new(), 0..);
    let (mut running, mut files, mut ended) = (FuturesUnordered::new(), HashSet::new(), Summary::default());
    // The files that failed while the service could not respond, and when they are run again.
    let mut again = VecDeque::new();
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // A file that has changed waits for the run of its former content, whose output it replaces.
        while running.len() < jobs
            && let Some(next) = queue.iter().position(|entry: &Entry| !files.contains(&entry.label))
            && let Some((entry, place)) = queue.remove(next).zip(places.next())
        {
            files.insert(entry.label.clone());
            let batch = &batch;
            running.push(async move { batch.outcome(place, &entry).await });
        }
        tokio::select! {
            biased;
            () = signals.next() => {
                batch.progress.lock().end();
                if running.is_empty() {
                    return batch.report_new(ended);
                }
                let total = ended.len() + running.len();
                return batch.interrupted(ended, total, &mut signals).await;
            }
            Some(one) = running.next() => {
                files.remove(&one.file);
                let is_temporary = one.failure.as_ref().is_some_and(|failure| failure.is_temporary);
                if one.task.is_none() && (is_temporary || one.status == Status::Unknown) {
                    again.push_back((Instant::now() + RETRY_INTERVAL, one.file.clone()));
                }
                batch.add(one, &mut ended);
                if running.is_empty() && queue.is_empty() {
                    batch.progress.lock().end();
                }
            }
            _ = ticks.tick() => {
                let is_stopped = batch.stopped.load(Ordering::Relaxed);
                if is_stopped && !(running.is_empty() && queue.is_empty()) {
                    continue;
                }
                let reported = batch.report_new(std::mem::take(&mut ended));
                if is_stopped {
                    return reported;
                }
                // The other files are run nevertheless; the next start runs this one again.
                if let Err(failure) = reported {
                    batch.progress.lock().suspend(|| session.output.failure(&failure));
                }
                while let Some((_, file)) = again.pop_front_if(|(time, _)| *time <= Instant::now()) {
                    latest.remove(&file);
                }
                let complete = watched.read(session)?;
                let new = batch.new_entries(template.entries(complete, session)?, &mut latest)?;
                batch.progress.lock().count(new.len());
                queue.retain(|queued| !new.iter().any(|entry| entry.label == queued.label));
                queue.extend(new);
            }
        }
    }
}

impl Batch<'_> {
    fn report_new(&self, ended: Summary) -> Result {
        let count = ended.len();
        if count == 0 { Ok(()) } else { self.progress.lock().suspend(|| self.report(ended, count)) }
    }

    /// The entries that are not done, and whose files are new or have changed.
    fn new_entries(
        &self,
        mut entries: Vec<Entry>,
        latest: &mut HashMap<String, Latest>,
    ) -> Result<Vec<Entry>> {
        let is_latest = |entry: &Entry, key: &str| {
            latest.get(&entry.label).is_some_and(|latest| latest.key == key || latest.item == key)
        };
        entries.retain(|entry| !is_latest(entry, &self.plan.key(entry)));
        let (mut contents, mut new) = (Contents::default(), Vec::new());
        for mut entry in entries {
            let key = self.plan.key(&entry);
            self.plan.recognize(&mut entry, &mut contents, &self.items)?;
            let item = self.plan.key(&entry);
            self.items.note(&item)?;
            let is_done = matches!(self.items.batch().item(&*item).step()?, Some(Step::Done { .. }));
            let before = latest.insert(entry.label.clone(), Latest { key, item: item.clone() });
            if !is_done && before.is_none_or(|before| before.item != item) {
                new.push(entry);
            }
        }
        Ok(new)
    }
}

/// The keys of a file as it was when it was seen last.
struct Latest {
    key: String,
    /// The key of its item, which may have the time of an earlier start.
    item: String,
}

struct Watched<'a> {
    given: &'a str,
    path: &'a Path,
    /// The files at the last read, with their identities.
    before: BTreeMap<String, Value>,
    /// Names that are not UTF-8, of which a note said that they are left out.
    odd: HashSet<OsString>,
}

impl Watched<'_> {
    /// Reads the folder, and returns its complete files: those that are as at the last read. Hidden files are left out.
    fn read(&mut self, session: &Session) -> Result<Vec<String>> {
        let given = self.given;
        let failed = |error| {
            Failure::new(exit::INPUT, format!("{given} cannot be read: {error}"))
                .with_hint("give a folder that exists; tasks that were created go on")
        };
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = match entry.file_name().into_string() {
                Ok(name) => name,
                Err(name) => {
                    if self.odd.insert(name.clone()) {
                        session.note(format!("{name:?} is left out: its name is not UTF-8"));
                    }
                    continue;
                }
            };
            if !name.starts_with('.') && entry.path().is_file() {
                let file = format!("{}/{name}", given.trim_end_matches('/'));
                let state = identity(&file, &entry.path());
                found.insert(file, state);
            }
        }
        let complete = found.iter().filter(|(file, state)| self.before.get(*file) == Some(*state));
        let complete = complete.map(|(file, _)| file.clone()).collect();
        self.before = found;
        Ok(complete)
    }
}
