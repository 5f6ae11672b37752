//! Taking in what a node outside the process has produced: bytes that arrive piece by piece.

use std::fmt::Display;
use std::time::Duration;

use futures_util::{Stream, StreamExt};

use super::blobs::Bytes;
use super::{LARGEST_FILE, Objects};
use crate::Error;
use crate::app::App;

/// Why an output was not stored.
#[derive(Debug)]
pub(crate) enum Cut {
    /// It is larger than a file may be.
    TooLarge,
    /// Nothing came for too long.
    Idle,
    /// Whoever sent it hung up.
    Short,
    /// The service failed.
    Failed(Error),
}

impl From<Error> for Cut {
    fn from(cause: Error) -> Self {
        Self::Failed(cause)
    }
}

impl Objects {
    /// Stores an output as it arrives and returns its permanent URL. It takes the place of an earlier one
    /// with the same key.
    pub(crate) async fn receive_output<E: Display>(
        &self,
        app: &App,
        (bucket, key, mime): (&str, &str, &str),
        patience: Duration,
        body: impl Stream<Item = Result<Bytes, E>> + Send,
    ) -> Result<String, Cut> {
        let mut incoming = self.blobs().begin()?;
        let mut body = std::pin::pin!(body);
        while let Some(chunk) = tokio::time::timeout(patience, body.next()).await.map_err(|_| Cut::Idle)? {
            incoming.write(chunk.map_err(|_| Cut::Short)?).await?;
            if incoming.size() > LARGEST_FILE {
                return Err(Cut::TooLarge);
            }
        }
        let whole = incoming.finish().await?;
        Ok(self.keep_output(app, bucket, key, mime, whole).await?)
    }
}
