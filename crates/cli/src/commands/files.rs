//! `inferstore files`.

mod list;
mod sync;
mod upload;

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use futures_util::StreamExt;
use futures_util::stream;
use inferstore::types::StorageStatistics;
use inferstore::{Client, DownloadedFile};
use serde_json::{Value, json};

use super::outputs::{exists, is_folder, is_special, make_folder, save_to, to_stdout};
use super::run::JOURNAL;
use super::signals::interruptible;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::lists;
use crate::output::Report;
use crate::progress::{Progress, SharedProgress};
use crate::recorded::with_json;
use crate::settings::Session;
use crate::table::{Fit, Table};
use crate::values::size;
use list::Stored;
pub(super) use list::all;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Upload files into a folder
    ///
    /// A stored file of the same name with other content stays, and the upload fails, unless --overwrite replaces it.
    Upload(upload::UploadArguments),
    /// List the files of a folder or of a pattern, newest first; without either, the folders
    #[command(visible_alias = "ls")]
    List(list::ListArguments),
    /// Show how much is stored
    #[command(after_help = "Examples:\n  inferstore files stats")]
    Stats,
    /// Download a URL, such as an output of a model, or stored files
    #[command(visible_alias = "get")]
    Download(DownloadArguments),
    /// Delete files by their URLs, keys or patterns
    #[command(visible_alias = "rm")]
    Delete(DeleteArguments),
    /// Upload what is new in a folder of this machine, or download what is new in the storage
    ///
    /// A file is sent if the other side has no file of this name with the same content. Journals of runs are left out. The
    /// same command continues after an interruption.
    Sync(sync::SyncArguments),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore files download URL\n  inferstore files download URL picture.png --overwrite\n  inferstore files download URL - | file -\n  inferstore files download 'samples/*.png' pictures/\n  inferstore files download -r samples pictures/"
)]
pub(crate) struct DownloadArguments {
    /// A URL, the key of a stored file such as samples/a.png, or a pattern such as 'samples/*.png'
    #[arg(value_name = "URL|KEY|PATTERN")]
    file: String,
    /// Destination: a folder, a file, a device, or - for standard output [default: the name in the URL]
    #[arg(value_hint = ValueHint::AnyPath)]
    path: Option<PathBuf>,
    /// Download all files whose keys begin so, such as samples or samples/2026-, into a folder
    #[arg(short, long)]
    recursive: bool,
    /// Replace regular files that exist
    #[arg(long)]
    overwrite: bool,
    /// Number of files that are downloaded at the same time
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore files delete URL\n  inferstore files delete samples/a.png samples/b.png\n  inferstore files delete 'samples/*.png' --dry-run\n  inferstore files delete -r samples --yes"
)]
pub(crate) struct DeleteArguments {
    /// URLs, keys of stored files such as samples/a.png, or patterns such as 'samples/*.png'
    #[arg(required = true, value_name = "URL|KEY|PATTERN")]
    files: Vec<String>,
    /// Take all files whose keys begin so, such as samples or samples/2026-
    #[arg(short, long)]
    recursive: bool,
    /// Delete without asking; required where standard input is no terminal
    #[arg(short, long)]
    yes: bool,
    /// Print what would be deleted, and delete nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Number of files that are deleted at the same time
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
}

pub(crate) async fn execute(command: Command, mut session: Session) -> Result {
    let client = &session.client()?;
    match command {
        Command::Upload(arguments) => upload::execute(arguments, client, &mut session).await,
        Command::List(arguments) => list::execute(arguments, client, &session).await,
        Command::Stats => stats(client, &session).await,
        Command::Download(arguments) => download(arguments, client, &session).await,
        Command::Delete(arguments) => delete(arguments, client, &mut session).await,
        Command::Sync(arguments) => sync::execute(arguments, client, &session).await,
    }
}

struct Transfers<'a> {
    client: &'a Client,
    session: &'a Session,
    jobs: u16,
    overwrite: bool,
}

type Ended<T> = (Vec<T>, Vec<Failure>);

async fn delete(arguments: DeleteArguments, client: &Client, session: &mut Session) -> Result {
    let DeleteArguments { files, recursive, yes, dry_run, jobs } = arguments;
    let stored = list::select(&files, recursive, client).await?;
    if dry_run {
        session.note("nothing was deleted");
        let rows = stored.iter().map(|file| {
            ([file.name()], json!({"key": file.key, "download_url": file.url}), file.url.clone())
        });
        return session.output.report(&lists::report([("FILE", Fit::Keep)], rows));
    }
    if !yes {
        stored.iter().for_each(|file| session.output.error_line(file.name()));
        let which = if stored.len() == 1 { "this file" } else { &format!("these {} files", stored.len()) };
        let response = session.ask(&format!("delete {which}? [y/N] "))?.unwrap_or_default().to_lowercase();
        if !matches!(response.as_str(), "y" | "yes") {
            return Err(Failure::usage("nothing was deleted").with_hint("--yes deletes without asking"));
        }
    }
    let (deleted, failures) = Transfers { client, session, jobs, overwrite: false }.delete_all(stored).await;
    match deleted.len() {
        0 => {}
        1 => session.note("the file is deleted"),
        count => session.note(format!("{count} files are deleted")),
    }
    session.output.report_done(&Report { quiet: deleted, ..Report::default() })?;
    session.output.failures(failures)
}

