//! The bytes of a file as a stream: never more than a chunk of it in memory, counted as they leave,
//! and stopped when the file changes under our hands.

use std::io;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, Stream, TryStreamExt};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;

use crate::files::source::{Content, Opened, Spooled, Stamp};

/// How much is read and handed over at once.
const CHUNK: u64 = 64 * 1024;

const CHANGED: &str =
    "it changed while it was uploaded, so the upload was stopped; upload it once it stays as it is";

/// What the sender of a stream can see of it. The count ends when the stream is over or dropped.
pub(super) struct Observer {
    /// How many bytes were handed over.
    pub(super) sent: watch::Receiver<u64>,
    trouble: Arc<OnceLock<String>>,
}

impl Observer {
    /// Why the stream broke off, if the reason is the file.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.get().map(String::as_str)
    }
}

/// The stream of a file, and what can be seen of it.
pub(super) fn stream(file: &Opened) -> (impl Stream<Item = io::Result<Bytes>> + Send + use<>, Observer) {
    let (counter, sent) = watch::channel(0);
    let trouble = Arc::new(OnceLock::new());
    let observer = Observer { sent, trouble: Arc::clone(&trouble) };
    let size = file.size();
    let chunks = stream::once(Source::open(file.content().clone()))
        .map_ok(move |source| stream::try_unfold(Reading { source, left: size }, Reading::next))
        .try_flatten()
        .inspect_ok(move |chunk| counter.send_modify(|sent| *sent += chunk.len() as u64))
        .inspect_err(move |error| {
            // There is one error at most, because a stream ends with it.
            let _ = trouble.set(error.to_string());
        });
    (chunks, observer)
}

struct Reading {
    source: Source,
    left: u64,
}

enum Source {
    Bytes(Bytes),
    /// A file of the caller, with the stamp that it must keep.
    Path(File, Stamp),
    /// A file of ours, which stays as long as someone holds on to it.
    Spooled {
        file: File,
        _kept: Arc<Spooled>,
    },
}

impl Source {
    async fn open(content: Content) -> io::Result<Self> {
        Ok(match content {
            Content::Bytes { bytes, .. } => Self::Bytes(bytes),
            Content::Path { path, stamp } => {
                let file = File::open(path).await.map_err(unreadable)?;
                check(&file, stamp).await?;
                Self::Path(file, stamp)
            }
            Content::Spooled(spooled) => {
                let file = File::open(spooled.path()).await.map_err(unreadable)?;
                Self::Spooled { file, _kept: spooled }
            }
        })
    }
}

impl Reading {
    async fn next(mut self) -> io::Result<Option<(Bytes, Self)>> {
        if self.left == 0 {
            return Ok(None);
        }
        let length = self.left.min(CHUNK);
        self.left -= length;
        let chunk = match &mut self.source {
            Source::Bytes(bytes) => bytes.split_to(bytes.len().min(length as usize)),
            Source::Path(file, _) | Source::Spooled { file, .. } => {
                read(file, length).await.map_err(unreadable)?
            }
        };
        if chunk.len() as u64 != length {
            return Err(io::Error::other(CHANGED));
        }
        if self.left == 0
            && let Source::Path(file, stamp) = &self.source
        {
            // Before the last chunk is handed over, because without it the store keeps nothing.
            check(file, *stamp).await?;
        }
        Ok(Some((chunk, self)))
    }
}

async fn check(file: &File, stamp: Stamp) -> io::Result<()> {
    let is_unchanged = Stamp::of(file).await.map_err(unreadable)? == stamp;
    if is_unchanged { Ok(()) } else { Err(io::Error::other(CHANGED)) }
}

/// So many bytes, or fewer at the end of the file.
async fn read(file: &mut File, length: u64) -> io::Result<Bytes> {
    let mut chunk = BytesMut::with_capacity(length as usize);
    let mut rest = file.take(length);
    while rest.read_buf(&mut chunk).await? > 0 {}
    Ok(chunk.freeze())
}

fn unreadable(error: io::Error) -> io::Error {
    io::Error::other(format!("it can no longer be read: {error}"))
}
