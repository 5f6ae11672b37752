//! Where a download is written to.

use std::io;

use tokio::fs::File;
use tokio::io::{AsyncSeekExt, AsyncWrite, AsyncWriteExt};

pub(super) enum Sink<'a> {
    /// A file of ours, which can be begun anew.
    File(File),
    /// A writer of the caller, which cannot.
    Writer(&'a mut (dyn AsyncWrite + Send + Unpin)),
}

impl Sink<'_> {
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(bytes).await,
            Self::Writer(writer) => writer.write_all(bytes).await,
        }
    }

    /// Takes back what was written, if that is possible.
    pub(super) async fn begin_anew(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => {
                file.set_len(0).await?;
                file.rewind().await.map(drop)
            }
            Self::Writer(_) => {
                Err(io::Error::other("the download has to begin anew, and what was written stays"))
            }
        }
    }

    /// Ends it. A file is on the disk then, and no longer open.
    pub(super) async fn close(self) -> io::Result<()> {
        match self {
            Self::File(mut file) => {
                // Only this tells that the last write failed, for want of space for example.
                file.flush().await?;
                // Before it takes its place, so that a crash leaves the whole of it or nothing.
                file.sync_all().await?;
                drop(file.into_std().await);
                Ok(())
            }
            Self::Writer(writer) => writer.flush().await,
        }
    }
}
