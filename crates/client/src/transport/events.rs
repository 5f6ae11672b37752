//! Long operations as streams, of their events or of what they read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt, MaybeDone, maybe_done};
use futures_util::stream::{BoxStream, Stream, StreamExt, TryStreamExt};

use crate::memory::lock;
use crate::transport::error::{Error, Result};

/// The receiver of the events of an operation.
pub(crate) type Sink<E> = Arc<dyn Fn(E) + Send + Sync>;

/// A receiver that drops every event.
pub(crate) fn ignored<E>() -> Sink<E> {
    Arc::new(|_| ())
}

/// An operation that starts when it is polled first, and is there from then on. A clone has not started.
pub(crate) struct Lazy<T>(pub(crate) Option<BoxFuture<'static, Result<T>>>);

impl<T> Lazy<T> {
    /// Fails once the operation has begun: it may have had its effect, which another use of it would have again.
    pub(crate) fn check_unused(&self) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(_) => Err(Error::InvalidArgument(
                "it has begun: it goes on when it is awaited again, and can be used in no other way"
                    .to_owned(),
            )),
        }
    }
}

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Clone for Lazy<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> std::fmt::Debug for Lazy<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "started" } else { "not started" })
    }
}

/// An operation as a stream of its events. Read the events with [`next`](Self::next), then take the
/// result with [`finish`](Self::finish), which also skips events that were not read; or await it for the
/// result alone. Nothing happens while none of them is polled.
#[must_use = "the operation runs only while its events are read"]
pub struct Events<E, T> {
    operation: MaybeDone<BoxFuture<'static, Result<T>>>,
    queue: Arc<Mutex<VecDeque<E>>>,
}

impl<E: Send + 'static, T: Send + 'static> Events<E, T> {
    /// The events of the operation that is handed a sink.
    pub(crate) fn new(start: impl FnOnce(Sink<E>) -> BoxFuture<'static, Result<T>>) -> Self {
        let queue = Arc::new(Mutex::new(VecDeque::new()));
        let filled = Arc::clone(&queue);
        let sink = Arc::new(move |event| lock(&filled).push_back(event));
        Self { operation: maybe_done(start(sink)), queue }
    }

    /// The next event, or `None` when the operation has ended.
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<E> {
        StreamExt::next(self).await
    }

    /// Runs the operation to its end and returns its result.
    ///
    /// # Errors
    ///
    /// The error of the operation.
    pub async fn finish(mut self) -> Result<T> {
        while self.next().await.is_some() {}
        match Pin::new(&mut self.operation).take_output() {
            Some(result) => result,
            // The stream ends only after the result is there.
            None => std::future::pending().await,
        }
    }
}

impl<E, T> Stream for Events<E, T> {
    type Item = E;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<E>> {
        let events = self.get_mut();
        let has_ended = lock(&events.queue).is_empty() && events.operation.poll_unpin(context).is_ready();
        match lock(&events.queue).pop_front() {
            None if !has_ended => Poll::Pending,
            next => Poll::Ready(next),
        }
    }
}

impl<E: Send + 'static, T: Send + 'static> IntoFuture for Events<E, T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'static, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.finish())
    }
}

// No field is pinned in place.
impl<E, T> Unpin for Events<E, T> {}

impl<E, T> std::fmt::Debug for Events<E, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// A stream of what the service or object storage returns piece by piece. It ends with its first error.
#[must_use = "nothing is read while it is not polled"]
pub struct Items<T>(pub(crate) BoxStream<'static, Result<T>>);

impl<T> Items<T> {
    /// The next item, or `None` at the end.
    pub async fn next(&mut self) -> Option<Result<T>> {
        self.0.next().await
    }

    /// All remaining items.
    ///
    /// # Errors
    ///
    /// The first error of the stream.
    pub async fn try_collect(self) -> Result<Vec<T>> {
        self.0.try_collect().await
    }
}

impl<T> Stream for Items<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl<T> std::fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Items").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> Events<u32, &'static str> {
        Events::new(|sink| {
            Box::pin(async move {
                for number in 1..=3 {
                    sink(number);
                    tokio::task::yield_now().await;
                }
                Ok("done")
            })
        })
    }

    #[tokio::test]
    async fn every_event_comes_in_order_and_the_result_after_them() {
        let mut events = counting();
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            seen.push(event);
        }
        assert_eq!(seen, [1, 2, 3]);
        assert_eq!(events.next().await, None);
        assert!(matches!(events.finish().await, Ok("done")));
    }

    #[tokio::test]
    async fn the_result_can_be_taken_without_reading_the_events() {
        assert!(matches!(counting().finish().await, Ok("done")));
    }
}
