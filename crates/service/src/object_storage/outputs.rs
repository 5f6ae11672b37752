//! Taking in what a node outside the process has produced: bytes that arrive piece by piece.

use std::time::Duration;

use futures_util::Stream;

use super::blobs::Bytes;
use super::{LARGEST_FILE, Objects};
use crate::Error;
use crate::lifecycle::app::App;
use crate::object_storage::s3_api::pace::{Pace, TooSlow};

/// Why an output was not stored.
#[derive(Debug)]
pub(crate) enum Cut {
    /// It is larger than a file may be.
    TooLarge,
    /// Nothing came for too long, or too little.
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

impl From<TooSlow> for Cut {
    fn from(_: TooSlow) -> Self {
        Self::Idle
    }
}

impl Objects {
    /// Stores an output as it arrives and returns its permanent URL. It takes the place of an earlier one
    /// with the same key.
    pub(crate) async fn receive_output<E>(
        &self,
        app: &App,
        (bucket, key, mime): (&str, &str, &str),
        patience: Duration,
        mut body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin,
    ) -> Result<String, Cut> {
        let mut incoming = self.blobs().begin()?;
        let mut pace = Pace::new(patience);
        while let Some(piece) = pace.next(&mut body).await? {
            incoming.write(piece.map_err(|_| Cut::Short)?).await?;
            if incoming.size() > LARGEST_FILE {
                return Err(Cut::TooLarge);
            }
        }
        let whole = incoming.finish().await?;
        Ok(self.keep_output(app, bucket, key, mime, whole).await?)
    }
}
