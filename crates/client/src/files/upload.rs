//! Uploads: a presigned target from the service, then the bytes straight to object storage.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::{self, Stream, StreamExt};
use inferstore_api::types::{PresignRequest, UploadFolder};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Request, RequestBuilder, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{Instrument, debug_span, warn};

use crate::files::source::{File, Prepared};
use crate::files::target::{Form, Target, UploadMethod};
use crate::files::{body, store};
use crate::resources::storage::Folder;
use crate::transport::core::Core;
use crate::transport::deadline::Deadline;
use crate::transport::error::Result;
use crate::transport::events::{Events, Sink};
use crate::transport::file_error::{FileError, FileErrorKind};
use inferstore_api::operations::CREATE_PRESIGNED_UPLOAD;

/// How many targets replace a rejected one.
const MAX_FRESH_TARGETS: u32 = 2;

/// What the buffers of this machine may still hold when all bytes are handed over, and the slowest line
/// that the response timeout allows for it, per second.
const MAX_BUFFERED: u64 = 8 * 1024 * 1024;
const MIN_THROUGHPUT: u64 = 32 * 1024;

/// An upload into a folder: awaited for the stored file, or streamed with [`events`](Self::events).
///
/// ```no_run
/// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
/// use std::time::Duration;
/// use inferstore::UploadEvent;
///
/// let uploaded = client.folder("samples").upload("photo.jpg").deadline(Duration::from_secs(60)).await?;
/// println!("{}", uploaded.download_url);
///
/// let mut events = client.folder("samples").upload("video.mp4").events();
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
/// The file stays in the storage, and is billed, until it is [deleted](crate::Storage::delete). Dropping
/// an upload stops it; a file whose last bytes were already sent may be stored all the same.
#[derive(Clone, Debug)]
#[must_use = "an upload starts when it is awaited or its events are read"]
pub struct Upload {
    folder: Folder,
    file: File,
    org_username: Option<String>,
    deadline: Option<Duration>,
}

/// An upload as a stream of its events.
pub type UploadEvents = Events<UploadEvent, UploadedFile>;

/// A file in the storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct UploadedFile {
    /// The permanent URL, which can be used as an input.
    pub download_url: String,
    /// The name that it is stored under.
    pub name: String,
    /// The MIME type.
    pub mime: String,
    /// The size in bytes.
    pub size: u64,
}

impl UploadedFile {
    /// A file with this URL and nothing else known of it.
    pub fn new(download_url: impl Into<String>) -> Self {
        Self { download_url: download_url.into(), ..Self::default() }
    }
}

/// What happens during an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadEvent {
    /// The file was read once, and the upload starts.
    #[non_exhaustive]
    Started {
        /// The size in bytes.
        size: u64,
    },
    /// The content of the file disagrees with its extension.
    #[non_exhaustive]
    MimeDisagrees {
        /// The MIME type of the content.
        content: String,
        /// The MIME type of the extension.
        extension: String,
        /// The one that the file is stored with. Use [`File::with_mime`] for another one.
        chosen: String,
    },
    /// Bytes were sent. The number never decreases, even when bytes are sent again, and ends at the size.
    #[non_exhaustive]
    Progress {
        /// How many bytes.
        sent: u64,
        /// Of how many.
        size: u64,
    },
    /// An attempt failed, and another one follows.
    #[non_exhaustive]
    Retrying {
        /// What went wrong.
        problem: String,
    },
}

impl Folder {
    /// Uploads a file into the folder: a path, or any [`File`].
    ///
    /// # Errors
    ///
    /// [`Error::File`](crate::Error::File) when the file cannot be read, is empty or larger than 100 MiB, changes during the
    /// upload, or is rejected by object storage; [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a folder without uploads;
    /// [`Error::DeadlineReached`](crate::Error::DeadlineReached); and those of every call, because the service issues the target.
    pub fn upload(&self, file: impl Into<File>) -> Upload {
        Upload { folder: self.clone(), file: file.into(), org_username: None, deadline: None }
    }
}

