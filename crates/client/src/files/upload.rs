//! Uploads: a presigned target from the service, then the content directly to object storage.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, Either, FutureExt, select};
use futures_util::stream::{self, Stream, TryStreamExt};
use inferstore_api::operations::CREATE_PRESIGNED_UPLOAD;
use inferstore_api::types::{PresignRequest, UploadFolder};
use parking_lot::Mutex;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Method, Request, Response};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{Instrument, debug_span};

use crate::files::download::follow;
use crate::files::source::{CHUNK, Digest, File, Prepared, unreadable};
use crate::files::target::{Target, UploadMethod, form};
use crate::files::{self, HTML};
use crate::transport::middleware::Attempt;
use crate::transport::{
    Core, Deadline, Error, Events, FileError, FileErrorKind, Result, Sink, Timeouts, awaited,
};

/// Maximum number of new targets after a rejected one.
const MAX_FRESH_TARGETS: u32 = 2;

/// Maximum content of the socket buffers of this machine, in bytes.
const MAX_BUFFERED: u64 = 8 * 1024 * 1024;

/// Slowest throughput that the response timeout allows, in bytes per second.
const MIN_THROUGHPUT: u64 = 32 * 1024;

/// An upload into a folder: awaited for the stored file, or streamed with [`events`](Self::events).
///
/// ```no_run
/// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
/// use std::time::Duration;
/// use inferstore::{File, UploadEvent};
///
/// let uploaded = client.folder("samples").upload(File::path("photo.jpg")).deadline(Duration::from_secs(60)).await?;
/// println!("{}", uploaded.download_url);
///
/// let mut events = client.folder("samples").upload(File::path("video.mp4")).events();
/// while let Some(event) = events.next().await {
///     if let UploadEvent::Progress { sent, size, .. } = event {
///         println!("{sent} of {size} bytes");
///     }
/// }
/// println!("{}", events.finish().await?.download_url);
/// # Ok(())
/// # }
/// ```
///
/// The file stays in the storage, and is billed, until it is [deleted](crate::Client::delete_file). Dropping
/// an upload stops it; a file whose last bytes were already sent may be stored all the same.
#[derive(Clone, Debug)]
#[must_use = "an upload starts when it is awaited or its events are read"]
pub struct Upload {
    core: Arc<Core>,
    folder: String,
    file: File,
    org_username: Option<String>,
    deadline: Option<Duration>,
    overwrite: bool,
}

/// Upload as a stream of its events.
pub type UploadEvents = Events<UploadEvent, UploadedFile>;

/// Stored file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct UploadedFile {
    /// Permanent URL, which can be used as an input.
    pub download_url: String,
    /// Stored name.
    pub name: String,
    /// MIME type.
    pub mime: String,
    /// Size in bytes.
    pub size: u64,
}

/// Event of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadEvent {
    /// The file has a target, and the upload starts. A file that is stored already has no such event.
    Started {
        /// Size in bytes.
        size: u64,
    },
    /// Progress in bytes. The number never decreases, even during a retry, and ends at the size.
    Progress {
        /// Number of bytes sent.
        sent: u64,
        /// Size in bytes.
        size: u64,
    },
    /// An attempt failed, and a retry follows.
    Retrying {
        /// Failure of the attempt.
        problem: String,
    },
}

impl Upload {
    pub(crate) fn new(core: Arc<Core>, folder: String, file: File) -> Self {
        Self { core, folder, file, org_username: None, deadline: None, overwrite: true }
    }

    /// Uploads for this organization. Only with a key of personal scope. Default: none.
    pub fn org_username(self, org_username: impl Into<Option<String>>) -> Self {
        Self { org_username: org_username.into(), ..self }
    }

    /// Sets the timeout of the whole upload: reading the file, retries and backoff. Default: none.
    pub fn deadline(self, deadline: impl Into<Option<Duration>>) -> Self {
        Self { deadline: deadline.into(), ..self }
    }

