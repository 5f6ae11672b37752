//! Uploading a file: a presigned target from the service, then the bytes straight to object storage.

mod body;
pub(crate) mod fault;
pub(crate) mod form;
mod send;
pub(crate) mod target;

use std::time::Duration;

use inferstore_api::types::{PresignRequest, UploadFolder};
use tokio::time::sleep;
use tracing::{Instrument, debug, debug_span};

use crate::client::Inner;
use crate::files::source::{File, Opened, trouble};
use crate::resources::storage::Folder;
use crate::transport::call::Call;
use crate::transport::deadline::Deadline;
use crate::transport::error::Result;
use fault::{Failed, Fault, Kind};
use target::Target;

/// How often a new target is asked for when one is refused.
const FRESH_TARGETS: u32 = 2;

/// How a file is uploaded.
#[derive(Clone, Debug, Default)]
pub struct UploadOptions {
    /// The organization that it is uploaded for, with a key of personal scope.
    pub org_username: Option<String>,
    /// How long the whole may take, from the call on. It bounds everything: reading, every attempt, and
    /// the pauses between them.
    pub deadline: Option<Duration>,
}

/// A file that is stored now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadedFile {
    /// Its permanent URL, which can be used as an input.
    pub download_url: String,
    /// The name that it was declared with.
    pub name: String,
    /// Its MIME type.
    pub mime: String,
    /// Its size in bytes.
    pub size: u64,
}

/// What happens while a file is uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadEvent {
    /// It begins.
    Started {
        /// The size in bytes.
        size: u64,
    },
    /// Bytes are on their way. It never goes back, not even when they have to be sent again, and ends at
    /// the size.
    Progress {
        /// How many bytes.
        sent: u64,
        /// Of how many.
        size: u64,
    },
    /// It is tried again, because of this problem.
    Repeated {
        /// What went wrong.
        problem: String,
    },
}

/// Who wants to know. Called between the steps of an upload, so it should be quick.
pub(crate) type OnUpload<'a> = &'a mut (dyn FnMut(UploadEvent) + Send);

impl Folder {
    /// Uploads a file into the folder: a path, or any [`File`].
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// let uploaded = client.folder("samples").upload("photo.jpg").await?;
    /// println!("{}", uploaded.download_url);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::File`](crate::Error::File) when the file cannot be read, is empty or larger than 100 MiB, changes meanwhile,
    /// or is refused by object storage; [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a folder that nothing can be uploaded
    /// into; and those of every call, because the service has to agree.
    pub async fn upload(&self, file: impl Into<File>) -> Result<UploadedFile> {
        self.upload_with(file, UploadOptions::default(), |_| {}).await
    }

    /// Uploads a file as told, and tells what happens.
    ///
    /// # Errors
    ///
    /// As [`upload`](Self::upload), and [`Error::DeadlineReached`](crate::Error::DeadlineReached).
    pub async fn upload_with(
        &self,
        file: impl Into<File>,
        options: UploadOptions,
        mut on_event: impl FnMut(UploadEvent) + Send,
    ) -> Result<UploadedFile> {
        let (folder, file) = (self.uploadable()?, file.into());
        // A reader may take its time, so the deadline bounds that too.
        let deadline = Deadline::after(options.deadline);
        let opened = deadline.bound(Box::pin(file.open())).await?;
        Box::pin(upload(&self.client.inner, folder, &opened, &options, deadline, &mut on_event)).await
    }
}

/// Uploads a file that was looked at, before the deadline and within the length that the options
/// allow.
pub(crate) async fn upload(
    client: &Inner,
    folder: UploadFolder,
    file: &Opened,
    options: &UploadOptions,
    deadline: Deadline,
    on_event: OnUpload<'_>,
) -> Result<UploadedFile> {
    let deadline = deadline.or_earlier(Deadline::after(options.deadline));
    let request = PresignRequest {
        folder,
        mime: file.mime().to_owned(),
        name: file.name().to_owned(),
        size: file.size(),
        org_username: options.org_username.clone(),
    };
    let upload = Upload { client, file, request, deadline };
    let listener = Listener { sent: 0, size: file.size(), on_event };
    let span = debug_span!("inferstore_upload", size = file.size());
    deadline.bound(upload.run(listener).instrument(span)).await
}

struct Upload<'a> {
    client: &'a Inner,
    file: &'a Opened,
    request: PresignRequest,
    deadline: Deadline,
}

impl Upload<'_> {
    async fn run(self, mut listener: Listener<'_>) -> Result<UploadedFile> {
        let (client, file) = (self.client, self.file);
        listener.begin();
        let mut target = self.presign().await?;
        let (mut attempts, mut fresh_targets) = (0, 0);
        loop {
            attempts += 1;
            let fault = match send::send(client, &target, file, &mut |sent| listener.progress(sent)).await {
                Ok(()) => {
                    client.budget.earn();
                    listener.progress(file.size());
                    return Ok(self.uploaded(target));
                }
                Err(Failed::Here(error)) => return Err(error),
                Err(Failed::There(fault)) => fault,
            };
            debug!(attempt = attempts, kind = ?fault.kind, problem = fault.problem, "the upload failed");
            let is_forbidden = fault.kind == Kind::Forbidden;
            fresh_targets += u32::from(is_forbidden);
            let pause = match fresh_targets {
                ..=FRESH_TARGETS => fault.pause_before_repeat(client, attempts, self.deadline),
                _ => None,
            };
            let Some(pause) = pause else {
                let advice = advice(&fault);
                return Err(fault.about(file.label(), advice));
            };
            (listener.on_event)(UploadEvent::Repeated { problem: fault.problem });
            sleep(pause).await;
            if is_forbidden {
                target = self.presign().await?;
            }
        }
    }

    async fn presign(&self) -> Result<Target> {
        let api = &self.client.api;
        let call = Call::repeatable("createPresignedUpload").until(self.deadline);
        let presigned = call.send(self.client, || api.create_presigned_upload(&self.request)).await?;
        Target::read(presigned, self.file.mime()).map_err(|problem| trouble(self.file.label(), problem))
    }

    fn uploaded(self, target: Target) -> UploadedFile {
        let PresignRequest { name, mime, size, .. } = self.request;
        UploadedFile { download_url: target.download_url, name, mime, size }
    }
}

/// Who is told, and what was told before.
struct Listener<'a> {
    /// The most bytes that any attempt has sent.
    sent: u64,
    size: u64,
    on_event: OnUpload<'a>,
}

impl Listener<'_> {
    fn begin(&mut self) {
        (self.on_event)(UploadEvent::Started { size: self.size });
    }

    fn progress(&mut self, sent: u64) {
        if sent > self.sent {
            self.sent = sent;
            (self.on_event)(UploadEvent::Progress { sent, size: self.size });
        }
    }
}

/// What to try after the last attempt.
fn advice(fault: &Fault) -> &'static str {
    match fault.kind {
        Kind::Passing => "check the network and try again",
        Kind::Forbidden => "check the balance of the account and the clocks of both sides",
        Kind::Final => "the service and its object storage disagree; tell whoever runs them",
    }
}

#[cfg(test)]
pub(crate) mod tests;
