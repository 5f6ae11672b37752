//! `inferstore files`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};
use inferstore::types::{MimeCategory, StorageFile, StorageStatistics, UploadFolder};
use inferstore::{Client, Error, File, FileErrorKind, FileQuery, UploadedFile};
use serde_json::json;

use super::outputs::{exists, is_special, make_folder, save_to};
use super::signals::interruptible;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::lists;
use crate::output::Report;
use crate::progress::{Progress, watch};
use crate::settings::Session;
use crate::table::{Cell, Fit, Table};
use crate::time;
use crate::values::size;

/// Upload, list, download and delete files
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Upload files into a folder
    Upload(UploadArguments),
    /// List the files of a folder
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Show how much is stored
    #[command(after_help = "Examples:\n  inferstore files stats")]
    Stats,
    /// Download a URL, such as an output of a model
    Download(DownloadArguments),
    /// Delete files by their URLs or keys
    #[command(visible_alias = "rm")]
    Delete(DeleteArguments),
}

/// Upload files into a folder
///
/// A file of the same name in the folder may be replaced.
#[derive(Debug, Args)]
#[command(after_help = UPLOAD_EXAMPLES)]
pub(crate) struct UploadArguments {
    /// The folder
    #[arg(value_parser = upload_folder())]
    folder: UploadFolder,
    /// The files
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Upload the files below folders too; a/b.png is stored as a-b.png
    #[arg(short, long, conflicts_with = "name")]
    recursive: bool,
    /// Store the file under this name; for one file only
    #[arg(long)]
    name: Option<String>,
    /// Store the files with this MIME type, whatever their content says
    #[arg(long, value_name = "TYPE")]
    mime: Option<String>,
    /// Upload for this organization, with a key of personal scope
    #[arg(long, value_name = "USERNAME")]
    org: Option<String>,
}

const UPLOAD_EXAMPLES: &str = "\
Examples:
  inferstore files upload samples street.jpg
  inferstore files upload documents *.pdf --format jsonl
  inferstore files upload samples pictures/ -r
  inferstore files upload covers cover.bin --name cover.png --mime image/png";

/// List the files of a folder
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore files list samples --type image\n  inferstore files list samples --all --format jsonl"
)]
pub(crate) struct ListArguments {
    /// The folder
    #[arg(value_parser = upload_folder())]
    folder: UploadFolder,
    /// Only files of this kind
    #[arg(long = "type", value_name = "KIND", value_parser = PossibleValuesParser::new(MimeCategory::ALL.iter().map(MimeCategory::as_str)))]
    category: Option<String>,
    /// How many files to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// How many files to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// Show all files, page after page
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

/// Download a URL, such as an output of a model
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore files download URL\n  inferstore files download URL picture.png --overwrite\n  inferstore files download URL - | file -"
)]
pub(crate) struct DownloadArguments {
    /// The URL, or the key of a stored file, such as samples/a.png
    #[arg(value_name = "URL|KEY")]
    url: String,
    /// Where to: a folder, a file, a device, or - for standard output [default: the name in the URL]
    #[arg(value_hint = ValueHint::AnyPath)]
    path: Option<PathBuf>,
    /// Replace a regular file that exists
    #[arg(long)]
    overwrite: bool,
}

/// Delete files by their URLs or keys
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore files delete URL\n  inferstore files delete samples/a.png samples/b.png\n  inferstore files list samples --all -q | xargs inferstore files delete --yes"
)]
pub(crate) struct DeleteArguments {
    /// The download URLs of the files, or their keys, such as samples/a.png
    #[arg(required = true, value_name = "URL|KEY")]
    files: Vec<String>,
    /// Delete without asking; required where standard input is no terminal
    #[arg(short, long)]
    yes: bool,
}

/// The name of a folder, as an argument.
pub(crate) fn upload_folder() -> impl TypedValueParser<Value = UploadFolder> {
    let words = UploadFolder::ALL.iter().map(UploadFolder::as_str);
    PossibleValuesParser::new(words).try_map(|word| word.parse())
}

