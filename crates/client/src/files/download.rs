//! Downloads: a URL to a file, to memory or as a stream.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, TryFutureExt};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};
use serde::{Deserialize, Serialize};
use tempfile::TempPath;
use tokio::io::AsyncWriteExt;

use crate::files::source::blocking;
use crate::files::{self, HTML};
use crate::transport::middleware::Attempt;
use crate::transport::{Core, Deadline, Error, Events, FileError, FileErrorKind, Items, Result, Sink};

const MAX_REDIRECTS: u32 = 5;

const MAX_IN_MEMORY: u64 = 256 * 1024 * 1024;

/// Extensions for types whose first extension in `mime_guess` is unusual.
const USUAL_EXTENSIONS: [(&str, &str); 4] =
    [("audio/mpeg", "mp3"), ("image/jpeg", "jpg"), ("text/plain", "txt"), ("video/quicktime", "mov")];

/// A download of a URL, such as an output of a model.
///
/// ```no_run
/// # async fn example(client: inferstore::Client, outcome: inferstore::Outcome) -> Result<(), inferstore::Error> {
/// for (name, url) in outcome.urls() {
///     let file = client.download(url).to_dir("outputs", name).await?;
///     println!("{}", file.path.display());
/// }
/// # Ok(())
/// # }
/// ```
///
/// The API key is not sent. Transient failures are retried; a connection lost within the content ends the download.
#[derive(Clone)]
#[must_use = "a download starts when one of its `to_…` methods, `bytes` or `stream` is used"]
pub struct Download {
    core: Arc<Core>,
    url: String,
    limits: Limits,
    url_filter: UrlFilter,
}

/// Limits of a download.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Timeout of the whole download, including retries and backoff. Default: none.
    pub deadline: Option<Duration>,
    /// Maximum size in bytes; the download fails as soon as the content is known to be larger. Default: none,
    /// except for [`Download::bytes`].
    pub max_size: Option<u64>,
    /// Replaces an existing file, if regular. Default: `false`; in a folder, an existing name then gets a number.
    pub overwrite: bool,
}

/// Returns the reason to reject a URL.
type UrlFilter = Arc<dyn Fn(&Url) -> Result<(), String> + Send + Sync>;

/// Downloaded file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DownloadedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// MIME type, if the server sent one.
    pub mime: Option<String>,
}

/// Event of a download to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DownloadEvent {
    /// Bytes were received.
    Progress {
        /// Number of bytes received.
        received: u64,
        /// Total number of bytes, if the server sent it.
        total: Option<u64>,
    },
}

/// Content of a download as it arrives. The last item is an error if the content is incomplete.
pub type DownloadStream = Items<Bytes>;

/// Download to a file: await it for the file, or read it as a stream of events.
pub type DownloadEvents = Events<DownloadEvent, DownloadedFile>;

