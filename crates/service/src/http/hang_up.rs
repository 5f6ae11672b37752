//! Clients that hang up: hyper drops the handler of their request, and what must not be left half done goes on.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt as _};

/// A future that goes on in a task of its own when it is dropped before its end.
#[must_use = "it begins when it is awaited"]
pub(crate) struct Uninterrupted<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> Uninterrupted<T> {
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(work.boxed()))
    }
}

impl<T: Send + 'static> Future for Uninterrupted<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // As with any future, there is nothing after the end.
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let done = work.poll_unpin(cx);
        if done.is_ready() {
            self.0 = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for Uninterrupted<T> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_is_dropped_before_its_end_goes_on_and_what_has_ended_is_not_begun_again() {
        let (go_on, wait) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let mut work = Uninterrupted::new(async move {
            let _ = wait.await;
            let _ = done.send(());
        });
        assert!(poll!(&mut work).is_pending());
        drop(work);
        let _ = go_on.send(());
        assert!(is_done.await.is_ok());

        let mut work = Uninterrupted::new(async { 1 });
        assert_eq!(poll!(&mut work), Poll::Ready(1));
        assert!(work.0.is_none());
    }
}
