//! Downloads: a URL to a file, to memory, to a writer or as a stream, resumed after a lost connection.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use inferstore_api::Transport;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_RANGE, LOCATION, RANGE,
};
use reqwest::{Response, StatusCode, Url};
use serde::{Deserialize, Serialize};
use tempfile::TempPath;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::files;
use crate::files::source::blocking;
use crate::transport::Core;
use crate::transport::causes::{FileError, FileErrorKind};
use crate::transport::deadline::Deadline;
use crate::transport::error::{Error, Result};
use crate::transport::events::{Events, Items, Sink, ignored};

const MAX_REDIRECTS: u32 = 5;

/// The limit of [`Download::bytes`], unless another one is set: 256 MiB.
const MAX_IN_MEMORY: u64 = 256 * 1024 * 1024;

/// Extensions where the first one that `mime_guess` knows is not the usual one.
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
/// The API key is not sent. A lost connection is resumed if the server names the version of the content
/// with a strong `ETag`; else the download fails.
#[derive(Clone)]
#[must_use = "a download starts when one of its `to_…` methods, `bytes` or `stream` is used"]
pub struct Download {
    core: Arc<Core>,
    url: String,
    deadline: Option<Duration>,
    max_size: Option<u64>,
    overwrite: bool,
    url_filter: UrlFilter,
}

/// Why a URL is not requested.
type UrlFilter = fn(&Url) -> Result<(), &'static str>;

/// A downloaded file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DownloadedFile {
    /// Where it was written.
    pub path: PathBuf,
    /// The size in bytes.
    pub size: u64,
    /// The MIME type, if the server sent one.
    pub mime: Option<String>,
}

/// What happens during a download to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DownloadEvent {
    /// Bytes were received.
    Progress {
        /// How many bytes.
        received: u64,
        /// Of how many, if the server sent it.
        total: Option<u64>,
    },
}

/// The content of a download as it arrives. The last item is an error if the content is incomplete.
pub type DownloadStream = Items<Bytes>;

/// A download to a file: awaited for the file, or read as a stream of events.
pub type DownloadEvents = Events<DownloadEvent, DownloadedFile>;

/// Without the URL, which may grant access.
impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download").field("overwrite", &self.overwrite).finish_non_exhaustive()
    }
}

impl Download {
    pub(crate) fn new(core: Arc<Core>, url: impl Into<String>) -> Self {
        let url_filter: UrlFilter = |_| Ok(());
        Self { core, url: url.into(), deadline: None, max_size: None, overwrite: false, url_filter }
    }

    /// Limits the whole download, all attempts and the delays between them included. Default: none.
    pub fn deadline(self, deadline: impl Into<Option<Duration>>) -> Self {
        Self { deadline: deadline.into(), ..self }
    }

    /// Fails when the content has more bytes, as soon as that is known. Default: none, but for [`bytes`](Self::bytes).
    pub fn max_size(self, max_size: impl Into<Option<u64>>) -> Self {
        Self { max_size: max_size.into(), ..self }
    }

    /// Replaces an existing regular file. Anything else is never replaced. Default: `false`.
    pub fn overwrite(self, overwrite: bool) -> Self {
        Self { overwrite, ..self }
    }

    /// Fails with the reason that the filter returns for the URL or for a redirect, before it is requested. A
    /// foreign URL may lead into the local network. Default: every URL is requested.
    pub fn url_filter(self, url_filter: fn(&Url) -> Result<(), &'static str>) -> Self {
        Self { url_filter, ..self }
    }

    /// Downloads to this path. The file appears when it is complete. Await the result, or read its events.
    ///
    /// # Errors
    ///
    /// [`Error::File`] when the URL cannot be read or the file cannot be written, and
    /// [`Error::DeadlineReached`].
    pub fn to_file(self, path: impl Into<PathBuf>) -> DownloadEvents {
        self.saved(path.into(), None)
    }

    /// Downloads into a folder, under this name with the extension of the MIME type, such as `.png`. A
    /// name that exists gets a number, unless [`overwrite`](Self::overwrite) is set. Characters that
    /// could lead out of the folder become `_`. The folder is created if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`to_file`](Self::to_file).
    pub fn to_dir(self, folder: impl Into<PathBuf>, stem: impl Into<String>) -> DownloadEvents {
        self.saved(folder.into(), Some(stem.into()))
    }

    /// Not generic, so that this crate compiles it once.
    fn saved(self, path: PathBuf, stem: Option<String>) -> DownloadEvents {
        Events::new(|events| self.save(path, stem, events).boxed())
    }