/// Redaction: omits the URL, which may grant access.
impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Download {
    pub(crate) fn new(core: Arc<Core>, url: impl Into<String>) -> Self {
        let url_filter: UrlFilter = Arc::new(|_| Ok(()));
        Self { core, url: url.into(), limits: Limits::default(), url_filter }
    }

    /// Changes the limits.
    ///
    /// ```
    /// # fn example(download: inferstore::Download) -> inferstore::Download {
    /// download.limits(|limits| limits.max_size = Some(1_000_000))
    /// # }
    /// ```
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Rejects URLs, including targets of redirects, for which the filter returns a reason. A foreign URL may
    /// lead into the local network (SSRF). Default: no URL is rejected.
    pub fn url_filter(self, url_filter: impl Fn(&Url) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { url_filter: Arc::new(url_filter), ..self }
    }

    /// Downloads to this path. The file appears when it is complete. Await the result, or read its events.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the URL cannot be read or the file cannot be written; [`Error::DeadlineReached`].
    pub fn to_file(self, path: impl Into<PathBuf>) -> DownloadEvents {
        self.saved(path.into(), None)
    }

    /// Downloads into a folder, under this name with the extension of the MIME type, such as `.png`. An
    /// existing name gets a number, unless [`overwrite`](Limits::overwrite) is set. Characters that could
    /// lead out of the folder become `_`. A missing folder is created. Fails as [`to_file`](Self::to_file) does.
    pub fn to_dir(self, folder: impl Into<PathBuf>, stem: impl Into<String>) -> DownloadEvents {
        self.saved(folder.into(), Some(stem.into()))
    }

    /// Not generic, so that this crate compiles the function once.
    fn saved(self, path: PathBuf, stem: Option<String>) -> DownloadEvents {
        Events::new(|events| self.save(path, stem, events).boxed())
    }

    /// Downloads into memory: at most 256 MiB, unless [`max_size`](Limits::max_size) sets another limit. Fails as
    /// [`to_file`](Self::to_file) does.
    pub fn bytes(self) -> BoxFuture<'static, Result<Bytes>> {
        let download = self.limits(|limits| _ = limits.max_size.get_or_insert(MAX_IN_MEMORY));
        let content = download.stream().0.try_fold(Vec::new(), |mut content, bytes| async move {
            content.extend_from_slice(&bytes);
            Ok(content)
        });
        content.map_ok(Bytes::from).boxed()
    }

    /// Returns the content as a stream of bytes, which ends with an error if the content is incomplete.
    pub fn stream(self) -> DownloadStream {
        let chunks = async move {
            let deadline = Deadline::of_transfer(self.limits.deadline);
            let transfer = deadline.bound(self.request(Method::GET, deadline)).await?;
            Ok(stream::try_unfold(transfer, move |mut transfer| async move {
                let bytes = deadline.bound(transfer.next()).await?;
                Ok(bytes.map(|bytes| (bytes, transfer)))
            }))
        };
        Items(chunks.try_flatten_stream().boxed())
    }

    /// Returns the `ETag` without its quotes, from a `HEAD` request. For a stored file, it is the MD5 of the content in
    /// hexadecimal, as in S3, so a program can compare contents without a download.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the URL cannot be read; [`Error::DeadlineReached`].
    pub fn etag(self) -> BoxFuture<'static, Result<Option<String>>> {
        let work = async move {
            let deadline = Deadline::of_transfer(self.limits.deadline);
            let transfer = deadline.bound(self.request(Method::HEAD, deadline)).await?;
            transfer.core.retries.succeeded();
            let etag = transfer.response.headers().get(ETAG).and_then(|etag| etag.to_str().ok());
            Ok(etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned()))
        };
        work.boxed()
    }

    /// Downloads to the path, or into the folder `path` under a name with this stem.
    async fn save(
        self,
        path: PathBuf,
        stem: Option<String>,
        events: Sink<DownloadEvent>,
    ) -> Result<DownloadedFile> {
        let deadline = Deadline::of_transfer(self.limits.deadline);
        let overwrite = self.limits.overwrite;
        let label = path.display().to_string();
        let failed = |error| unwritable(&label, error);
        let work = async {
            let is_folder = stem.is_some();
            let target = path.clone();
            // Created before a request is sent, so that an unwritable destination fails first.
            let temporary = blocking(move || temporary_file(&target, is_folder, overwrite)).await;
            let (file, temporary) = temporary.map_err(failed)?;
            let mut file = tokio::fs::File::from_std(file);
            let mut transfer = self.request(Method::GET, deadline).await?;
            while let Some(bytes) = transfer.next().await? {
                file.write_all(&bytes).await.map_err(failed)?;
                events(DownloadEvent::Progress { received: transfer.received, total: transfer.total });
            }
            file.flush().await.map_err(failed)?;
            drop(file.into_std().await);
            let path = match stem {
                Some(stem) => path.join(transfer.file_name(&stem)),
                None => path.clone(),
            };
            let persisted = blocking(move || persist(temporary, path, is_folder, overwrite)).await;
            let path = persisted.map_err(failed)?;
            Ok(DownloadedFile { path, size: transfer.received, mime: transfer.mime })
        };
        deadline.bound(Box::pin(work)).await
    }

    async fn request(&self, method: Method, deadline: Deadline) -> Result<Transfer> {
        let url = files::web_url(self.url.trim()).ok_or_else(|| {
            Error::InvalidArgument("the download is not a URL with http or https".to_owned())
        })?;
        let mut attempts = self.core.retries.start("download", deadline);
        loop {
            let error = match self.attempt(&method, &url, attempts.count).await {
                Ok(transfer) => return Ok(transfer),
                Err(error) => error,
            };
            if error.kind != FileErrorKind::Transport || !attempts.backoff(error.retry_after, None).await {
                return Err(error.into());
            }
        }
    }

    async fn attempt(&self, method: &Method, url: &Url, number: u32) -> Result<Transfer, FileError> {
        let (core, host) = (&self.core, host(url));
        let attempt = Attempt { operation: "download", number };
        let response = follow(core, method.clone(), url, &*self.url_filter, attempt).await?;
        if !response.status().is_success() {
            let redactor = core.redactor.with_target(url, &[]).with_target(response.url(), &[]);
            let error = files::rejected(host, response, &redactor).await;
            let is_missing = error.kind == FileErrorKind::Rejected && error.status == Some(404);
            let kind = if is_missing { FileErrorKind::NotFound } else { error.kind };
            return Err(FileError { kind, ..error });
        }
        if response.status() == StatusCode::PARTIAL_CONTENT {
            let message = "the server sent a part of the content only";
            return Err(FileError::new(host, FileErrorKind::Rejected, message));
        }
        let by_name = mime_guess::from_path(url.path()).first_raw();
        if let Some(error) =
            files::web_page(host, &response).filter(|_| by_name.is_some_and(|mime| mime != HTML))
        {
            return Err(error);
        }
        if response.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            let message = "the server compressed the content, although that was not asked for";
            return Err(FileError::new(host, FileErrorKind::Rejected, message));
        }
        let mime = response.headers().get(CONTENT_TYPE).and_then(|mime| mime.to_str().ok());
        let transfer = Transfer {
            core: Arc::clone(core),
            url: url.clone(),
            max_size: self.limits.max_size,
            received: 0,
            total: response.content_length(),
            mime: mime.map(str::to_owned),
            response,
        };
        transfer.check_size(transfer.total.unwrap_or_default())?;
        Ok(transfer)
    }
}

