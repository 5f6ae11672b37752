//! `inferstore files sync`.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, ValueHint};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use inferstore::types::UploadFolder;
use inferstore::{Client, ErrorKind, File};
use serde_json::json;

use super::list::{Stored, all};
use super::upload::{Source, check_names, files, without_own};
use super::{Transfers, check_copies, is_file_name, is_own, is_unfinished, left_out, local_name};
use crate::commands::outputs::make_folder;
use crate::failure::{Failure, Result, did_you_mean};
use crate::lists;
use crate::output::Report;
use crate::settings::Session;
use crate::table::{Fit, Table};
use crate::values::{behind_hash, folder_names, md5_of};

/// Number of stored files whose content is compared at the same time.
const CHECKS: usize = 16;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore files sync pictures/ samples\n  inferstore files sync samples pictures/\n  inferstore files sync pictures/ samples --delete --dry-run"
)]
pub(crate) struct SyncArguments {
    /// Source: a folder of this machine, or one of the storage, such as samples; a/b.png is stored as a-b.png
    #[arg(value_hint = ValueHint::DirPath)]
    source: String,
    /// Destination: a folder of the other side; ./samples is a folder of this machine, samples one of the storage
    #[arg(value_hint = ValueHint::DirPath)]
    destination: String,
    /// Delete files of the destination that the source does not have; stored inputs that runs uploaded stay
    #[arg(long)]
    delete: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Number of files that are sent at the same time
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
}

struct Local {
    path: PathBuf,
    size: u64,
    modified: Option<SystemTime>,
}

struct Actions {
    local: BTreeMap<String, Local>,
    stored: BTreeMap<String, Stored>,
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
            let problem = match folder_of(&source) {
                Some(_) => format!("{source} and {destination} are both folders of the storage"),
                None => format!("neither {source} nor {destination} is a folder of the storage"),
            };
            let near = did_you_mean(&destination, folder_names());
            let hint = format!(
                "{near}the folders of the storage are {}; ./samples is a folder of this machine",
                folder_names().collect::<Vec<_>>().join(", ")
            );
            return Err(Failure::usage(problem).with_hint(hint));
        }
    };
    let path = PathBuf::from(path);
    let (local, left_out) = local_files(&path, is_upload, session)?;
    let root = session.here(&path);
    let stored = stored_files(folder, (!is_upload).then_some(&*root), client, session).await?;
    let pairs = local.iter().filter_map(|(name, file)| Some((name, file, stored.get(name)?)));
    let checks = pairs.map(|(name, file, stored)| async move {
        Ok::<_, Failure>(is_same(file, stored, is_upload, client, session).await?.then_some(name))
    });
    let checks = stream::iter(checks).buffer_unordered(CHECKS);
    let mut same: BTreeSet<&String> = checks.try_filter_map(|name| ready(Ok(name))).try_collect().await?;
    // The storage takes no empty file: none is sent, and a stored one of its name stays.
    for (name, file) in local.iter().filter(|(_, file)| is_upload && file.size == 0) {
        session.note(format!("{} is empty and is left out", file.path.display()));
        same.insert(name);
    }
    for name in stored.keys().filter(|_| !is_upload) {
        let file = local.get(name).map_or_else(|| path.join(name), |file| file.path.clone());
        if is_behind_link(&root, &session.here(&file)) {
            session.note(format!("{} is a symbolic link, or in one, and stays", file.display()));
            same.insert(name);
        }
    }
    let (here, there): (BTreeSet<_>, BTreeSet<_>) = (local.keys().collect(), stored.keys().collect());
    let (source, destination) = if is_upload { (here, there) } else { (there, here) };
    // The input of a run stays, and what a link may have led to.
    let stays =
        |name: &str| behind_hash(name).is_some() || left_out.iter().any(|left_out| is_below(name, left_out));
    let is_deleted = |name: &&&String| delete && !(is_upload && stays(name));
    let unwanted = destination.difference(&source).filter(is_deleted);
    let mut deleted: BTreeSet<String> = unwanted.map(|name| (*name).clone()).collect();
    // What a list lacks because others deleted meanwhile is in the next one.
    if !is_upload && !deleted.is_empty() {
        let stored: BTreeSet<String> = all(folder, client).await?.iter().map(name_of_copy).collect();
        deleted.retain(|name| !stored.contains(name));
    }
    let sent = source.difference(&same).map(|name| (*name).clone()).collect();
    let actions = Actions { local, stored, sent, deleted };
    if dry_run {
        session.note("nothing was sent or deleted");
        return session.output.report(&report(&actions, is_upload, ["to send", "to delete"]));
    }
    if !is_upload {
        delete_unfinished(&root);
    }
    let transfers = Transfers { client, session, jobs, overwrite: true };
    let failures = if is_upload {
        actions.upload(folder, &transfers).await
    } else {
        actions.download(&path, &transfers).await?
    };
    if failures.is_empty() {
        session.output.report_done(&report(&actions, is_upload, ["sent", "deleted"]))?;
    }
    session.output.failures(failures)
}

