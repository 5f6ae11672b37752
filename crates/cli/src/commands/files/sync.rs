//! `inferstore files sync`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, ValueHint};
use inferstore::types::UploadFolder;
use inferstore::{Client, File};
use serde_json::json;

use super::list::{Stored, all};
use super::upload::{Source, check_names, files, upload_all};
use super::{delete_all, download_all, local_name};
use crate::failure::{Failure, Result};
use crate::output::Report;
use crate::settings::Session;
use crate::table::{Fit, Table};

/// Upload what is new in a folder of this machine, or download what is new in the storage
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore files sync pictures/ samples\n  inferstore files sync samples pictures/\n  inferstore files sync pictures/ samples --delete --dry-run"
)]
pub(crate) struct SyncArguments {
    /// Source: a folder of this machine, or one of the storage, such as samples
    #[arg(value_hint = ValueHint::DirPath)]
    source: String,
    /// Destination: a folder of the other side; ./samples is a folder of this machine, samples one of the storage
    #[arg(value_hint = ValueHint::DirPath)]
    destination: String,
    /// Delete files of the destination that the source does not have
    #[arg(long)]
    delete: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Number of files that are sent at the same time
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
}

/// A file of this machine.
struct Local {
    path: PathBuf,
    size: u64,
    modified: Option<SystemTime>,
}