/// Returns the name of a download in errors: the host is the part of the URL that grants no access.
fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

pub(super) async fn follow(
    core: &Core,
    method: Method,
    from: &Url,
    url_filter: &(dyn Fn(&Url) -> Result<(), String> + Send + Sync),
    Attempt { operation, number }: Attempt,
) -> Result<Response, FileError> {
    let rejected = |message: String| FileError::new(host(from), FileErrorKind::Rejected, message);
    let idle_timeout = core.timeouts.transfer.max(core.timeouts.read);
    let mut url = from.clone();
    for _ in 0..=MAX_REDIRECTS {
        url_filter(&url).map_err(rejected)?;
        // Compressed content would have another length.
        let request = core.storage.http.request(method.clone(), url.clone());
        let request = request.header(ACCEPT_ENCODING, "identity");
        let response = async { core.storage.send(request.build()?, operation, number).await };
        let response = files::within(host(from), idle_timeout, response).await?;
        if !response.status().is_redirection() {
            return Ok(response);
        }
        url = redirect(&url, response.headers()).map_err(|message| rejected(message.to_owned()))?;
    }
    Err(rejected(format!("there are more than {MAX_REDIRECTS} redirects")))
}

struct Transfer {
    core: Arc<Core>,
    url: Url,
    max_size: Option<u64>,
    response: Response,
    received: u64,
    total: Option<u64>,
    mime: Option<String>,
}

impl Transfer {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let idle_timeout = self.core.timeouts.transfer;
        let bytes = files::within(host(&self.url), idle_timeout, self.response.chunk()).await?;
        if let Some(bytes) = &bytes {
            self.received += bytes.len() as u64;
            self.check_size(self.received)?;
        } else {
            self.core.retries.succeeded();
        }
        Ok(bytes)
    }

    fn check_size(&self, size: u64) -> Result<(), FileError> {
        match self.max_size {
            Some(max) if size > max => {
                let message = format!("the content has more than {max} bytes");
                Err(FileError::new(host(&self.url), FileErrorKind::TooLarge, message))
            }
            _ => Ok(()),
        }
    }

    fn file_name(&self, stem: &str) -> String {
        let is_harmful = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':');
        // A leading dot would hide the file or lead out of the folder.
        let stem = stem.replace(is_harmful, "_").replacen('.', "_", usize::from(stem.starts_with('.')));
        let stem = if stem.is_empty() { "_".to_owned() } else { stem };
        let of_url = Path::new(self.url.path()).extension().and_then(|extension| extension.to_str());
        let of_url = of_url.filter(|text| text.len() <= 8 && text.bytes().all(|b| b.is_ascii_alphanumeric()));
        match self.mime.as_deref().and_then(extension).or(of_url) {
            Some(extension) => format!("{stem}.{extension}"),
            None => stem,
        }
    }
}