impl Transfers<'_> {
    /// Returns what succeeds and what fails, in order. One that fails stops no other.
    async fn run_all<T>(&self, calls: impl Iterator<Item = impl Future<Output = Result<T>>>) -> Ended<T> {
        let ended: Vec<_> = stream::iter(calls).buffered(usize::from(self.jobs)).collect().await;
        let (done, failed): (Vec<_>, Vec<_>) = ended.into_iter().partition(Result::is_ok);
        (done.into_iter().flatten().collect(), failed.into_iter().filter_map(Result::err).collect())
    }

    async fn delete_all(&self, stored: Vec<Stored>) -> Ended<String> {
        let deletes = stored.into_iter().map(|file| async move {
            let deleted = self.client.delete_file(file.url.as_str()).await;
            deleted.map(|()| file.url.clone()).map_err(|error| Failure::from(error).about(file.name()))
        });
        self.run_all(deletes).await
    }

    async fn download(&self, url: &str, path: &Path, progress: &SharedProgress) -> Result<DownloadedFile> {
        let path_here = self.session.here(path);
        let name = path.display().to_string();
        if !self.overwrite && path_here.is_file() {
            return Err(exists(&name));
        }
        if !is_special(&path_here) {
            make_folder(path_here.parent().unwrap_or(Path::new("")))?;
        }
        let download = self.client.download(url).limits(|limits| limits.overwrite = self.overwrite);
        let saved = save_to(download, &path_here, |event| progress.lock().download(&name, event));
        let saved = interruptible(saved).await;
        progress.lock().done(&name, saved.is_ok().then_some("downloaded"));
        saved
    }

    async fn download_all(&self, downloads: Vec<(PathBuf, Stored)>) -> Ended<(PathBuf, DownloadedFile)> {
        let progress = &Progress::shared(&self.session.output);
        let downloads = downloads.into_iter().map(|(path, file)| async move {
            let downloaded = self.download(&file.url, &path, progress).await;
            let downloaded = downloaded.and_then(|downloaded| match file.size {
                Some(size) if size != downloaded.size => Err(incomplete(size, downloaded.size)),
                _ => Ok((path, downloaded)),
            });
            downloaded.map_err(|failure| failure.about(file.name()))
        });
        self.run_all(downloads).await
    }
}

fn incomplete(size: u64, received: u64) -> Failure {
    let headline = format!("{received} bytes were received of a file of {size}");
    Failure::new(exit::FAILED, headline).with_hint("try again; is a proxy in between?")
}

async fn stats(client: &Client, session: &Session) -> Result {
    let (statistics, json) = with_json(client.storage_statistics()).await?;
    let bytes = statistics.total_size.and_then(|bytes| u64::try_from(bytes).ok());
    let files = statistics.total_files.map(|count| count.to_string());
    let table = Table::of_fields([("files", files.clone()), ("size", bytes.map(size))]);
    let report = Report::of_one(table, json, files.unwrap_or_default());
    session.output.report(&report.of_type::<StorageStatistics>())
}

async fn download(arguments: DownloadArguments, client: &Client, session: &Session) -> Result {
    let DownloadArguments { file, path, recursive, overwrite, jobs } = arguments;
    let transfers = Transfers { client, session, jobs, overwrite };
    let stored = list::select(std::slice::from_ref(&file), recursive, client).await?;
    let is_stdout = path.as_deref() == Some(Path::new("-"));
    if is_stdout && let [_, _, ..] = &stored[..] {
        let headline = format!("standard output takes one file, and {file} is {}", stored.len());
        return Err(Failure::usage(headline).with_hint("give a folder for them"));
    }
    // A key may have the characters of a pattern.
    let is_one =
        matches!(&stored[..], [one] if !recursive && one.key.as_ref().is_none_or(|key| *key == file));
    if !is_one && !is_stdout {
        let folder = path.unwrap_or_default();
        if !is_folder(&folder.to_string_lossy(), &session.here(&folder)) {
            return Err(Failure::usage(format!("{} is no folder", folder.display()))
                .with_hint(format!("write {}/ for a folder of that name", folder.display())));
        }
        make_folder(&session.here(&folder))?;
        let named = stored.into_iter().map(|file| (local_name(&file), file));
        let (own, named): (Vec<_>, Vec<_>) = named.partition(|(name, _)| is_own(Path::new(name)));
        own.iter().for_each(|(_, file)| session.note(left_out(file.name())));
        check_copies(&session.here(&folder), named.iter().map(|(name, file)| (name.as_str(), file)))?;
        let downloads = named.into_iter().map(|(name, file)| (folder.join(name), file)).collect();
        let (saved, failures) = transfers.download_all(downloads).await;
        let rows = saved.iter().map(|(path, file)| {
            let name = path.display().to_string();
            ([name.clone(), size(file.size)], record(path, file), name)
        });
        session.output.report_done(&lists::report([("PATH", Fit::Keep), ("SIZE", Fit::Drop(1))], rows))?;
        return session.output.failures(failures);
    }
    let Some(file) = stored.into_iter().next() else { return Ok(()) };
    if is_stdout {
        return to_stdout(client.download(file.url.as_str()), session).await;
    }
    let is_folder = |path: &Path| session.here(path).is_dir() || path.to_string_lossy().ends_with('/');
    let path = match path {
        Some(path) if is_folder(&path) => path.join(local_name(&file)),
        Some(path) => path,
        None => local_name(&file).into(),
    };
    let progress = Progress::shared(&session.output);
    let saved = transfers.download(&file.url, &path, &progress).await?;
    let record = record(&path, &saved);
    let path = path.display().to_string();
    let table = Table::of_fields([
        ("path", Some(path.clone())),
        ("type", saved.mime),
        ("size", Some(size(saved.size))),
    ]);
    session.output.report_done(&Report::of_one(table, record, path))
}

