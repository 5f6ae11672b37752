//! `run --watch`: a batch over a folder that fills. Each file is run once, also across restarts.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use inferstore_batch::{Journal, Step};
use serde_json::Value;
use tokio::time::sleep;

use super::quote::Quote;
use super::{Batch, Plan};
use crate::commands::outputs::expanded;
use crate::commands::run::entries::Template;
use crate::commands::run::journal::{Earlier, NAME, identity};
use crate::commands::run::warn_if_offline;
use crate::commands::signals::Signals;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::progress::SharedProgress;
use crate::settings::Session;

/// Interval at which the folder is read. A file is complete when it is the same at two reads.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs the model on each file of the folder, and on each that comes, until a signal.
pub(in crate::commands::run) async fn execute(
    mut plan: Plan,
    given: &str,
    template: &Template,
    session: &Session,
) -> Result {
    let outputs = plan.check_options(session)?;
    let folder = session.environment.folder.join(expanded(given, session));
    let is_same =
        folder.canonicalize().ok().is_some_and(|folder| outputs.canonicalize().ok() == Some(folder));
    if is_same {
        return Err(Failure::usage("the outputs would become inputs: -o names the folder that is watched")
            .with_hint(format!("give another folder, such as -o {}/outputs/", given.trim_end_matches('/'))));
    }
    if let Some(budget) = &plan.options.budget {
        let price = plan.client.model(&*plan.model).cost().await?.cost;
        let earlier = Earlier::count(&outputs, std::iter::empty(), price.as_ref())?;
        plan.price = Some(Quote { price, count: 0, earlier }.check(budget)?);
    }
    warn_if_offline(&plan.model, &plan.client, &plan.options, session).await;
    let mut signals = Signals::new()?;
    let journal = Journal::open(outputs.join(NAME))?;
    let mut batch = Batch::new(plan, journal, session);
    let mut before = BTreeMap::new();
    let (mut seen, mut odd) = (HashSet::new(), HashSet::new());
    files_in(given, &folder, &mut odd, session)?;
    session.output.note(format!("watching {given}; Ctrl-C ends it, and the same command continues"));
    loop {
        let found = files_in(given, &folder, &mut odd, session)?;
        let complete: Vec<String> = found
            .iter()
            .filter(|(file, state)| before.get(*file) == Some(*state))
            .map(|(file, _)| file.clone())
            .collect();
        before = found;
        batch.plan.entries = template.entries(&complete, session);
        let keys = batch.plan.keys();
        let mut is_new = keys.into_iter().map(|key| {
            let is_done = matches!(batch.items.item(&*key).step(), Some(Step::Done { .. }));
            batch.known.lock().insert(&key);
            seen.insert(key) && !is_done
        });
        batch.plan.entries.retain(|_| is_new.next() == Some(true));
        if !batch.plan.entries.is_empty() {
            batch.progress = SharedProgress::new(&session.output);
            if let Err(failure) = batch.run_entries(&mut signals, session).await {
                if failure.code == exit::DETACHED || batch.stopped.load(Ordering::Relaxed) {
                    return Err(failure);
                }
                // The other files are run nevertheless; the next start runs this one again.
                session.output.failure(&failure);
            }
        }
        tokio::select! {
            () = signals.next() => return Ok(()),
            () = sleep(INTERVAL) => {}
        }
    }
}

/// The regular files of a folder with their sizes and times, without hidden ones. A file whose name is not UTF-8 is left
/// out, and a note says so once.
fn files_in(
    given: &str,
    folder: &Path,
    odd: &mut HashSet<OsString>,
    session: &Session,
) -> Result<BTreeMap<String, Value>> {
    let failed = |error| {
        Failure::new(exit::INPUT, format!("{given} cannot be read: {error}"))
            .with_hint("give a folder that exists; tasks that were created go on")
    };
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = match entry.file_name().into_string() {
            Ok(name) => name,
            Err(name) => {
                if !odd.contains(&name) {
                    session.output.note(format!("{name:?} is left out: its name is not UTF-8"));
                    odd.insert(name);
                }
                continue;
            }
        };
        if !name.starts_with('.') && entry.path().is_file() {
            let file = format!("{}/{name}", given.trim_end_matches('/'));
            let state = identity(&file, &entry.path());
            files.insert(file, state);
        }
    }
    Ok(files)
}