    /// Sets whether the upload replaces a stored file of the same name. With `false`, a `HEAD` request finds such a
    /// file: with the same content and type, nothing is sent, and with others, the upload fails with
    /// [`FileErrorKind::AlreadyExists`]. Default: `true`.
    pub fn overwrite(self, overwrite: bool) -> Self {
        Self { overwrite, ..self }
    }

    /// Starts the upload as a stream of events.
    pub fn events(self) -> UploadEvents {
        Events::new(|sink| self.run(sink).boxed())
    }

    async fn run(self, events: Sink<UploadEvent>) -> Result<UploadedFile> {
        let deadline = Deadline::of_transfer(self.deadline);
        let folder = self.folder.parse::<UploadFolder>();
        let folder = folder.map_err(|error| {
            Error::InvalidArgument(format!("the folder cannot be uploaded into: {error}"))
        })?;
        // A reader may be slow.
        let mut file = deadline.bound(Box::pin(self.file.prepare(None))).await?;
        file.overwrite = self.overwrite;
        upload(&self.core, folder, &file, self.org_username, deadline, events, &|_| ()).await
    }
}

awaited!(Upload => UploadedFile, |upload| upload.events().into_future());

/// Uploads a file. `on_target` gets each target before its use: an upload cut off by a deadline may still be stored.
pub(crate) async fn upload(
    core: &Core,
    folder: UploadFolder,
    file: &Prepared,
    org_username: Option<String>,
    deadline: Deadline,
    events: Sink<UploadEvent>,
    on_target: OnTarget<'_>,
) -> Result<UploadedFile> {
    let request =
        PresignRequest { org_username, ..PresignRequest::new(folder, &file.mime, &file.name, file.size) };
    let transfer = Transfer { core, file, request, deadline, events, on_target, sent: 0, is_started: false };
    let operation = "upload";
    let span =
        debug_span!("inferstore", otel.name = operation, otel.kind = "client", operation, size = file.size);
    // Boxed, so that the futures of callers stay small.
    deadline.bound(Box::pin(transfer.run().instrument(span))).await
}

fn content_length(response: &Response) -> Option<u64> {
    response.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

type OnTarget<'a> = &'a (dyn Fn(&str) + Sync);

struct Transfer<'a> {
    core: &'a Core,
    file: &'a Prepared,
    request: PresignRequest,
    deadline: Deadline,
    events: Sink<UploadEvent>,
    on_target: OnTarget<'a>,
    /// Maximum number of bytes that an attempt has sent.
    sent: u64,
    /// True after the check for a stored file: a later attempt may find the file of an earlier one.
    is_started: bool,
}