    /// Downloads into memory: at most 256 MiB, unless [`max_size`](Self::max_size) sets another limit.
    ///
    /// # Errors
    ///
    /// As [`to_file`](Self::to_file).
    pub fn bytes(self) -> BoxFuture<'static, Result<Bytes>> {
        let max_size = self.max_size.unwrap_or(MAX_IN_MEMORY);
        let download = self.max_size(max_size);
        async move {
            let mut content = Vec::new();
            download.to_writer(&mut content).await?;
            Ok(content.into())
        }
        .boxed()
    }

    /// Downloads into a writer, and returns the number of bytes. After an error a part of the content is
    /// written.
    ///
    /// # Errors
    ///
    /// As [`to_file`](Self::to_file).
    pub fn to_writer<W>(self, mut writer: W) -> impl Future<Output = Result<u64>> + Send + use<W>
    where
        W: AsyncWrite + Send + Unpin,
    {
        Box::pin(async move {
            let mut transfer = self.transfer(ignored())?;
            transfer.deadline.bound(transfer.copy_to(&mut writer, "the writer of a download")).await?;
            Ok(transfer.received)
        })
    }

    /// Downloads as a stream of bytes, which ends with an error if the content is incomplete.
    pub fn stream(self) -> DownloadStream {
        let chunks = stream::try_unfold(Err(self), |transfer: Result<Transfer, Self>| async {
            let mut transfer = transfer.or_else(|download| download.transfer(ignored()))?;
            let bytes = transfer.deadline.bound(transfer.next()).await?;
            Ok(bytes.map(|bytes| (bytes, Ok(transfer))))
        });
        Items(chunks.boxed())
    }

    /// Downloads to the path, or into the folder `path` under a name with this stem.
    async fn save(
        self,
        path: PathBuf,
        stem: Option<String>,
        events: Sink<DownloadEvent>,
    ) -> Result<DownloadedFile> {
        let overwrite = self.overwrite;
        let mut transfer = self.transfer(events)?;
        let deadline = transfer.deadline;
        let label = path.display().to_string();
        let failed = |error| unwritable(&label, error);
        let work = async {
            let is_folder = stem.is_some();
            let target = path.clone();
            // Before anything is sent.
            let temporary = blocking(move || temporary_file(&target, is_folder, overwrite)).await;
            let (file, temporary) = temporary.map_err(failed)?;
            let mut file = tokio::fs::File::from_std(file);
            transfer.copy_to(&mut file, &label).await?;
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

    /// The transfer, whose time begins now.
    fn transfer(self, events: Sink<DownloadEvent>) -> Result<Transfer> {
        let deadline = Deadline::of_transfer(self.deadline);
        let url = files::web_url(self.url.trim()).ok_or_else(|| {
            Error::InvalidArgument("the download is not a URL with http or https".to_owned())
        })?;
        let host = url.host_str().unwrap_or_default().to_owned();
        Ok(Transfer {
            download: self,
            url,
            host,
            deadline,
            events,
            response: None,
            received: 0,
            total: None,
            mime: None,
            etag: None,
        })
    }
}

/// Reads a URL chunk by chunk, over as many requests as it takes.
struct Transfer {
    download: Download,
    url: Url,
    /// The name of the download in errors: the part of the URL that grants no access.
    host: String,
    deadline: Deadline,
    events: Sink<DownloadEvent>,
    response: Option<Response>,
    received: u64,
    total: Option<u64>,
    mime: Option<String>,
    /// A strong tag, which a range can be requested of.
    etag: Option<HeaderValue>,
}

impl Transfer {
    /// Not generic and boxed, so that this crate compiles it once.
    fn copy_to<'a>(
        &'a mut self,
        writer: &'a mut (dyn AsyncWrite + Send + Unpin),
        label: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        let copy = async move {
            while let Some(bytes) = self.next().await? {
                writer.write_all(&bytes).await.map_err(|error| unwritable(label, error))?;
            }
            writer.flush().await.map_err(|error| unwritable(label, error))?;
            Ok(())
        };
        copy.boxed()
    }

    /// The next bytes, or `None` at the end of the content.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let core = Arc::clone(&self.download.core);
        let mut attempts = core.retries.start("download", self.deadline);
        loop {
            let error = match self.attempt().await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            self.response = None;
            let can_resume = self.received == 0 || self.etag.is_some();
            let may_retry = error.kind == FileErrorKind::Transport && can_resume;
            if !may_retry || !attempts.backoff(error.retry_after).await {
                return Err(error.into());
            }
        }
    }

    async fn attempt(&mut self) -> Result<Option<Bytes>, FileError> {
        let mut response = match self.response.take() {
            Some(response) => response,
            None => self.request().await?,
        };
        let idle_timeout = self.download.core.timeouts.transfer;
        let bytes = files::within(&self.host, idle_timeout, response.chunk()).await?;
        let Some(bytes) = bytes else {
            if self.total.is_some_and(|total| total != self.received) {
                return Err(self.error(FileErrorKind::Transport, "the content is incomplete"));
            }
            self.download.core.retries.succeeded();
            return Ok(None);
        };
        let received = self.received + bytes.len() as u64;
        self.check_size(received)?;
        self.received = received;
        (self.events)(DownloadEvent::Progress { received, total: self.total });
        self.response = Some(response);
        Ok(Some(bytes))
    }

    /// Requests the content, or the rest of it.
    async fn request(&mut self) -> Result<Response, FileError> {
        let response = self.follow_redirects().await?;
        let status = response.status();
        let headers = response.headers();
        if self.received > 0 && (status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE) {
            if status == StatusCode::PARTIAL_CONTENT && self.is_continued_by(headers) {
                return Ok(response);
            }
            // Nothing was missing but the last chunk, which is empty.
            let end = format!("bytes */{}", self.received);
            if self.total.is_none() && headers.get(CONTENT_RANGE).is_some_and(|range| *range == *end) {
                return Ok(Response::from(http::Response::new("")));
            }
            return Err(self.error(FileErrorKind::Changed, "the content changed, or cannot be resumed"));
        }
        if !status.is_success() {
            let redactor =
                self.download.core.redactor.with_target(&self.url, &[]).with_target(response.url(), &[]);
            return Err(files::rejected(&self.host, response, &redactor).await);
        }
        if status == StatusCode::PARTIAL_CONTENT {
            return Err(self.error(FileErrorKind::Rejected, "the server sent a part of the content only"));
        }
        self.total = response.content_length();
        self.check_size(self.total.unwrap_or_default())?;
        // A weak tag stands for equivalent bytes, and not for the same ones.
        self.etag = headers.get(ETAG).filter(|etag| !etag.as_bytes().starts_with(b"W/")).cloned();
        self.mime = headers.get(CONTENT_TYPE).and_then(|mime| mime.to_str().ok()).map(str::to_owned);
        Ok(response)
    }

    async fn follow_redirects(&self) -> Result<Response, FileError> {
        let storage = &self.download.core.storage;
        let response_timeout = self.download.core.timeouts.transfer.max(self.download.core.timeouts.read);
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            (self.download.url_filter)(&url).map_err(|reason| self.error(FileErrorKind::Rejected, reason))?;
            // A compressed content would have another length.
            let mut request = storage.http.get(url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(etag) = self.etag.as_ref().filter(|_| self.received > 0) {
                request = request.header(RANGE, format!("bytes={}-", self.received)).header(IF_RANGE, etag);
            }
            let response = async { storage.execute(request.build()?).await };
            let response = files::within(&self.host, response_timeout, response).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let target = redirect(&url, response.headers());
            url = target.map_err(|message| self.error(FileErrorKind::Rejected, message))?;
        }
        Err(self.error(FileErrorKind::Rejected, format!("there are more than {MAX_REDIRECTS} redirects")))
    }

    /// Whether a range starts where the last one ended, in the same version of the content.
    fn is_continued_by(&self, headers: &HeaderMap) -> bool {
        let range = headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default();
        let start = format!("bytes {}-", self.received);
        let has_same_total = self.total.is_none_or(|total| range.ends_with(&format!("/{total}")));
        // Some servers ignore `If-Range`.
        let has_same_tag = headers.get(ETAG).is_none_or(|etag| Some(etag) == self.etag.as_ref());
        range.starts_with(&start) && (has_same_total || range.ends_with("/*")) && has_same_tag
    }

    fn check_size(&self, size: u64) -> Result<(), FileError> {
        match self.download.max_size {
            Some(max) if size > max => {
                Err(self.error(FileErrorKind::TooLarge, format!("the content has more than {max} bytes")))
            }
            _ => Ok(()),
        }
    }

    fn error(&self, kind: FileErrorKind, message: impl Into<String>) -> FileError {
        FileError::new(&self.host, kind, message)
    }

    /// The name with the extension of the MIME type, else of the URL.
    fn file_name(&self, stem: &str) -> String {
        let is_harmful = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':');
        // A dot in front would hide the file, or lead out of the folder.
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

