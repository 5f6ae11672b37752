//! Drains the rest of a refused body: a client whose connection closes while it sends never reads the response.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use futures_util::future::poll_fn;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use crate::connections::BodyGuard;

/// Limit on the drained rest: more than the largest file in a form.
pub(crate) const MAX_DRAIN: u64 = 112 << 20;

pub(crate) struct DrainOnDrop {
    body: Option<(Incoming, BodyGuard)>,
    timeout: Duration,
}

impl DrainOnDrop {
    pub(crate) const fn new(body: Incoming, guard: BodyGuard, timeout: Duration) -> Self {
        Self { body: Some((body, guard)), timeout }
    }
}

impl HttpBody for DrainOnDrop {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some((body, _)) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |(body, _)| body.size_hint())
    }
}

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        let Some((mut body, guard)) = self.body.take().filter(|(body, _)| !body.is_end_stream()) else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let drain = async move {
            let _guard = guard;
            let mut read = 0;
            while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                read += frame.data_ref().map_or(0, |data| data.len() as u64);
                if read > MAX_DRAIN {
                    break;
                }
            }
        };
        runtime.spawn(tokio::time::timeout(self.timeout, drain));
    }
}