impl Upload {
    /// Uploads for this organization. Only with a key of personal scope.
    pub fn org_username(self, org_username: impl Into<Option<String>>) -> Self {
        Self { org_username: org_username.into(), ..self }
    }

    /// Limits the whole upload, from now on: reading the file, all attempts, and the delays between them.
    pub fn deadline(self, deadline: impl Into<Option<Duration>>) -> Self {
        Self { deadline: deadline.into(), ..self }
    }

    /// Starts the upload as a stream of events.
    pub fn events(self) -> UploadEvents {
        Events::new(|sink| self.run(sink))
    }

    async fn run(self, events: Sink<UploadEvent>) -> Result<UploadedFile> {
        let deadline = Deadline::after(self.deadline);
        let core = Arc::clone(&self.folder.core);
        let folder = self.folder.uploadable()?;
        // A reader may be slow.
        let file = deadline.bound(Box::pin(self.file.prepare())).await?;
        upload(&core, folder, &file, self.org_username, deadline, events).await
    }
}

impl IntoFuture for Upload {
    type Output = Result<UploadedFile>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run(Sink::none()))
    }
}

/// Uploads a prepared file.
pub(crate) async fn upload(
    core: &Core,
    folder: UploadFolder,
    file: &Prepared,
    org_username: Option<String>,
    deadline: Deadline,
    events: Sink<UploadEvent>,
) -> Result<UploadedFile> {
    let (name, mime, size) = (file.name.clone(), file.mime.clone(), file.size);
    let request = PresignRequest { folder, mime, name, size, org_username };
    let progress = Progress { sent: 0, size, events };
    let span = debug_span!("inferstore_upload", size);
    let upload = Transfer { core, file, request, deadline }.run(progress);
    // Boxed, so that the futures of callers stay small.
    deadline.bound(Box::pin(upload.instrument(span))).await
}

struct Transfer<'a> {
    core: &'a Core,
    file: &'a Prepared,
    request: PresignRequest,
    deadline: Deadline,
}

