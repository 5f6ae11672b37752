//! Downloads: a URL to a file, to memory, to a writer or as a stream, resumed after a lost connection.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, Stream, StreamExt, TryStreamExt};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_RANGE, LOCATION, RANGE,
};
use reqwest::{Response, StatusCode, Url};
use serde::{Deserialize, Serialize};
use tempfile::TempPath;
use tokio::io::{AsyncSeekExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::client::Client;
use crate::files::source::blocking;
use crate::files::store;
use crate::transport::core::Core;
use crate::transport::deadline::Deadline;
use crate::transport::error::{Error, Result};
use crate::transport::events::{Events, Sink};
use crate::transport::file_error::{FileError, FileErrorKind};

const MAX_REDIRECTS: u32 = 5;

/// How often a download starts again from the beginning, where it cannot be resumed.
const MAX_RESTARTS: u32 = 2;

/// The limit of [`Download::bytes`], unless another one is set: 256 MiB.
const MAX_IN_MEMORY: u64 = 256 * 1024 * 1024;

/// Extensions where the first one that `mime_guess` knows is not the usual one.
const USUAL_EXTENSIONS: [(&str, &str); 8] = [
    ("audio/mpeg", "mp3"),
    ("image/jpeg", "jpg"),
    ("image/svg+xml", "svg"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
    ("video/quicktime", "mov"),
    ("video/x-matroska", "mkv"),
];

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
/// with a strong `ETag`; else a file is downloaded again, and a writer or a stream ends with an error.
#[derive(Clone, Debug)]
#[must_use = "a download starts when one of its `to_…` methods, `bytes` or `stream` is used"]
pub struct Download {
    core: Arc<Core>,
    url: String,
    deadline: Option<Duration>,
    max_size: Option<u64>,
    overwrite: bool,
}

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
    #[non_exhaustive]
    Progress {
        /// How many bytes. It restarts with the download when the content changed meanwhile.
        received: u64,
        /// Of how many, if the server sent it.
        total: Option<u64>,
    },
}

/// A download to a file as a stream of its events.
pub type DownloadEvents = Events<DownloadEvent, DownloadedFile>;

impl Client {
    /// Downloads a URL, such as an output of a model. See [`Download`] for where to.
    pub fn download(&self, url: impl Into<String>) -> Download {
        Download::new(Arc::clone(&self.core), url)
    }
}

impl Download {
    pub(crate) fn new(core: Arc<Core>, url: impl Into<String>) -> Self {
        Self { core, url: url.into(), deadline: None, max_size: None, overwrite: false }
    }

    /// Limits the whole download, all attempts and the delays between them included.
    pub fn deadline(self, deadline: impl Into<Option<Duration>>) -> Self {
        Self { deadline: deadline.into(), ..self }
    }

    /// Fails when the content has more bytes, as soon as that is known.
    pub fn max_size(self, max_size: impl Into<Option<u64>>) -> Self {
        Self { max_size: max_size.into(), ..self }
    }

    /// Replaces an existing regular file. Anything else is never replaced.
    pub fn overwrite(self, overwrite: bool) -> Self {
        Self { overwrite, ..self }
    }

    /// Downloads to this path. The file appears when it is complete.
    ///
    /// # Errors
    ///
    /// [`Error::File`] when the URL cannot be read or the file cannot be written, and
    /// [`Error::DeadlineReached`].
    pub fn to_file(self, path: impl Into<PathBuf>) -> DownloadToFile {
        DownloadToFile { download: self, path: path.into(), stem: None }
    }

    /// Downloads into a folder, under this name with the extension of the MIME type, such as `.png`. A
    /// name that exists gets a number, unless [`overwrite`](Self::overwrite) is set. Characters that
    /// could lead out of the folder become `_`.
    ///
    /// # Errors
    ///
    /// As [`to_file`](Self::to_file).
    pub fn to_dir(self, folder: impl Into<PathBuf>, stem: impl Into<String>) -> DownloadToFile {
        DownloadToFile { download: self, path: folder.into(), stem: Some(stem.into()) }
    }

    /// Downloads into memory: at most 256 MiB, unless [`max_size`](Self::max_size) sets another limit.
    ///
    /// # Errors
    ///
    /// As [`to_file`](Self::to_file).
    pub fn bytes(self) -> impl Future<Output = Result<Bytes>> + Send + use<> {
        let deadline = Deadline::after(self.deadline);
        let max_size = self.max_size.unwrap_or(MAX_IN_MEMORY);
        let work = async move {
            let mut transfer = self.max_size(max_size).transfer(deadline, MAX_RESTARTS)?;
            let mut content = Vec::new();
            while let Some(chunk) = transfer.next().await? {
                content.truncate(chunk.offset as usize);
                content.extend_from_slice(&chunk.bytes);
            }
            content.truncate(transfer.received as usize);
            Ok(content.into())
        };
        Box::pin(deadline.bound(work))
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
        let deadline = Deadline::after(self.deadline);
        let work = async move {
            let mut transfer = self.transfer(deadline, 0)?;
            let failed = |error| unwritable("the writer of a download", error);
            while let Some(chunk) = transfer.next().await? {
                writer.write_all(&chunk.bytes).await.map_err(failed)?;
            }
            writer.flush().await.map_err(failed)?;
            Ok(transfer.received)
        };
        Box::pin(deadline.bound(work))
    }

    /// Downloads as a stream of bytes, which ends with an error if the content is incomplete.
    pub fn stream(self) -> DownloadStream {
        let deadline = Deadline::after(self.deadline);
        let chunks = stream::once(async move { self.transfer(deadline, 0) })
            .map_ok(move |transfer| {
                stream::try_unfold(transfer, move |mut transfer| async move {
                    let chunk = deadline.bound(transfer.next()).await?;
                    Ok(chunk.map(|chunk| (chunk.bytes, transfer)))
                })
            })
            .try_flatten();
        DownloadStream(chunks.boxed())
    }

    fn transfer(self, deadline: Deadline, restarts_left: u32) -> Result<Transfer> {
        let url = Url::parse(self.url.trim()).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or_else(|| {
            Error::InvalidArgument("the download is not a URL with http or https".to_owned())
        })?;
        let host = url.host_str().unwrap_or_default().to_owned();
        Ok(Transfer {
            core: self.core,
            url,
            host,
            deadline,
            max_size: self.max_size,
            restarts_left,
            response: None,
            received: 0,
            total: None,
            mime: None,
            etag: None,
        })
    }
}

/// A download to a file: awaited for the file, or streamed with [`events`](Self::events).
#[derive(Clone, Debug)]
#[must_use = "a download starts when it is awaited or its events are read"]
pub struct DownloadToFile {
    download: Download,
    path: PathBuf,
    /// The name in the folder `path`, without an extension.
    stem: Option<String>,
}

impl DownloadToFile {
    /// Starts the download as a stream of events.
    pub fn events(self) -> DownloadEvents {
        Events::new(|sink| self.run(sink))
    }

    async fn run(self, events: Sink<DownloadEvent>) -> Result<DownloadedFile> {
        let deadline = Deadline::after(self.download.deadline);
        deadline.bound(Box::pin(self.write(deadline, events))).await
    }

    async fn write(self, deadline: Deadline, events: Sink<DownloadEvent>) -> Result<DownloadedFile> {
        let overwrite = self.download.overwrite;
        let may_number = self.stem.is_some() && !overwrite;
        if self.stem.is_none() {
            // Before anything is sent.
            check_destination(&self.path, overwrite).await?;
        }
        let mut transfer = self.download.transfer(deadline, MAX_RESTARTS)?;
        let mut next = transfer.next().await?;
        let path = match self.stem {
            Some(stem) => self.path.join(transfer.file_name(&stem)),
            None => self.path,
        };
        let label = path.display().to_string();
        let failed = |error| unwritable(&label, error);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let (file, temporary) = blocking(move || temporary_file(&folder)).await.map_err(failed)?;
        let mut file = tokio::fs::File::from_std(file);
        while let Some(Chunk { offset, bytes }) = next {
            if offset == 0 {
                file.rewind().await.map_err(failed)?;
            }
            file.write_all(&bytes).await.map_err(failed)?;
            events.send(DownloadEvent::Progress { received: transfer.received, total: transfer.total });
            next = transfer.next().await?;
        }
        // Cuts off what a restarted download has written before.
        file.set_len(transfer.received).await.map_err(failed)?;
        file.flush().await.map_err(failed)?;
        drop(file.into_std().await);
        if overwrite {
            check_destination(&path, overwrite).await?;
        }
        let persisted = blocking(move || persist(temporary, path, overwrite, may_number)).await;
        let path = persisted.map_err(failed)?;
        Ok(DownloadedFile { path, size: transfer.received, mime: transfer.mime })
    }
}

impl IntoFuture for DownloadToFile {
    type Output = Result<DownloadedFile>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run(Sink::none()))
    }
}

