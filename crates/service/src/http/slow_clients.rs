//! Limits of slow and endless bodies: a timeout with a minimum throughput, and a size limit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use futures_util::{Stream, StreamExt};
use inferstore_server::MIN_PROGRESS;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

pub(crate) struct MinThroughput {
    timeout: Duration,
    deadline: Instant,
    /// Number of bytes received since the deadline was last extended.
    received: usize,
}

impl MinThroughput {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, deadline: Instant::now() + timeout, received: 0 }
    }

    pub(crate) async fn next<E>(
        &mut self,
        body: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
    ) -> Result<Option<Result<Bytes, E>>, BodyError> {
        let chunk = timeout_at(self.deadline, body.next()).await.map_err(|_| BodyError::TooSlow)?;
        self.received += chunk.iter().flatten().map(Bytes::len).sum::<usize>();
        if self.received >= MIN_PROGRESS {
            self.received = 0;
            self.deadline = Instant::now() + self.timeout;
        }
        Ok(chunk)
    }
}

/// Body with a size limit that can be raised; clones share the stream. The multipart parser reads on while chunks are
/// available, and buffers the rest. So the stream is `Pending` once after each chunk: the parser parses its buffer.
#[derive(Clone)]
pub(crate) struct BoundedBody(Arc<Mutex<Bounded>>);

struct Bounded {
    body: BodyDataStream,
    remaining: u64,
    yields: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body was cut off")]
    CutOff,
    #[error("the body is larger than allowed")]
    TooLarge,
    #[error("the body took too long to arrive")]
    TooSlow,
}

impl BoundedBody {
    pub(crate) fn new(body: Body, limit: u64) -> Self {
        let body = body.into_data_stream();
        Self(Arc::new(Mutex::new(Bounded { body, remaining: limit, yields: false })))
    }

    pub(crate) fn raise_limit(&self, bytes: u64) {
        let mut bounded = self.0.lock();
        bounded.remaining = bounded.remaining.saturating_add(bytes);
    }
}

impl Stream for BoundedBody {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut bounded = self.0.lock();
        if std::mem::take(&mut bounded.yields) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let chunk = ready!(bounded.body.poll_next_unpin(cx));
        bounded.yields = chunk.is_some();
        Poll::Ready(chunk.map(|chunk| {
            let chunk = chunk.map_err(|_| BodyError::CutOff)?;
            let remaining = bounded.remaining.checked_sub(chunk.len() as u64);
            bounded.remaining = remaining.ok_or(BodyError::TooLarge)?;
            Ok(chunk)
        }))
    }
}