/// The usual extension of a MIME type.
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

/// A file beside the destination, which the result replaces in one step. It is deleted when dropped.
fn temporary_file(path: &Path, is_folder: bool, overwrite: bool) -> io::Result<(std::fs::File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".inferstore-").suffix(".part");
    // As any new file; the default is private.
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

/// Fails if something is there that must not be replaced.
fn check_destination(path: &Path, overwrite: bool) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")),
        Ok(_) if !overwrite => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Moves the file to its destination. In a folder, a name that exists gets a number.
fn persist(mut temporary: TempPath, path: PathBuf, is_folder: bool, overwrite: bool) -> io::Result<PathBuf> {
    if overwrite {
        check_destination(&path, overwrite)?;
        // A file that is replaced keeps its mode.
        if let Ok(replaced) = std::fs::metadata(&path) {
            std::fs::set_permissions(&temporary, replaced.permissions())?;
        }
        temporary.persist(&path)?;
        return Ok(path);
    }
    let mut destination = path.clone();
    let mut number = 1;
    while let Err(error) = temporary.persist_noclobber(&destination) {
        if !is_folder || error.error.kind() != io::ErrorKind::AlreadyExists {
            return Err(error.error);
        }
        temporary = error.path;
        number += 1;
        let stem = path.file_stem().unwrap_or_default().display();
        let extension = path.extension().map(|extension| format!(".{}", extension.display()));
        destination.set_file_name(format!("{stem}-{number}{}", extension.unwrap_or_default()));
    }
    Ok(destination)
}

fn unwritable(file: &str, error: io::Error) -> FileError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return FileError::new(file, FileErrorKind::AlreadyExists, "it exists already");
    }
    FileError::new(file, FileErrorKind::Unwritable, "it cannot be written").with_source(error)
}

#[cfg(test)]
mod tests;