fn extension(mime: &str) -> Option<&str> {
    let essence = mime.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/octet-stream") {
        return None;
    }
    if let Some((_, usual)) = USUAL_EXTENSIONS.iter().find(|(mime, _)| essence.eq_ignore_ascii_case(mime)) {
        return Some(usual);
    }
    let known = mime_guess::get_mime_extensions_str(essence)?;
    let subtype = essence.split('/').next_back().unwrap_or_default();
    known.iter().find(|known| subtype.eq_ignore_ascii_case(known)).or(known.first()).copied()
}

fn redirect(from: &Url, headers: &HeaderMap) -> Result<Url, &'static str> {
    let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
    match location.and_then(|location| from.join(location).ok()) {
        Some(to) if to.scheme() == "https" => Ok(to),
        Some(to) if to.scheme() == "http" && from.scheme() == "http" => Ok(to),
        Some(to) if to.scheme() == "http" => Err("a redirect leads from https to unencrypted http"),
        _ => Err("a redirect leads to no URL with http or https"),
    }
}

/// Creates a temporary file beside the destination, for an atomic rename. Dropping it deletes the file.
fn temporary_file(path: &Path, is_folder: bool, overwrite: bool) -> io::Result<(std::fs::File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".inferstore-").suffix(".part");
    // Permissions of a normal new file; the default is private.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    if is_folder {
        std::fs::create_dir_all(path)?;
        return Ok(builder.tempfile_in(path)?.into_parts());
    }
    check_destination(path, overwrite)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok(builder.tempfile_in(folder.unwrap_or(Path::new(".")))?.into_parts())
}

fn check_destination(path: &Path, overwrite: bool) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")),
        Ok(_) if !overwrite => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn persist(temporary: TempPath, path: PathBuf, is_folder: bool, overwrite: bool) -> io::Result<PathBuf> {
    if overwrite {
        check_destination(&path, overwrite)?;
        // A replaced file keeps its mode.
        if let Ok(replaced) = std::fs::metadata(&path) {
            std::fs::set_permissions(&temporary, replaced.permissions())?;
        }
        temporary.persist(&path)?;
        return Ok(path);
    }
    let mut destination = path.clone();
    let mut number = 1;
    while let Err(error) = rename_new(&temporary, &destination) {
        if !is_folder || error.kind() != io::ErrorKind::AlreadyExists {
            return Err(error);
        }
        number += 1;
        destination = numbered(&path, number);
    }
    Ok(destination)
}

/// Returns the path with a number behind the stem of its name.
pub fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().display();
    let extension = path.extension().map(|extension| format!(".{}", extension.display()));
    path.with_file_name(format!("{stem}-{number}{}", extension.unwrap_or_default()))
}

/// Renames a file to a path where there is none. On a file system without hard links, an empty file takes the path
/// before. After a failure, the file is where it was.
///
/// # Errors
/// The path is taken or cannot be written.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    let Err(failed) = TempPath::try_from_path(from)?.persist_noclobber(to) else { return Ok(()) };
    failed.path.keep().map_err(|kept| kept.error)?;
    let has_no_links = matches!(failed.error.kind(), InvalidInput | PermissionDenied | Unsupported);
    if !has_no_links || OpenOptions::new().write(true).create_new(true).open(to).is_err() {
        return Err(failed.error);
    }
    std::fs::rename(from, to).inspect_err(|_| {
        // The error of the rename says more than one of the removal.
        let _ = std::fs::remove_file(to);
    })
}

fn unwritable(file: &str, error: io::Error) -> FileError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return FileError::new(file, FileErrorKind::AlreadyExists, "it exists already");
    }
    FileError::new(file, FileErrorKind::Unwritable, "it cannot be written").with_source(error)
}

#[cfg(test)]
mod tests;