/// The actions of a sync, by the name of each file.
#[derive(Default)]
struct Actions {
    sent: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

pub(super) async fn execute(arguments: SyncArguments, client: &Client, session: &Session) -> Result {
    let SyncArguments { source, destination, delete, dry_run, jobs } = arguments;
    let folder_of = |word: &str| word.trim_end_matches('/').parse::<UploadFolder>().ok();
    let (path, folder, is_upload) = match (folder_of(&source), folder_of(&destination)) {
        (None, Some(folder)) => (source, folder, true),
        (Some(folder), None) => (destination, folder, false),
        _ => {
            return Err(Failure::usage(
                "one side is a folder of this machine, and the other one of the storage",
            )
            .with_hint("such as: inferstore files sync pictures/ samples; ./samples is of this machine"));
        }
    };
    let path = PathBuf::from(path);
    let local = local_files(&path, is_upload, session)?;
    let named = |file: Stored| {
        let name = if is_upload { file.own_name()?.to_owned() } else { local_name(&file) };
        Some((name, file))
    };
    let stored: BTreeMap<String, Stored> = all(folder, client).await?.into_iter().filter_map(named).collect();
    let actions = if is_upload {
        let is_same =
            |name: &String, file: &Local| stored.get(name).is_some_and(|stored| is_current(file, stored));
        Actions {
            sent: local
                .iter()
                .filter(|(name, file)| !is_same(name, file))
                .map(|(name, _)| name.clone())
                .collect(),
            deleted: stored.keys().filter(|name| !local.contains_key(*name)).cloned().collect(),
        }
    } else {
        let is_same = |name: &String, stored: &Stored| {
            local.get(name).is_some_and(|file| is_current_copy(file, stored))
        };
        Actions {
            sent: stored
                .iter()
                .filter(|(name, file)| !is_same(name, file))
                .map(|(name, _)| name.clone())
                .collect(),
            deleted: local.keys().filter(|name| !stored.contains_key(*name)).cloned().collect(),
        }
    };
    let actions = if delete { actions } else { Actions { deleted: BTreeSet::new(), ..actions } };
    if dry_run {
        session.output.note("nothing was sent or deleted");
        return session.output.report(&report(&actions, is_upload));
    }
    let failures = if is_upload {
        upload(&actions, &local, stored, folder, jobs, client, session).await
    } else {
        download(&actions, &local, stored, &path, jobs, client, session).await?
    };
    if failures.is_empty() {
        session.output.report_done(&report(&actions, is_upload))?;
    }
    session.output.failures(failures)
}

/// The files below a folder by the names that they are stored under: a/b.png is a-b.png.
fn local_files(path: &Path, must_exist: bool, session: &Session) -> Result<BTreeMap<String, Local>> {
    let root = session.environment.folder.join(path);
    if !root.is_dir() {
        return match must_exist || root.exists() {
            true => Err(Failure::usage(format!("{} is no folder", path.display()))
                .with_hint("name a folder of this machine; nothing was sent")),
            false => Ok(BTreeMap::new()),
        };
    }
    let found = files(&[path.to_owned()], true, session)?;
    check_names(&found, false)?;
    let mut local = BTreeMap::new();
    for (path, name) in found {
        let here = session.environment.folder.join(&path);
        let metadata = std::fs::metadata(&here)
            .map_err(|error| Failure::local_failure(format!("{} cannot be read", path.display()), error))?;
        if let Some(name) = name.filter(|_| metadata.is_file()) {
            local.insert(name, Local { path, size: metadata.len(), modified: metadata.modified().ok() });
        }
    }
    Ok(local)
}

/// Returns true when a stored file has the size of a local one, and was uploaded after its last change.
fn is_current(file: &Local, stored: &Stored) -> bool {
    let is_later = stored.created.zip(file.modified).is_some_and(|(created, modified)| created >= modified);
    stored.size == Some(file.size) && is_later
}

/// Returns true when a local file has the size of a stored one, and was written after its upload.
fn is_current_copy(file: &Local, stored: &Stored) -> bool {
    let is_later = stored.created.zip(file.modified).is_some_and(|(created, modified)| modified >= created);
    stored.size == Some(file.size) && is_later
}

async fn upload(
    actions: &Actions,
    local: &BTreeMap<String, Local>,
    stored: BTreeMap<String, Stored>,
    folder: UploadFolder,
    jobs: u16,
    client: &Client,
    session: &Session,
) -> Vec<Failure> {
    let sources = local.iter().filter(|(name, _)| actions.sent.contains(*name)).map(|(name, file)| Source {
        label: file.path.display().to_string(),
        file: File::path(session.environment.folder.join(&file.path)).named(name),
    });
    let (_, mut failures) = upload_all(sources.collect(), folder, None, jobs, client, session).await;
    let unwanted = stored.into_iter().filter(|(name, _)| actions.deleted.contains(name));
    // Nothing is deleted while something is missing.
    if failures.is_empty() {
        failures = delete_all(unwanted.map(|(_, file)| file).collect(), jobs, client).await.1;
    }
    failures
}

async fn download(
    actions: &Actions,
    local: &BTreeMap<String, Local>,
    stored: BTreeMap<String, Stored>,
    path: &Path,
    jobs: u16,
    client: &Client,
    session: &Session,
) -> Result<Vec<Failure>> {
    let wanted = stored.into_iter().filter(|(name, _)| actions.sent.contains(name)).map(|(_, file)| file);
    let (_, mut failures) = download_all(wanted.collect(), path, true, jobs, client, session).await?;
    if failures.is_empty() {
        for (_, file) in local.iter().filter(|(name, _)| actions.deleted.contains(*name)) {
            let deleted = std::fs::remove_file(session.environment.folder.join(&file.path));
            failures.extend(deleted.err().map(|error| {
                Failure::local_failure(format!("{} cannot be deleted", file.path.display()), error)
            }));
        }
    }
    Ok(failures)
}

fn report(actions: &Actions, is_upload: bool) -> Report {
    let sent = if is_upload { "upload" } else { "download" };
    let sent = actions.sent.iter().map(|name| (sent, name));
    let all: Vec<_> = sent.chain(actions.deleted.iter().map(|name| ("delete", name))).collect();
    let mut table = Table::new([("ACTION", Fit::Keep), ("FILE", Fit::Keep)]);
    let mut records = Vec::new();
    for (action, name) in &all {
        table.add([(*action).to_owned(), (*name).clone()]);
        records.push(json!({"action": action, "file": name}).to_string());
    }
    let table = if all.is_empty() { Table::default() } else { table };
    let below = vec![format!("{} sent, {} deleted", actions.sent.len(), actions.deleted.len())];
    let quiet = all.into_iter().map(|(_, name)| name.clone()).collect();
    Report { below, ..Report::of_list(table, records, quiet) }
}