impl Transfer<'_> {
    async fn run(mut self) -> Result<UploadedFile> {
        let size = self.file.size;
        let mut target = self.presign().await?;
        if self.file.name_hash.is_some() && self.is_stored(&target).await {
            self.progress(size);
            return Ok(self.uploaded(target));
        }
        let mut attempts = self.core.retries.start("upload", self.deadline);
        let mut fresh_targets = 0;
        while let Err(error) = self.send(&target, attempts.count).await {
            let is_expired = error.kind == FileErrorKind::Forbidden && fresh_targets < MAX_FRESH_TARGETS;
            let may_retry = is_expired || error.kind == FileErrorKind::Transport;
            if !may_retry || !attempts.backoff(error.retry_after, None).await {
                return Err(error.into());
            }
            (self.events)(UploadEvent::Retrying { problem: error.message });
            if is_expired {
                fresh_targets += 1;
                target = self.presign().await?;
            }
        }
        self.core.retries.succeeded();
        self.progress(size);
        Ok(self.uploaded(target))
    }

    fn uploaded(self, target: Target) -> UploadedFile {
        let PresignRequest { name, mime, .. } = self.request;
        UploadedFile { download_url: target.download_url, name, mime, size: self.file.size }
    }

    /// Returns true if a `HEAD` request finds a file of this size. After any failure, the file is uploaded.
    async fn is_stored(&self, target: &Target) -> bool {
        let Some(url) = files::web_url(&target.download_url) else { return false };
        let attempt = Attempt { operation: "upload", number: 1 };
        let found = follow(self.core, Method::HEAD, &url, &|_| Ok(()), attempt);
        let Ok(Ok(found)) = timeout(self.core.timeouts.read, found).await else { return false };
        found.status().is_success() && content_length(&found) == Some(self.file.size)
    }

    async fn presign(&self) -> Result<Target> {
        let call = self.core.call(CREATE_PRESIGNED_UPLOAD).until(self.deadline);
        let presigned = call.send(|api| api.create_presigned_upload(&self.request)).await?;
        let target = Target::read(presigned, &self.file.mime, &self.core.redactor)
            .map_err(|message| FileError::new(&self.file.label, FileErrorKind::InvalidTarget, message))?;
        (self.on_target)(&target.download_url);
        Ok(target)
    }

    /// Returns true if this content is stored under this name; fails if another is. A store may respond 403 for none.
    async fn is_same_stored(&self, target: &Target, number: u32) -> Result<bool, FileError> {
        let Some(url) = files::web_url(&target.download_url) else { return Ok(false) };
        let read =
            |method| follow(self.core, method, &url, &|_| Ok(()), Attempt { operation: "upload", number });
        let found = read(Method::HEAD).await?;
        if !found.status().is_success() {
            let error = files::rejected(&self.file.label, found, &target.redactor).await;
            return if error.kind == FileErrorKind::Transport { Err(error) } else { Ok(false) };
        }
        if let Some(error) = files::web_page(&self.file.label, &found).filter(|_| self.file.mime != HTML) {
            return Err(error);
        }
        let mime = found.headers().get(CONTENT_TYPE).and_then(|mime| mime.to_str().ok());
        let may_be_same = content_length(&found) == Some(self.file.size) && mime == Some(&self.file.mime);
        if may_be_same && self.has_same_content(read(Method::GET).await?).await? {
            return Ok(true);
        }
        let PresignRequest { folder, name, .. } = &self.request;
        let message = format!("{folder}/{name} is stored already, with other content");
        Err(FileError::new(&self.file.label, FileErrorKind::AlreadyExists, message))
    }

    async fn has_same_content(&self, mut stored: Response) -> Result<bool, FileError> {
        let mut digest = Digest::new();
        while digest.size <= self.file.size {
            let chunk = files::within(&self.file.label, self.core.timeouts.transfer, stored.chunk()).await?;
            match chunk {
                Some(chunk) => digest.update(&chunk),
                None => break,
            }
        }
        Ok(digest.size == self.file.size && digest.id() == self.file.content_id)
    }

    async fn send(&mut self, target: &Target, number: u32) -> Result<(), FileError> {
        if !self.is_started {
            if !self.file.overwrite && self.is_same_stored(target, number).await? {
                return Ok(());
            }
            (self.events)(UploadEvent::Started { size: self.file.size });
            self.is_started = true;
        }
        let (counter, mut sent) = watch::channel(0);
        let failure = Arc::new(Mutex::new(None));
        let body = Body { file: self.file.clone(), reader: self.file.open().await?, digest: Digest::new() };
        let content = reqwest::Body::wrap_stream(body.chunks(counter, Arc::clone(&failure)));
        let request = self.request(target, content);
        let response = self.response(request, number, &mut sent).await;
        if let Some(error) = failure.lock().take() {
            return Err(error);
        }
        let response = response?;
        if !response.status().is_success() {
            return Err(files::rejected(&self.file.label, response, &target.redactor).await);
        }
        if let Some(error) = files::web_page(&self.file.label, &response) {
            return Err(error);
        }
        if *sent.borrow() < self.file.size {
            let message = "object storage responded before it had the whole file";
            return Err(FileError::new(&self.file.label, FileErrorKind::Transport, message));
        }
        Ok(())
    }

    /// Builds the request with its exact length: object storage rejects chunked bodies.
    fn request(&self, target: &Target, file: reqwest::Body) -> reqwest::Result<Request> {
        let http = &self.core.storage.http;
        let Prepared { name, mime, size, .. } = self.file;
        let url = target.url.clone();
        let request = match &target.method {
            UploadMethod::Put { content_type } => {
                http.put(url).header(CONTENT_TYPE, content_type).header(CONTENT_LENGTH, *size).body(file)
            }
            UploadMethod::Form { fields } => http.post(url).multipart(form(fields, name, mime, file, *size)?),
        };
        request.build()
    }

    /// Sends the request, bounded by the idle timeout between chunks and by the response timeout after the last.
    async fn response(
        &mut self,
        request: reqwest::Result<Request>,
        number: u32,
        sent: &mut watch::Receiver<u64>,
    ) -> Result<Response, FileError> {
        let file = &self.file.label;
        let idle = self.core.timeouts.transfer;
        let response_timeout = response_timeout(self.core.timeouts, self.file.size);
        let storage = &self.core.storage;
        let mut response = pin!(async { storage.send(request?, "upload", number).await });
        loop {
            let handed_over = match select(response.as_mut(), pin!(timeout(idle, sent.changed()))).await {
                Either::Left((response, _)) => {
                    return response.map_err(|error| files::transport(file, error));
                }
                Either::Right((handed_over, _)) => handed_over.map_err(|_| files::idle(file, idle))?,
            };
            if handed_over.is_err() {
                // The body has ended.
                return files::within(file, response_timeout, response).await;
            }
            let sent = *sent.borrow_and_update();
            self.progress(sent);
        }
    }

    fn progress(&mut self, sent: u64) {
        debug_assert!(sent <= self.file.size, "an upload sent more bytes than its file has");
        if sent > self.sent {
            self.sent = sent;
            (self.events)(UploadEvent::Progress { sent, size: self.file.size });
        }
    }
}

