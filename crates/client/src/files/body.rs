//! The body of an upload: a stream of chunks, counted as they are handed over, and stopped when the
//! content is no longer the one that was prepared.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, Stream, TryStreamExt};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

use crate::files::source::{CHUNK, Digest, Prepared, unreadable};
use crate::memory::lock;
use crate::transport::file_error::{FileError, FileErrorKind};

/// What the sender of a body sees of it.
pub(super) struct Observer {
    /// How many bytes were handed over. The channel closes when the body ends or is dropped.
    pub(super) sent: watch::Receiver<u64>,
    failure: Arc<Mutex<Option<FileError>>>,
}

impl Observer {
    /// Why the body stopped, if the file is the reason.
    pub(super) fn take_failure(&self) -> Option<FileError> {
        lock(&self.failure).take()
    }
}

/// The body of a file, and its observer.
pub(super) fn stream(file: &Prepared) -> (impl Stream<Item = io::Result<Bytes>> + Send + use<>, Observer) {
    let (counter, sent) = watch::channel(0);
    let failure = Arc::new(Mutex::new(None));
    let observer = Observer { sent, failure: Arc::clone(&failure) };
    let body = Body { file: file.clone(), reader: None, digest: Digest::new() };
    let chunks = stream::try_unfold(body, Body::next)
        .inspect_ok(move |chunk| counter.send_modify(|sent| *sent += chunk.len() as u64))
        .map_err(move |error| {
            let message = error.to_string();
            *lock(&failure) = Some(error);
            io::Error::other(message)
        });
    (chunks, observer)
}

struct Body {
    /// Also keeps the temporary file of a reader.
    file: Prepared,
    reader: Option<Box<dyn AsyncRead + Send + Unpin>>,
    digest: Digest,
}

impl Body {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, FileError> {
        let left = self.file.size - self.digest.size;
        if left == 0 {
            return Ok(None);
        }
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => self.file.open().await?,
        };
        let length = left.min(CHUNK as u64) as usize;
        let mut chunk = BytesMut::with_capacity(length);
        let mut limited = (&mut reader).take(length as u64);
        // Without this bound the last read would grow the full buffer to find the end.
        while chunk.len() < length {
            if limited.read_buf(&mut chunk).await.map_err(|error| unreadable(&self.file.label, error))? == 0 {
                return Err(self.changed());
            }
        }
        self.digest.update(&chunk);
        // Before the last chunk is handed over, because the store keeps nothing without it.
        if length as u64 == left {
            let has_more =
                reader.read(&mut [0]).await.map_err(|error| unreadable(&self.file.label, error))? > 0;
            if has_more || self.digest.id() != self.file.content_id {
                return Err(self.changed());
            }
        }
        self.reader = Some(reader);
        Ok(Some((chunk.freeze(), self)))
    }

    fn changed(&self) -> FileError {
        let message = "it changed while it was uploaded, so the upload was stopped";
        FileError::new(&self.file.label, FileErrorKind::Changed, message)
    }
}