/// The content of a download as it arrives. The last item is an error if the content is incomplete.
#[must_use = "a download starts when its stream is read"]
pub struct DownloadStream(BoxStream<'static, Result<Bytes>>);

impl DownloadStream {
    /// The next bytes, or `None` at the end of the content.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        self.0.next().await
    }
}

impl Stream for DownloadStream {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl fmt::Debug for DownloadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DownloadStream").finish_non_exhaustive()
    }
}

/// Reads a URL chunk by chunk, over as many requests as it takes.
struct Transfer {
    core: Arc<Core>,
    url: Url,
    /// The name of the download in errors: the part of the URL that grants no access.
    host: String,
    deadline: Deadline,
    max_size: Option<u64>,
    restarts_left: u32,
    response: Option<Response>,
    received: u64,
    total: Option<u64>,
    mime: Option<String>,
    /// A strong tag, which a range can be requested of.
    etag: Option<HeaderValue>,
}

struct Chunk {
    /// Where the bytes belong. It is 0 again after a restart.
    offset: u64,
    bytes: Bytes,
}

impl Transfer {
    /// The next chunk, or `None` at the end of the content.
    async fn next(&mut self) -> Result<Option<Chunk>> {
        let core = Arc::clone(&self.core);
        let mut attempts = core.retries.start("download", self.deadline);
        loop {
            let error = match self.attempt().await {
                Ok(None) => {
                    core.retries.succeeded();
                    return Ok(None);
                }
                Ok(chunk) => return Ok(chunk),
                Err(error) => error,
            };
            self.response = None;
            let may_retry = error.kind == FileErrorKind::Transport
                && (self.etag.is_some() || self.restart().is_ok())
                && attempts.backoff(error.retry_after).await;
            if !may_retry {
                return Err(error.into());
            }
        }
    }