/// Body of an upload: chunks that end with an error if the content has changed since its preparation.
struct Body {
    /// Keeps the temporary file of a reader.
    file: Prepared,
    reader: Box<dyn AsyncRead + Send + Unpin>,
    digest: Digest,
}

impl Body {
    /// Counts the bytes in `sent`, which closes when the body ends or is dropped; sets `failure` if the file fails.
    fn chunks(
        self,
        sent: watch::Sender<u64>,
        failure: Arc<Mutex<Option<FileError>>>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send {
        stream::try_unfold(self, Self::next)
            .inspect_ok(move |chunk| sent.send_modify(|sent| *sent += chunk.len() as u64))
            .map_err(move |error| {
                let message = error.to_string();
                *failure.lock() = Some(error);
                io::Error::other(message)
            })
    }

    async fn next(mut self) -> Result<Option<(Bytes, Self)>, FileError> {
        debug_assert!(self.digest.size <= self.file.size, "a body has more bytes than its file");
        let left = self.file.size - self.digest.size;
        if left == 0 {
            return Ok(None);
        }
        let mut chunk = BytesMut::zeroed(left.min(CHUNK as u64) as usize);
        match self.reader.read_exact(&mut chunk).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(self.changed()),
            read => read.map_err(|error| unreadable(&self.file.label, error))?,
        };
        self.digest.update(&chunk);
        // Check before the last chunk: without it, the store keeps nothing.
        if chunk.len() as u64 == left {
            let has_more =
                self.reader.read(&mut [0]).await.map_err(|error| unreadable(&self.file.label, error))? > 0;
            if has_more || self.digest.id() != self.file.content_id {
                return Err(self.changed());
            }
        }
        Ok(Some((chunk.freeze(), self)))
    }

    fn changed(&self) -> FileError {
        let message = "it changed while it was uploaded, so the upload was stopped";
        FileError::new(&self.file.label, FileErrorKind::Changed, message)
    }
}

/// Allows time after the last byte: buffers of this machine still hold content, and the store processes the file.
fn response_timeout(timeouts: Timeouts, size: u64) -> Duration {
    let buffered = Duration::from_secs(size.min(MAX_BUFFERED) / MIN_THROUGHPUT);
    timeouts.transfer.max(timeouts.read).saturating_add(buffered)
}

#[cfg(test)]
pub(crate) mod tests;