pub(crate) async fn execute(command: Command, mut session: Session) -> Result {
    let client = &session.client()?;
    match command {
        Command::Upload(arguments) => upload(arguments, client, &session).await,
        Command::List(arguments) => list(arguments, client, &session).await,
        Command::Stats => stats(client, &session).await,
        Command::Download(arguments) => download(arguments, client, &session).await,
        Command::Delete(arguments) => delete(arguments, client, &mut session).await,
    }
}

async fn upload(arguments: UploadArguments, client: &Client, session: &Session) -> Result {
    let UploadArguments { folder, paths, recursive, name, mime, org } = arguments;
    if name.is_some() && paths.len() > 1 {
        return Err(Failure::usage("--name is for one file").with_hint("upload the files one by one"));
    }
    session.output.check_fields(&["download_url", "mime", "name", "size"])?;
    let folder = client.folder(folder.as_str());
    let mut progress = Progress::new(&session.output);
    let mut report = Report::default();
    let mut records = Vec::new();
    report.table = Table::new([("TYPE", Fit::Drop(1)), ("SIZE", Fit::Drop(2)), ("URL", Fit::Keep)]);
    let mut failures = Vec::new();
    let files = files(&paths, recursive, session)?;
    check_names(&files)?;
    for (path, name_of_path) in files {
        let mut file = File::path(session.environment.folder.join(&path));
        if let Some(name) = name.as_ref().or(name_of_path.as_ref()) {
            file = file.named(name);
        }
        if let Some(mime) = &mime {
            file = file.with_mime(mime);
        }
        let label = path.display().to_string();
        let upload = folder.upload(file).org_username(org.clone()).events();
        let uploaded = match watch(upload, |event| progress.upload(&label, event)).await {
            Ok(uploaded) => uploaded,
            Err(error) => {
                // The other files are uploaded nevertheless.
                failures.push(of_upload(error).about(&label));
                continue;
            }
        };
        let UploadedFile { download_url, name, mime, size: bytes, .. } = &uploaded;
        report.table.add([mime.clone(), size(*bytes), download_url.clone()]);
        report.quiet.push(download_url.clone());
        let record = json!({"download_url": download_url, "name": name, "mime": mime, "size": bytes});
        records.push(record.to_string());
    }
    progress.end();
    report.json = match &records[..] {
        [one] => one.clone(),
        many => format!("[{}]", many.join(",")),
    };
    if !records.is_empty() {
        report.records = Some(records);
        // The failures of other files are reported all the same.
        failures.extend(session.output.report_done(&report).err());
    }
    all_of(failures, session)
}

/// Reports the failures of several files, the last one as that of the command.
fn all_of(mut failures: Vec<Failure>, session: &Session) -> Result {
    let Some(last) = failures.pop() else { return Ok(()) };
    for failure in &failures {
        session.output.failure(failure);
    }
    Err(last)
}

/// The files to upload: with `recursive` those below folders too, with names of their own.
fn files(paths: &[PathBuf], recursive: bool, session: &Session) -> Result<Vec<(PathBuf, Option<String>)>> {
    let mut files = Vec::new();
    for path in paths {
        let root = session.environment.folder.join(path);
        if !root.is_dir() {
            files.push((path.clone(), None));
        } else if recursive {
            below(&root, Path::new(""), path, &mut files)?;
        } else {
            return Err(Failure::new(exit::INPUT, format!("{} is a folder", path.display()))
                .with_hint("give -r for the files below it; nothing was sent"));
        }
    }
    Ok(files)
}

/// Fails when two files would be stored under one name: the later one would replace the other.
fn check_names(files: &[(PathBuf, Option<String>)]) -> Result {
    let mut names = BTreeMap::new();
    for (path, name) in files {
        let own = || path.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(name) = name.clone().or_else(own) else { continue };
        if let Some(other) = names.insert(name.clone(), path) {
            let headline =
                format!("{} and {} would both be stored as {name:?}", other.display(), path.display());
            return Err(Failure::new(exit::INPUT, headline)
                .with_hint("upload them one by one, with --name; nothing was sent"));
        }
    }
    Ok(())
}