impl Transfer<'_> {
    async fn run(self, mut progress: Progress) -> Result<UploadedFile> {
        progress.started(self.file);
        let mut target = self.presign().await?;
        let mut attempts = self.core.retries.start("upload", self.deadline);
        let mut fresh_targets = 0;
        while let Err(error) = self.send(&target, &mut progress).await {
            let may_retry = match error.kind {
                FileErrorKind::Transport => true,
                FileErrorKind::Forbidden => fresh_targets < MAX_FRESH_TARGETS,
                _ => false,
            };
            if !may_retry || !attempts.backoff(error.retry_after).await {
                return Err(error.into());
            }
            progress.events.send(UploadEvent::Retrying { problem: error.message });
            if error.kind == FileErrorKind::Forbidden {
                fresh_targets += 1;
                target = self.presign().await?;
            }
        }
        self.core.retries.succeeded();
        progress.sent(self.file.size);
        let PresignRequest { name, mime, size, .. } = self.request;
        Ok(UploadedFile { download_url: target.download_url, name, mime, size })
    }

    async fn presign(&self) -> Result<Target> {
        let call = self.core.call(CREATE_PRESIGNED_UPLOAD).until(self.deadline);
        let presigned = call.send(|api| api.create_presigned_upload(&self.request)).await?;
        Target::read(presigned, &self.file.mime, &self.core.redactor)
            .map_err(|message| FileError::new(&self.file.label, FileErrorKind::InvalidTarget, message).into())
    }

    /// Sends the whole file once.
    async fn send(&self, target: &Target, progress: &mut Progress) -> Result<(), FileError> {
        let file = &self.file.label;
        let (chunks, mut observer) = body::stream(self.file);
        let request = self.request(target, chunks).build().map_err(|error| store::transport(file, error))?;
        let response = self.response(request, &mut observer.sent, progress).await;
        if let Some(error) = observer.take_failure() {
            return Err(error);
        }
        let response = response?;
        let status = response.status();
        if status.is_redirection() {
            let message =
                format!("object storage answered {}, and uploads follow no redirect", status.as_u16());
            return Err(FileError::new(file, FileErrorKind::Rejected, message));
        }
        if !status.is_success() {
            return Err(store::rejected(file, response, &target.redactor).await);
        }
        if *observer.sent.borrow() < self.file.size {
            let message = "object storage answered before it had the whole file";
            return Err(FileError::new(file, FileErrorKind::Transport, message));
        }
        Ok(())
    }

    /// The request with its exact length, because object storage refuses chunked bodies.
    fn request(
        &self,
        target: &Target,
        chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> RequestBuilder {
        let http = self.core.storage.http();
        let url = target.url.clone();
        match &target.method {
            UploadMethod::Put { content_type } => {
                let request = http.put(url).header(CONTENT_TYPE, content_type);
                request.header(CONTENT_LENGTH, self.file.size).body(Body::wrap_stream(chunks))
            }
            UploadMethod::Form { fields } => {
                let form = Form::new(fields, &self.file.name, &self.file.mime);
                let request = http.post(url).header(CONTENT_TYPE, form.content_type());
                let request = request.header(CONTENT_LENGTH, form.length(self.file.size));
                let part = |bytes| stream::iter([Ok(bytes)]);
                let whole = part(form.before_file).chain(chunks).chain(part(form.after_file));
                request.body(Body::wrap_stream(whole))
            }
        }
    }

    /// Sends the request. It fails when no chunk is handed over within the idle timeout, or no response
    /// comes within the response timeout after the last one. The count runs ahead of the network by what
    /// the buffers of this machine hold, and the store needs time of its own for the whole file.
    async fn response(
        &self,
        request: Request,
        sent: &mut watch::Receiver<u64>,
        progress: &mut Progress,
    ) -> Result<Response, FileError> {
        let file = &self.file.label;
        let timeouts = self.core.timeouts;
        let buffered = self.file.size.min(MAX_BUFFERED);
        let response_timeout =
            timeouts.transfer.max(timeouts.read) + Duration::from_secs(buffered / MIN_THROUGHPUT);
        let mut response = pin!(self.core.storage.execute(request));
        loop {
            let event = timeout(timeouts.transfer, select(response.as_mut(), pin!(sent.changed()))).await;
            match event.map_err(|_| store::idle(file, timeouts.transfer))? {
                Either::Left((response, _)) => {
                    return response.map_err(|error| store::transport(file, error));
                }
                Either::Right((Ok(()), _)) => {
                    let sent = *sent.borrow_and_update();
                    progress.sent(sent);
                }
                // The body ended.
                Either::Right((Err(_), _)) => break,
            }
        }
        let response = timeout(response_timeout, response).await;
        let response = response.map_err(|_| store::idle(file, response_timeout))?;
        response.map_err(|error| store::transport(file, error))
    }
}

/// Sends events, and progress only where it is new.
struct Progress {
    /// The most bytes that an attempt has sent.
    sent: u64,
    size: u64,
    events: Sink<UploadEvent>,
}

impl Progress {
    fn started(&mut self, file: &Prepared) {
        self.events.send(UploadEvent::Started { size: self.size });
        if let Some(extension) = &file.overruled_extension {
            warn!(content = file.mime, extension, "the content of a file disagrees with its extension");
            self.events.send(UploadEvent::MimeDisagrees {
                content: file.mime.clone(),
                extension: extension.clone(),
                chosen: file.mime.clone(),
            });
        }
    }

    fn sent(&mut self, sent: u64) {
        if sent > self.sent {
            self.sent = sent;
            self.events.send(UploadEvent::Progress { sent, size: self.size });
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