    async fn attempt(&mut self) -> Result<Option<Chunk>, FileError> {
        let mut response = match self.response.take() {
            Some(response) => response,
            None => self.request().await?,
        };
        let Some(bytes) = self.within(self.core.timeouts.transfer, response.chunk()).await? else {
            return match self.total {
                Some(total) if total != self.received => {
                    let message = format!("the content ended after {} of {total} bytes", self.received);
                    Err(self.error(FileErrorKind::Transport, message))
                }
                _ => Ok(None),
            };
        };
        let offset = self.received;
        self.check_size(offset + bytes.len() as u64)?;
        self.received += bytes.len() as u64;
        self.response = Some(response);
        Ok(Some(Chunk { offset, bytes }))
    }

    /// Requests the content, or the rest of it.
    async fn request(&mut self) -> Result<Response, FileError> {
        let response = self.follow_redirects().await?;
        let headers = response.headers();
        let is_rest = self.received > 0;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if is_rest && self.is_continued_by(headers) => return Ok(response),
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if is_rest => {
                self.restart()?;
                return Err(self.error(FileErrorKind::Transport, "the rest of the content does not fit"));
            }
            StatusCode::PARTIAL_CONTENT => {
                return Err(self.error(FileErrorKind::Rejected, "the server sent a part of the content only"));
            }
            status if status.is_success() => {}
            _ => {
                let redactor = self.core.redactor.with_target(response.url(), &[]);
                return Err(store::rejected(&self.host, response, &redactor).await);
            }
        }
        self.restart()?;
        self.total = response.content_length();
        self.etag = strong_etag(headers).cloned();
        self.mime = headers.get(CONTENT_TYPE).and_then(|mime| mime.to_str().ok()).map(str::to_owned);
        self.check_size(self.total.unwrap_or_default())?;
        Ok(response)
    }

    async fn follow_redirects(&self) -> Result<Response, FileError> {
        let storage = &self.core.storage;
        let response_timeout = self.core.timeouts.transfer.max(self.core.timeouts.read);
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            // A compressed content would have another length.
            let mut request = storage.http().get(url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(etag) = self.etag.as_ref().filter(|_| self.received > 0) {
                request = request.header(RANGE, format!("bytes={}-", self.received)).header(IF_RANGE, etag);
            }
            let request = request.build().map_err(|error| store::transport(&self.host, error))?;
            let response = self.within(response_timeout, storage.execute(request)).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            url = redirect(&url, response.headers())
                .map_err(|message| self.error(FileErrorKind::Rejected, message))?;
        }
        let message = format!("there are more than {MAX_REDIRECTS} redirects");
        Err(self.error(FileErrorKind::Rejected, message))
    }

    /// Starts again from the beginning.
    fn restart(&mut self) -> Result<(), FileError> {
        if self.received > 0 {
            let message = "the content changed, and the download cannot start again";
            let left = self.restarts_left.checked_sub(1);
            self.restarts_left = left.ok_or_else(|| self.error(FileErrorKind::Changed, message))?;
            self.received = 0;
        }
        self.etag = None;
        Ok(())
    }

    /// Whether a range starts where the last one ended, in the same version of the content.
    fn is_continued_by(&self, headers: &HeaderMap) -> bool {
        let range = headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let parts = range.and_then(|range| range.strip_prefix("bytes ")?.split_once('/'));
        let Some((range, total)) = parts else { return false };
        let start = range.split('-').next().and_then(|start| start.trim().parse().ok());
        let total: Option<u64> = total.trim().parse().ok();
        // Some servers ignore `If-Range`.
        let is_same_version = headers.get(ETAG).is_none_or(|etag| Some(etag) == self.etag.as_ref());
        is_same_version
            && start == Some(self.received)
            && (self.total.is_none() || total.is_none() || total == self.total)
    }

    fn check_size(&self, size: u64) -> Result<(), FileError> {
        match self.max_size {
            Some(max_size) if size > max_size => {
                let message = format!("the content has more than {max_size} bytes");
                Err(self.error(FileErrorKind::TooLarge, message))
            }
            _ => Ok(()),
        }
    }

    async fn within<T>(
        &self,
        idle: Duration,
        work: impl Future<Output = reqwest::Result<T>>,
    ) -> Result<T, FileError> {
        match timeout(idle, work).await {
            Ok(done) => done.map_err(|error| store::transport(&self.host, error)),
            Err(_) => Err(store::idle(&self.host, idle)),
        }
    }

    fn error(&self, kind: FileErrorKind, message: impl Into<String>) -> FileError {
        FileError::new(&self.host, kind, message)
    }

    /// The name with the extension of the MIME type, else of the URL.
    fn file_name(&self, stem: &str) -> String {
        let is_harmful = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':');
        let stem = stem.replace(is_harmful, "_");
        // A name of dots alone leads out of the folder, and one that starts with a dot is hidden.
        let stem = if stem.is_empty() || stem.starts_with('.') { format!("_{stem}") } else { stem };
        let by_mime = self.mime.as_deref().and_then(extension);
        let by_url = || {
            let extension = Path::new(self.url.path()).extension()?.to_str()?;
            let is_plain = extension.len() <= 8 && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
            is_plain.then_some(extension)
        };
        match by_mime.or_else(by_url) {
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

/// A tag that stands for the same bytes, and not only for equivalent ones.
fn strong_etag(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(ETAG).filter(|etag| !etag.as_bytes().starts_with(b"W/"))
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

/// Fails if something is there that must not be replaced.
async fn check_destination(path: &Path, overwrite: bool) -> Result<(), FileError> {
    let label = || path.display().to_string();
    match tokio::fs::symlink_metadata(path).await {
        Ok(metadata) if !metadata.is_file() => {
            let message = "it exists and is not a regular file";
            Err(FileError::new(label(), FileErrorKind::AlreadyExists, message))
        }
        Ok(_) if !overwrite => Err(unwritable(&label(), io::ErrorKind::AlreadyExists.into())),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unwritable(&label(), error)),
        _ => Ok(()),
    }
}

/// A file beside the destination, which the result replaces in one step. It is deleted when dropped.
fn temporary_file(folder: &Path) -> io::Result<(std::fs::File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".inferstore-").suffix(".part");
    // As any new file; the default is private.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    Ok(builder.tempfile_in(folder)?.into_parts())
}

/// Moves the file to its destination. If that exists, the name may get a number.
fn persist(mut temporary: TempPath, path: PathBuf, overwrite: bool, may_number: bool) -> io::Result<PathBuf> {
    if overwrite {
        temporary.persist(&path).map_err(|error| error.error)?;
        return Ok(path);
    }
    let mut destination = path.clone();
    let mut number = 1;
    while let Err(error) = temporary.persist_noclobber(&destination) {
        if !may_number || error.error.kind() != io::ErrorKind::AlreadyExists {
            return Err(error.error);
        }
        temporary = error.path;
        number += 1;
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{number}"));
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        destination.set_file_name(name);
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