/// Adds the files below a folder, in the order of their names. Symlinks to folders are not followed.
fn below(root: &Path, inner: &Path, shown: &Path, files: &mut Vec<(PathBuf, Option<String>)>) -> Result {
    let failed = |error| {
        let folder = shown.join(inner);
        Failure::local_failure(format!("{} cannot be read", folder.display()), error)
    };
    let entries = std::fs::read_dir(root.join(inner)).and_then(Iterator::collect);
    let mut entries: Vec<std::fs::DirEntry> = entries.map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = inner.join(entry.file_name());
        if entry.file_type().map_err(failed)?.is_dir() {
            below(root, &path, shown, files)?;
        } else {
            let name = path.to_string_lossy().replace(['/', '\\'], "-");
            files.push((shown.join(&path), Some(name)));
        }
    }
    Ok(())
}

async fn delete(arguments: DeleteArguments, client: &Client, session: &mut Session) -> Result {
    let mut urls = Vec::new();
    for file in &arguments.files {
        urls.push(if file.contains("://") { file.clone() } else { url_of(file, client).await? });
    }
    if !arguments.yes {
        let question =
            format!("delete {}? [y/N] ", if urls.len() == 1 { "this file" } else { "these files" });
        for file in &arguments.files {
            session.output.note(file);
        }
        let response = session.ask(&question)?.unwrap_or_default().to_lowercase();
        if !matches!(response.as_str(), "y" | "yes") {
            return Err(Failure::usage("nothing was deleted").with_hint("--yes deletes without asking"));
        }
    }
    let mut deleted = Vec::new();
    let mut failures = Vec::new();
    for url in urls {
        match client.storage().delete(url.as_str()).await {
            Ok(()) => deleted.push(url),
            Err(error) => failures.push(Failure::from(error)),
        }
    }
    if !deleted.is_empty() {
        let count = deleted.len();
        session.output.note(if count == 1 {
            "the file is deleted".to_owned()
        } else {
            format!("{count} files are deleted")
        });
    }
    session.output.report(&Report { quiet: deleted, ..Report::default() })?;
    all_of(failures, session)
}

/// The download URL of a file by its key.
async fn url_of(key: &str, client: &Client) -> Result<String> {
    let folder = key.split('/').next().unwrap_or_default();
    if folder.parse::<UploadFolder>().is_err() {
        return Err(Failure::new(exit::INPUT, format!("{key:?} is neither a URL nor the key of a file"))
            .with_hint(
                "a key is such as samples/a.png; `inferstore files list samples` shows those of a folder",
            ));
    }
    let mut files = client.folder(folder).list(FileQuery::default());
    while let Some(file) = files.next().await {
        let file = file?;
        if file.key.as_deref() == Some(key)
            && let Some(url) = file.download_url
        {
            return Ok(url);
        }
    }
    Err(Failure::new(exit::INPUT, format!("there is no file {key:?}"))
        .with_hint(format!("`inferstore files list {folder}` shows the keys")))
}

/// The failure of an upload, or of what begins with one. A file that cannot be sent is an input that was refused;
/// object storage that cannot be reached is not.
pub(crate) fn of_upload(error: Error) -> Failure {
    let is_about_input = matches!(
        &error,
        Error::File(file) if matches!(
            file.kind,
            FileErrorKind::NotFound
                | FileErrorKind::Unreadable
                | FileErrorKind::Empty
                | FileErrorKind::TooLarge
                | FileErrorKind::InvalidName
                | FileErrorKind::InvalidMimeType
        )
    );
    let failure = Failure::from(error);
    if is_about_input { failure.with_code(exit::INPUT) } else { failure }
}