/// The stored files by their names. Fails if two of them would be one file in `copies`, and leaves out journals there.
async fn stored_files(
    folder: UploadFolder,
    copies: Option<&Path>,
    client: &Client,
    session: &Session,
) -> Result<BTreeMap<String, Stored>> {
    let files = all(folder, client).await?.into_iter();
    let Some(copies) = copies else {
        return Ok(files.filter_map(|file| Some((file.own_name()?.to_owned(), file))).collect());
    };
    let named = files.map(|file| (name_of_copy(&file), file));
    let (own, stored): (Vec<_>, Vec<_>) = named.partition(|(name, _)| is_own(Path::new(name)));
    for (_, file) in own {
        session.note(left_out(file.name()));
    }
    check_copies(copies, stored.iter().map(|(name, file)| (name.as_str(), file)))?;
    Ok(stored.into_iter().collect())
}

fn name_of_copy(file: &Stored) -> String {
    let name = file.own_name().filter(|name| is_file_name(name));
    name.map_or_else(|| local_name(file), str::to_owned)
}

/// The files of a folder, and the names of links that lead to a folder or nowhere: what is stored under them stays.
type Found = (BTreeMap<String, Local>, Vec<String>);

/// The files below a folder by their stored names: a-b.png for a/b.png.
fn local_files(path: &Path, must_exist: bool, session: &Session) -> Result<Found> {
    let root = session.here(path);
    if !root.is_dir() {
        return match must_exist || root.exists() {
            true => Err(Failure::usage(format!("{} is no folder", path.display()))
                .with_hint("name a folder of this machine; nothing was sent")),
            false => Ok(Found::default()),
        };
    }
    let (entries, mut left_out) = without_own(files(&[path.to_owned()], true, session)?, session);
    check_names(&entries, false)?;
    let mut found = BTreeMap::new();
    for (path, name) in entries {
        let Some(name) = name else { continue };
        let here = session.here(&path);
        match std::fs::metadata(&here) {
            Ok(metadata) if metadata.is_file() => {
                let modified = metadata.modified().ok();
                found.insert(name, Local { path, size: metadata.len(), modified });
            }
            Err(error) if !here.is_symlink() => {
                return Err(Failure::of_path(&path, "cannot be read")(error));
            }
            // A pipe or a device is no file.
            Ok(_) if !here.is_symlink() => {}
            Ok(_) | Err(_) => {
                let path = path.display();
                session.output.note(format!("{path} leads to no file; what is stored under its name stays"));
                left_out.push(name);
            }
        }
    }
    Ok((found, left_out))
}

