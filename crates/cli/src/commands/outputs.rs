//! The end of a run: its outputs downloaded, shown and told.

use std::path::{Path, PathBuf};

use inferstore::Outcome;
use serde_json::value::RawValue;

use super::super::task::outcome_report;
use super::Arguments;
use crate::failure::{Failure, Result};
use crate::progress::{Progress, watch};
use crate::settings::Session;

/// Downloads what was asked for, and tells everything.
pub(super) async fn deliver(
    arguments: &Arguments,
    outcome: &Outcome,
    payload: Option<Box<RawValue>>,
    session: &Session,
) -> Result {
    let folder = arguments.out.as_ref();
    let temporary = match (folder, arguments.show) {
        (None, true) => Some(
            tempfile::tempdir()
                .map_err(|error| Failure::local_failure("no temporary folder can be made", error))?,
        ),
        _ => None,
    };
    let mut paths = Vec::new();
    // The run succeeded and is paid, so it is told whatever becomes of the downloads.
    let downloaded = match (folder, &temporary) {
        (Some(folder), _) => download(outcome, folder, &mut paths, session).await,
        (None, Some(temporary)) => download(outcome, temporary.path(), &mut paths, session).await,
        (None, None) => Ok(()),
    };
    let told: Vec<(String, String)> = match folder {
        Some(_) => paths.iter().map(|(name, path)| (name.clone(), path.display().to_string())).collect(),
        None => Vec::new(),
    };
    let report = super::with_paths(outcome_report(outcome, payload), &told, session.output.format);
    session.output.report(&report)?;
    downloaded?;
    if arguments.show {
        show(&paths, session)?;
    }
    Ok(())
}

/// Downloads every output that is a URL, under the name of the task and of the output.
pub(crate) async fn download(
    outcome: &Outcome,
    folder: &Path,
    paths: &mut Vec<(String, PathBuf)>,
    session: &Session,
) -> Result {
    let at = session.environment.folder.join(folder);
    let mut progress = Progress::new(&session.output);
    for (name, _) in outcome.urls() {
        // The same task has the same outputs.
        let download = outcome.download(name)?.overwrite(true);
        let download = download.to_dir(at.as_path(), format!("{}-{name}", outcome.task));
        let downloaded = watch(download, |event| progress.download(name, event)).await?;
        let file = downloaded.path.file_name().unwrap_or_default();
        paths.push((name.to_owned(), folder.join(file)));
    }
    Ok(())
}

#[cfg(feature = "show")]
fn show(paths: &[(String, PathBuf)], session: &Session) -> Result {
    if !session.environment.stdout_is_terminal {
        session.output.note("standard output is no terminal, so no picture is shown");
        return Ok(());
    }
    for (_, path) in paths {
        crate::view::show(&session.environment.folder.join(path), &session.environment)?;
    }
    Ok(())
}

#[cfg(not(feature = "show"))]
fn show(_: &[(String, PathBuf)], session: &Session) -> Result {
    session.output.note("this command was built without the feature `show`");
    Ok(())
}
