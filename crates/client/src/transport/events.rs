//! Long operations as streams of events or items.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{BoxStream, Stream, StreamExt, TryStreamExt};

use crate::transport::error::{Error, Result};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub(crate) type Sink<E> = Arc<dyn Fn(E) + Send + Sync>;

pub(crate) fn ignored<E>() -> Sink<E> {
    Arc::new(|_| ())
}

/// Operation as a stream of its events. Read the events with [`next`](Self::next), then take the result with
/// [`finish`](Self::finish), which skips unread events; or await the operation for the result alone. As a [`Stream`],
/// it yields [`Step`]s, of which the last is the result. The operation makes progress only while it is polled.
#[must_use = "the operation runs only while its events are read"]
pub struct Events<E, T> {
    /// `None` once the operation has ended.
    operation: Option<BoxFuture<'static, Result<T>>>,
    /// `None` until the operation has ended, and after the result was taken.
    result: Option<Result<T>>,
    events: UnboundedReceiver<E>,
}

/// Item of [`Events`] as a stream.
#[derive(Debug)]
pub enum Step<E, T> {
    /// Event.
    Event(E),
    /// Result. Nothing follows.
    End(Result<T>),
}

impl<E: Send + 'static, T: Send + 'static> Events<E, T> {
    pub(crate) fn new(start: impl FnOnce(Sink<E>) -> BoxFuture<'static, Result<T>>) -> Self {
        let (sender, events) = unbounded_channel();
        // Nobody reads the events once the stream is dropped.
        let sink = Arc::new(move |event| _ = sender.send(event));
        Self { operation: Some(start(sink)), result: None, events }
    }

    /// Returns the next event, or `None` when the operation has ended. Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<E> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// Runs the operation to its end and returns its result.
    ///
    /// # Errors
    ///
    /// The error of the operation; [`Error::InvalidArgument`] if the stream has yielded its [`Step::End`] already.
    pub async fn finish(mut self) -> Result<T> {
        while self.next().await.is_some() {}
        self.result.unwrap_or_else(|| {
            Err(Error::InvalidArgument("the stream has yielded its result already".to_owned()))
        })
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<E>> {
        if let Poll::Ready(Some(event)) = self.events.poll_recv(context) {
            return Poll::Ready(Some(event));
        }
        if let Some(operation) = &mut self.operation {
            match operation.poll_unpin(context) {
                Poll::Ready(result) => {
                    self.result = Some(result);
                    self.operation = None;
                }
                // The operation may have sent an event. Without a sender, no more events follow.
                Poll::Pending => match self.events.poll_recv(context) {
                    Poll::Ready(None) => return Poll::Pending,
                    event => return event,
                },
            }
        }
        Poll::Ready(self.events.try_recv().ok())
    }
}

impl<E: Send + 'static, T: Send + 'static> Stream for Events<E, T> {
    type Item = Step<E, T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let events = self.get_mut();
        events
            .poll_event(context)
            .map(|event| event.map(Step::Event).or_else(|| events.result.take().map(Step::End)))
    }
}

// No field is structurally pinned.
impl<E, T> Unpin for Events<E, T> {}

impl<E, T> std::fmt::Debug for Events<E, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// Implements awaiting and streaming for an operation.
macro_rules! awaited {
    ($operation:ty => $done:ty, $begin:expr $(, $parameter:ident)*) => {
        impl<$($parameter: Send + 'static),*> IntoFuture for $operation {
            type Output = Result<$done>;
            type IntoFuture = BoxFuture<'static, Result<$done>>;

            fn into_future(self) -> Self::IntoFuture {
                let begin: fn(Self) -> Self::IntoFuture = $begin;
                begin(self)
            }
        }
    };
}
pub(crate) use awaited;

awaited!(Events<E, T> => T, |events| Box::pin(events.finish()), E, T);

/// Stream of items that the service or object storage returns piece by piece. It ends with its first error.
#[must_use = "nothing is read while it is not polled"]
pub struct Items<T>(pub(crate) BoxStream<'static, Result<T>>);

impl<T> Items<T> {
    /// Returns the next item, or `None` at the end.
    pub async fn next(&mut self) -> Option<Result<T>> {
        self.0.next().await
    }

    /// Returns all remaining items, or the first error of the stream.
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
    async fn the_last_item_of_the_stream_is_the_result() {
        let steps: Vec<_> = counting().collect().await;
        let shown: Vec<_> = steps.iter().map(|step| format!("{step:?}")).collect();
        assert_eq!(shown, ["Event(1)", "Event(2)", "Event(3)", "End(Ok(\"done\"))"]);
        let mut events = counting();
        while StreamExt::next(&mut events).await.is_some() {}
        assert!(matches!(events.finish().await, Err(Error::InvalidArgument(_))));
    }

    #[tokio::test]
    async fn the_result_can_be_taken_without_reading_the_events() {
        assert!(matches!(counting().finish().await, Ok("done")));
    }
}