/// Returns true for the stored name of a path, or of a file below it.
fn is_below(name: &str, path: &str) -> bool {
    name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns true if a download to this path would write elsewhere than to this place in the folder.
fn is_behind_link(folder: &Path, path: &Path) -> bool {
    let inner = path.strip_prefix(folder).unwrap_or(path);
    let folders = inner.ancestors().map(|inner| folder.join(inner));
    folders.take_while(|path| path != folder).any(|path| path.is_symlink())
}

/// Deletes what downloads that were killed have left in a folder. One that goes on has written lately.
fn delete_unfinished(folder: &Path) {
    const KILLED_SINCE: Duration = Duration::from_mins(10);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_unfinished(&entry.file_name().to_string_lossy())) {
        let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = modified.and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > KILLED_SINCE) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns true when both files have the same content, by the MD5 that a HEAD request returns. In a storage without it,
/// files of the same size are the same if that of the destination is the later one.
async fn is_same(
    file: &Local,
    stored: &Stored,
    is_upload: bool,
    client: &Client,
    session: &Session,
) -> Result<bool> {
    if stored.size.is_some_and(|size| size != file.size) {
        return Ok(false);
    }
    let etag = match client.download(stored.url.as_str()).etag().await {
        Ok(etag) => etag,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) if error.is_retryable() => return Err(Failure::from(error).about(stored.name())),
        // A storage may refuse HEAD requests.
        Err(_) => None,
    };
    if let Some(etag) = etag.filter(|etag| etag.len() == 32) {
        let path = session.here(&file.path);
        let hashed = tokio::task::spawn_blocking(move || md5_of(&path)).await;
        return Ok(matches!(hashed, Ok(Ok(hash)) if hash == etag.to_lowercase()));
    }
    let times = stored.created.zip(file.modified);
    let is_later = |(created, modified)| if is_upload { created >= modified } else { modified >= created };
    Ok(times.is_some_and(is_later))
}

impl Actions {
    async fn upload(&self, folder: UploadFolder, transfers: &Transfers<'_>) -> Vec<Failure> {
        let sent = self.local.iter().filter(|(name, _)| self.sent.contains(*name));
        let sources = sent.map(|(name, file)| Source {
            label: file.path.display().to_string(),
            file: File::path(transfers.session.here(&file.path)).named(name),
        });
        let (_, failures) = transfers.upload_all(sources.collect(), folder, None).await;
        // Nothing is deleted while something is missing.
        if !failures.is_empty() {
            return failures;
        }
        let unwanted = self.stored.iter().filter(|(name, _)| self.deleted.contains(*name));
        transfers.delete_all(unwanted.map(|(_, file)| file.clone()).collect()).await.1
    }

    async fn download(&self, path: &Path, transfers: &Transfers<'_>) -> Result<Vec<Failure>> {
        make_folder(&transfers.session.here(path))?;
        let wanted = self.stored.iter().filter(|(name, _)| self.sent.contains(*name));
        // A file in an inner folder is replaced there.
        let downloads = wanted.map(|(name, file)| {
            let here = self.local.get(name).map(|file| file.path.clone());
            (here.unwrap_or_else(|| path.join(name)), file.clone())
        });
        let (_, failures) = transfers.download_all(downloads.collect()).await;
        if !failures.is_empty() {
            return Ok(failures);
        }
        let unwanted = self.local.iter().filter(|(name, _)| self.deleted.contains(*name));
        let failures = unwanted.filter_map(|(_, file)| {
            let deleted = std::fs::remove_file(transfers.session.here(&file.path));
            deleted.err().map(Failure::of_path(&file.path, "cannot be deleted"))
        });
        Ok(failures.collect())
    }
}

fn report(actions: &Actions, is_upload: bool, [are_sent, are_deleted]: [&str; 2]) -> Report {
    let sent = if is_upload { "upload" } else { "download" };
    let sent = actions.sent.iter().map(|name| (sent, name));
    let rows = sent
        .chain(actions.deleted.iter().map(|name| ("delete", name)))
        .map(|(action, name)| ([action, name], json!({"action": action, "file": name}), name.clone()));
    let mut report = lists::report([("ACTION", Fit::Keep), ("FILE", Fit::Keep)], rows);
    if report.quiet.is_empty() {
        report.table = Table::default();
    }
    report.below =
        vec![format!("{} {are_sent}, {} {are_deleted}", actions.sent.len(), actions.deleted.len())];
    report
}