fn record(path: &Path, file: &DownloadedFile) -> Value {
    json!({"path": path.display().to_string(), "mime": file.mime, "size": file.size})
}

/// The name of a copy: that of the stored file if it is fit to be one and not hidden, or else that in the URL.
fn local_name(file: &Stored) -> String {
    let name = file.own_name().filter(|name| is_file_name(name) && !name.starts_with('.'));
    let name = name.map(str::to_owned).or_else(|| name_in(&file.url));
    name.unwrap_or_else(|| "download".to_owned())
}

/// Fails when two stored files would be one in a folder, which may not tell upper from lower case.
fn check_copies<'a>(folder: &Path, copies: impl Iterator<Item = (&'a str, &'a Stored)>) -> Result {
    let (mut names, mut letters) = (HashMap::new(), HashMap::new());
    let (mut twice, mut alike) = (None, None);
    for (name, file) in copies {
        twice = twice.or_else(|| names.insert(name, file).map(|other| (other, file)));
        alike = alike.or_else(|| letters.insert(name.to_lowercase(), file).map(|other| (other, file)));
    }
    if twice.is_none() && (alike.is_none() || tells_case(folder)?) {
        return Ok(());
    }
    let Some((one, other)) = twice.or(alike) else { return Ok(()) };
    let headline = format!("{} and {} would be one file in {}", one.name(), other.name(), folder.display());
    let hint = "rename one of them, or download it alone to another name; nothing was downloaded or deleted";
    Err(Failure::new(exit::INPUT, headline).with_hint(hint))
}

fn tells_case(folder: &Path) -> Result<bool> {
    let existing = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let probe = tempfile::Builder::new().prefix(".inferstore-case-").tempfile_in(existing);
    let probe = probe.map_err(Failure::of_path(existing, "cannot be written"))?;
    let name = probe.path().file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    Ok(!existing.join(name).exists())
}

/// Returns true for a file that this command keeps in a folder: the journal of its runs, or an unfinished download.
fn is_own(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == JOURNAL || is_unfinished(&name.to_string_lossy()))
}

fn is_unfinished(name: &str) -> bool {
    name.rsplit_once(".inferstore-").is_some_and(|(_, rest)| rest.ends_with(".part"))
}

fn left_out(file: &str) -> String {
    format!("{file} has the name of a journal of runs, or of an unfinished download, and is left out")
}

/// Returns true for a name that leads into no other folder.
fn is_file_name(name: &str) -> bool {
    let leads_elsewhere = |c: char| matches!(c, '/' | '\\') || c.is_control();
    !matches!(name, "" | "." | "..") && !name.contains(leads_elsewhere)
}

/// The last segment of the path of a URL, as far as it is fit to name a file.
fn name_in(url: &str) -> Option<String> {
    let path = url.split(['?', '#']).next()?.split_once("://")?.1;
    let name = path.split_once('/')?.1.rsplit('/').next()?;
    let is_plain = |c: char| c.is_alphanumeric() || "-_.()%+ ".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    Some(name.trim_start_matches('.').to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_name_of_its_key_unless_that_leads_elsewhere() {
        let named = |key: &str| {
            let url = "https://h/b/a%20b.png".to_owned();
            local_name(&Stored { key: Some(key.to_owned()), url, size: None, created: None })
        };
        for name in ["a b.png", "a,b (1).png"] {
            assert_eq!(named(&format!("samples/{name}")), name);
        }
        for name in ["", ".", "..", ".a", "../a", "a/b", "\\a", "a\nb"] {
            assert_eq!(named(&format!("samples/{name}")), "a%20b.png", "{name:?}");
        }
    }

    #[test]
    fn a_download_is_named_by_its_url_and_never_leads_elsewhere() {
        assert_eq!(name_in("https://h/a/b.png?x=/c#d").as_deref(), Some("b.png"));
        assert_eq!(name_in("https://h/a/..\\b"), Some("_b".to_owned()));
        for url in ["https://h", "https://h/", "https://h/a/..", "no url"] {
            assert_eq!(name_in(url), None, "{url}");
        }
    }
}
