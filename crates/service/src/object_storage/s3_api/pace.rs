//! How slowly a body may come in. A byte now and then is no progress: whoever sends so could hold an upload,
//! and what it takes, for ever.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::object_storage::blobs::Bytes;

/// How many bytes have to come within the time in which a client may send nothing.
const PROGRESS: usize = 64 * 1024;

/// A body came too slowly, or not at all.
pub(crate) struct TooSlow;

/// Watches over one body.
pub(crate) struct Pace {
    patience: Duration,
    until: Instant,
    /// How much has come since patience was last renewed.
    come: usize,
}

impl Pace {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, until: Instant::now() + patience, come: 0 }
    }

    /// The next piece of the body; None at its end.
    pub(crate) async fn next<E>(
        &mut self,
        body: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
    ) -> Result<Option<Result<Bytes, E>>, TooSlow> {
        let piece = timeout_at(self.until, body.next()).await.map_err(|_| TooSlow)?;
        self.come += piece.iter().flatten().map(Bytes::len).sum::<usize>();
        if self.come >= PROGRESS {
            (self.come, self.until) = (0, Instant::now() + self.patience);
        }
        Ok(piece)
    }
}
