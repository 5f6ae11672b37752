//! `inferstore files upload`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use inferstore::types::UploadFolder;
use inferstore::{Client, File, UploadedFile};
use serde_json::json;

use super::{Ended, Transfers, is_own, left_out};
use crate::commands::api::read_stdin;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::lists;
use crate::output::Report;
use crate::progress::{Progress, watch};
use crate::settings::Session;
use crate::table::Fit;
use crate::values::{size, upload_folder};

#[derive(Debug, Args)]
#[command(after_help = UPLOAD_EXAMPLES)]
pub(crate) struct UploadArguments {
    /// The folder
    #[arg(value_parser = upload_folder())]
    folder: UploadFolder,
    /// The files; - is standard input, and needs --name
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
    /// Replace stored files of the same names
    #[arg(long)]
    overwrite: bool,
    /// Upload for this organization, with a key of personal scope
    #[arg(long, value_name = "USERNAME")]
    org: Option<String>,
    /// Number of files that are uploaded at the same time
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
}

const UPLOAD_EXAMPLES: &str = "\
Examples:
  inferstore files upload samples street.jpg
  inferstore files upload documents *.pdf --format jsonl
  inferstore files upload samples pictures/ -r
  inferstore files upload covers cover.bin --name cover.png --mime image/png
  convert a.tif png:- | inferstore files upload samples - --name a.png";

/// The path of a file, and the name to store it under, if that is not its own.
pub(super) type Named = (PathBuf, Option<String>);

pub(super) struct Source {
    pub(super) label: String,
    pub(super) file: File,
}

pub(super) async fn execute(arguments: UploadArguments, client: &Client, session: &mut Session) -> Result {
    let UploadArguments { folder, paths, recursive, name, mime, overwrite, org, jobs } = arguments;
    if name.is_some() && paths.len() > 1 {
        return Err(Failure::usage("--name is for one file").with_hint("upload the files one by one"));
    }
    session.output.check_fields(&["download_url", "mime", "name", "size"])?;
    let mut sources = Vec::new();
    if paths == [Path::new("-")] {
        let name = name.ok_or_else(|| {
            Failure::usage("standard input has no name").with_hint("give --name, such as --name a.png")
        })?;
        sources.push(Source { label: name.clone(), file: File::bytes(name, read_stdin(session)?) });
    } else {
        let (files, _) = without_own(files(&paths, recursive, session)?, session);
        check_names(&files, name.is_some())?;
        for (path, name_of_path) in files {
            let file = File::path(session.here(&path));
            let file = match name.as_ref().or(name_of_path.as_ref()) {
                Some(name) => file.named(name),
                None => file,
            };
            sources.push(Source { label: path.display().to_string(), file });
        }
    }
    let sources = sources.into_iter().map(|Source { label, file }| match &mime {
        Some(mime) => Source { label, file: file.with_mime(mime) },
        None => Source { label, file },
    });
    let transfers = Transfers { client, session, jobs, overwrite };
    let (uploaded, mut failures) = transfers.upload_all(sources.collect(), folder, org).await;
    if !uploaded.is_empty() {
        // The failures of other files are reported all the same.
        failures.extend(session.output.report_done(&report(&uploaded)).err());
    }
    session.output.failures(failures)
}

impl Transfers<'_> {
    pub(super) async fn upload_all(
        &self,
        sources: Vec<Source>,
        folder: UploadFolder,
        org: Option<String>,
    ) -> Ended<UploadedFile> {
        let folder = &self.client.folder(folder.as_str());
        let progress = &Progress::shared(&self.session.output);
        let uploads = sources.into_iter().map(|Source { label, file }| {
            let upload = folder.upload(file).org_username(org.clone()).overwrite(self.overwrite).events();
            async move {
                let uploaded = watch(upload, |event| progress.lock().upload(&label, event)).await;
                progress.lock().done(&label, uploaded.is_ok().then_some("uploaded"));
                uploaded.map_err(|error| Failure::from(error).about(&label))
            }
        });
        self.run_all(uploads).await
    }
}

