//! `inferstore files`.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use inferstore::types::{MimeCategory, StorageFile, UploadFolder};
use inferstore::{Client, Error, File, FileQuery, UploadedFile};
use serde_json::json;

use crate::exit;
use crate::failure::{Failure, Result};
use crate::lists;
use crate::output::Report;
use crate::progress::{Progress, watch};
use crate::settings::Session;
use crate::table::Table;
use crate::values::size;

/// Upload, list, download and delete files
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Upload files into a folder
    Upload(UploadArguments),
    /// List the files of a folder
    List(ListArguments),
    /// Show how much is stored
    #[command(after_help = "Examples:\n  inferstore files stats")]
    Stats,
    /// Download a URL, such as an output of a model
    Download(DownloadArguments),
    /// Delete a file by its URL
    #[command(after_help = "Examples:\n  inferstore files delete URL")]
    Delete(DeleteArguments),
}

/// Upload files into a folder
///
/// A file of the same name in the folder may be replaced.
#[derive(Debug, Args)]
#[command(after_help = UPLOAD_EXAMPLES)]
pub(crate) struct UploadArguments {
    /// The folder
    #[arg(value_parser = PossibleValuesParser::new(UploadFolder::ALL.iter().map(UploadFolder::as_str)))]
    folder: String,
    /// The files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
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
  inferstore files upload covers cover.bin --name cover.png --mime image/png";

/// List the files of a folder
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore files list samples --type image\n  inferstore files list samples --all --format jsonl"
)]
pub(crate) struct ListArguments {
    /// The folder
    folder: String,
    /// Only files of this kind
    #[arg(long = "type", value_name = "KIND", value_parser = PossibleValuesParser::new(MimeCategory::ALL.iter().map(MimeCategory::as_str)))]
    category: Option<String>,
    /// The page, counted from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    page: u64,
    /// How many files a page has
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    page_size: u32,
    /// Show all files, page after page
    #[arg(long, conflicts_with = "page")]
    all: bool,
}

/// Download a URL, such as an output of a model
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore files download URL\n  inferstore files download URL picture.png --overwrite\n  inferstore files download URL - | file -"
)]
pub(crate) struct DownloadArguments {
    /// The URL
    url: String,
    /// Where to; a folder, a file, or - for standard output. The name in the URL unless told
    path: Option<PathBuf>,
    /// Replace a file that is there already
    #[arg(long)]
    overwrite: bool,
}

/// Delete a file by its URL
#[derive(Debug, Args)]
pub(crate) struct DeleteArguments {
    /// The download URL of the file
    url: String,
}

pub(crate) async fn execute(command: Command, session: &Session) -> Result {
    let client = &session.client()?;
    match command {
        Command::Upload(arguments) => upload(arguments, client, session).await,
        Command::List(arguments) => list(arguments, client, session).await,
        Command::Stats => stats(client, session).await,
        Command::Download(arguments) => download(arguments, client, session).await,
        Command::Delete(DeleteArguments { url }) => {
            client.storage().delete(url.as_str()).await?;
            session.output.note("the file is deleted");
            session.output.report(&Report { quiet: vec![url], ..Report::default() })
        }
    }
}

async fn upload(arguments: UploadArguments, client: &Client, session: &Session) -> Result {
    let UploadArguments { folder, paths, name, mime, org } = arguments;
    if name.is_some() && paths.len() > 1 {
        return Err(Failure::usage("--name is for one file").with_hint("upload them one by one"));
    }
    let folder = client.folder(folder);
    let mut progress = Progress::new(&session.output);
    let (mut report, mut records) = (Report::default(), Vec::new());
    report.table = Table::new(["URL", "TYPE", "SIZE"]);
    for path in paths {
        let mut file = File::path(session.environment.folder.join(&path));
        if let Some(name) = &name {
            file = file.named(name);
        }
        if let Some(mime) = &mime {
            file = file.with_mime(mime);
        }
        let label = path.display().to_string();
        let upload = folder.upload(file).org_username(org.clone()).events();
        let mut has_begun = false;
        let show = |event: &_| {
            has_begun = true;
            progress.upload(&label, event);
        };
        let uploaded = watch(upload, show).await;
        let uploaded = uploaded.map_err(|error| before_or_after(error, has_begun))?;
        let UploadedFile { download_url, name, mime, size: bytes, .. } = &uploaded;
        report.table.add([download_url.clone(), mime.clone(), size(*bytes)]);
        report.quiet.push(download_url.clone());
        let record = json!({"download_url": download_url, "name": name, "mime": mime, "size": bytes});
        records.push(record.to_string());
    }
    progress.end();
    report.json = match &records[..] {
        [one] => one.clone(),
        many => format!("[{}]", many.join(",")),
    };
    report.records = Some(records);
    session.output.report(&report)
}

/// A file that cannot be sent is an input that was refused before anything was sent.
pub(crate) fn before_or_after(error: Error, has_begun: bool) -> Failure {
    let is_about_input = matches!(error, Error::File(_)) && !has_begun;
    let failure = Failure::from(error);
    if is_about_input { failure.with_code(exit::INPUT) } else { failure }
}

async fn list(arguments: ListArguments, client: &Client, session: &Session) -> Result {
    let ListArguments { folder, category, page, page_size, all } = arguments;
    let folder = &client.folder(folder);
    let category: Option<MimeCategory> = category.and_then(|word| word.parse().ok());
    let mut query = FileQuery::default();
    query.category = category;
    query.page_size = Some(page_size);
    let listed = if all {
        lists::all(session, 0, |_, pages| folder.page(query.clone(), pages + 1)).await?
    } else {
        lists::page(session, folder.page(query, page)).await?
    };
    let mut table = Table::new(["KEY", "TYPE", "SIZE", "CREATED", "URL"]);
    for (file, _) in &listed.records {
        table.add([
            file.key.clone().unwrap_or_default(),
            file.mime.clone().unwrap_or_default(),
            file.size.and_then(|bytes| u64::try_from(bytes).ok()).map(size).unwrap_or_default(),
            file.created_at.as_ref().map(|stamp| stamp.as_str().to_owned()).unwrap_or_default(),
            file.download_url.clone().unwrap_or_default(),
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
    session.output.report(&Report::of_one(table, session.payload(), files.unwrap_or_default()))
}

async fn download(arguments: DownloadArguments, client: &Client, session: &Session) -> Result {
    let DownloadArguments { url, path, overwrite } = arguments;
    let download = client.download(url.as_str()).overwrite(overwrite);
    if path.as_deref() == Some(Path::new("-")) {
        download.to_writer(session.output.clone()).await?;
        return Ok(());
    }
    let mut progress = Progress::new(&session.output);
    let name = name_in(&url).unwrap_or_else(|| "download".to_owned());
    let folder = &session.environment.folder;
    let path = match path {
        Some(path) if folder.join(&path).is_dir() => path.join(&name),
        Some(path) => path,
        None => PathBuf::from(&name),
    };
    let downloads = download.to_file(folder.join(&path));
    let downloaded = watch(downloads, |event| progress.download(&name, event)).await?;
    progress.end();
    let shown = path.display().to_string();
    let record = json!({"path": shown, "mime": downloaded.mime, "size": downloaded.size}).to_string();
    let table = Table::of_fields([
        ("path", Some(shown.clone())),
        ("type", downloaded.mime.clone()),
        ("size", Some(size(downloaded.size))),
    ]);
    session.output.report(&Report { table, json: record, quiet: vec![shown], ..Report::default() })
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