async fn list(arguments: ListArguments, client: &Client, session: &Session) -> Result {
    let ListArguments { folder, category, limit, offset, all } = arguments;
    let folder = &client.folder(folder.as_str());
    let category: Option<MimeCategory> = category.and_then(|word| word.parse().ok());
    let limit = if all { u64::MAX } else { u64::from(limit) };
    let page = |number, size| {
        let mut query = FileQuery::default();
        query.category = category;
        query.page_size = Some(size);
        folder.page(query, number)
    };
    let listed = lists::numbered(session, offset, limit, page).await?;
    let mut table = Table::new([
        ("KEY", Fit::Keep),
        ("TYPE", Fit::Drop(2)),
        ("SIZE", Fit::Drop(1)),
        ("CREATED", Fit::Drop(3)),
        ("URL", Fit::Drop(4)),
    ]);
    for (file, _) in &listed.records {
        table.add([
            Cell::from(file.key.clone().unwrap_or_default()),
            Cell::from(file.mime.clone().unwrap_or_default()),
            Cell::from(file.size.and_then(|bytes| u64::try_from(bytes).ok()).map(size).unwrap_or_default()),
            time::age(file.created_at.as_ref()),
            Cell::from(file.download_url.clone().unwrap_or_default()),
        ]);
    }
    let quiet = |file: &StorageFile| file.download_url.clone().unwrap_or_default();
    session.output.report(&listed.report("files", table, quiet))
}

async fn stats(client: &Client, session: &Session) -> Result {
    let statistics = client.storage().statistics().await?;
    let bytes = statistics.total_size.and_then(|bytes| u64::try_from(bytes).ok());
    let files = statistics.total_files.map(|count| count.to_string());
    let table = Table::of_fields([("files", files.clone()), ("size", bytes.map(size))]);
    let report = Report::of_one(table, session.payload(), files.unwrap_or_default());
    session.output.report(&report.of_type::<StorageStatistics>())
}

async fn download(arguments: DownloadArguments, client: &Client, session: &Session) -> Result {
    let DownloadArguments { url, path, overwrite } = arguments;
    let url = if url.contains("://") { url } else { url_of(&url, client).await? };
    let download = client.download(url.as_str()).overwrite(overwrite);
    if path.as_deref() == Some(Path::new("-")) {
        download.to_writer(session.output.clone()).await?;
        return Ok(());
    }
    let mut progress = Progress::new(&session.output);
    let name = name_in(&url).unwrap_or_else(|| "download".to_owned());
    let folder = &session.environment.folder;
    let path = match path {
        Some(path) if folder.join(&path).is_dir() || path.to_string_lossy().ends_with('/') => {
            path.join(&name)
        }
        Some(path) => path,
        None => PathBuf::from(&name),
    };
    if !overwrite && folder.join(&path).is_file() {
        return Err(exists(&path.display().to_string()));
    }
    if !is_special(&folder.join(&path)) {
        make_folder(folder.join(&path).parent().unwrap_or(Path::new("")))?;
    }
    let path_here = folder.join(&path);
    let downloaded =
        interruptible(save_to(download, &path_here, |event| progress.download(&name, event))).await?;
    progress.end();
    let shown = path.display().to_string();
    let record = json!({"path": shown, "mime": downloaded.mime, "size": downloaded.size});
    let table = Table::of_fields([
        ("path", Some(shown.clone())),
        ("type", downloaded.mime.clone()),
        ("size", Some(size(downloaded.size))),
    ]);
    session.output.report(&Report::of_one(table, record, shown))
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
    use super::name_in;

    #[test]
    fn a_download_is_named_by_its_url_and_never_leads_elsewhere() {
        assert_eq!(name_in("https://h/a/b.png?x=/c#d").as_deref(), Some("b.png"));
        assert_eq!(name_in("https://h/a/..\\b"), Some("_b".to_owned()));
        for url in ["https://h", "https://h/", "https://h/a/..", "no url"] {
            assert_eq!(name_in(url), None, "{url}");
        }
    }
}