fn report(uploaded: &[UploadedFile]) -> Report {
    let columns = [("TYPE", Fit::Drop(1)), ("SIZE", Fit::Drop(2)), ("URL", Fit::Keep)];
    let rows = uploaded.iter().map(|UploadedFile { download_url, name, mime, size: bytes, .. }| {
        let record = json!({"download_url": download_url, "name": name, "mime": mime, "size": bytes});
        ([mime.clone(), size(*bytes), download_url.clone()], record, download_url.clone())
    });
    let mut report = lists::report(columns, rows);
    if let Some([one]) = report.records.as_deref() {
        report.json.clone_from(one);
    }
    report
}

/// The files to upload: with `recursive` those below folders too, with names of their own.
pub(super) fn files(paths: &[PathBuf], recursive: bool, session: &Session) -> Result<Vec<Named>> {
    let mut files = Vec::new();
    for path in paths {
        let root = session.here(path);
        if !root.is_dir() {
            let name = path.file_name().and_then(|name| name.to_str());
            files.push((path.clone(), name.filter(|name| name.contains(char::is_control)).map(safe_name)));
        } else if recursive {
            below(&root, Path::new(""), path, &mut files)?;
        } else {
            return Err(Failure::new(exit::INPUT, format!("{} is a folder", path.display()))
                .with_hint("give -r for the files below it; nothing was sent"));
        }
    }
    Ok(files)
}

/// Leaves out what this command keeps in a folder, with a note, and returns the names of that.
pub(super) fn without_own(files: Vec<Named>, session: &Session) -> (Vec<Named>, Vec<String>) {
    // A file without a name of its own was given by the caller.
    let (own, files): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(path, name)| name.is_some() && is_own(path));
    own.iter().for_each(|(path, _)| session.note(left_out(&path.display().to_string())));
    (files, own.into_iter().filter_map(|(_, name)| name).collect())
}

/// Returns a name that the storage takes: control characters, and what is not UTF-8, become `_`.
fn safe_name(name: &str) -> String {
    name.replace(|c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER, "_")
}

/// Fails when two files would get one name, because the later one would replace the other, or when a name is not UTF-8.
pub(super) fn check_names(files: &[Named], is_named: bool) -> Result {
    let mut names = BTreeMap::new();
    for (path, name) in files {
        if path.to_str().is_none() && !is_named && name.is_none() {
            return Err(Failure::new(exit::INPUT, format!("the name of {path:?} is not UTF-8"))
                .with_hint("rename the file, or upload it alone with --name; nothing was sent"));
        }
        let own = || path.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(name) = name.clone().or_else(own) else { continue };
        if let Some(other) = names.insert(name.clone(), path) {
            let files = format!("{} and {}", other.display(), path.display());
            return Err(Failure::new(exit::INPUT, format!("{files} would both be stored as {name:?}"))
                .with_hint("rename one of them; nothing was sent"));
        }
    }
    Ok(())
}

/// Adds the files below a folder, in the order of their names. Symlinks to folders are not followed.
fn below(root: &Path, inner: &Path, shown: &Path, files: &mut Vec<Named>) -> Result {
    let folder = shown.join(inner);
    let failed = Failure::of_path(&folder, "cannot be read");
    let entries = std::fs::read_dir(root.join(inner)).and_then(Iterator::collect);
    let mut entries: Vec<std::fs::DirEntry> = entries.map_err(&failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = inner.join(entry.file_name());
        if entry.file_type().map_err(&failed)?.is_dir() {
            below(root, &path, shown, files)?;
        } else {
            let name = safe_name(&path.to_string_lossy().replace(['/', '\\'], "-"));
            files.push((shown.join(&path), Some(name)));
        }
    }
    Ok(())
}
