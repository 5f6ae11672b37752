//! Reading on after a refusal. A server that answers in the middle of an upload and hangs up makes the
//! client fail on sending before it has read why; so what is left of the body is read and thrown away
//! for a while.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use futures_util::{Stream, StreamExt};

use crate::object_storage::LARGEST_FILE;

/// For how long an unwanted body is read at most.
const PATIENCE: Duration = Duration::from_secs(10);

/// A body whose rest is read when nobody wants it any more.
pub(crate) struct Lingering {
    body: Option<BodyDataStream>,
    patience: Duration,
}

impl Lingering {
    /// The rest is read for no longer than a client may be silent.
    pub(crate) fn wrap(body: Body, idle: Duration) -> Body {
        Body::from_stream(Self { body: Some(body.into_data_stream()), patience: idle.min(PATIENCE) })
    }
}

impl Stream for Lingering {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = body.poll_next_unpin(cx);
        // Nothing is left to read after the end or a failure.
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let (Some(mut body), Ok(runtime)) = (self.body.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let patience = self.patience;
        runtime.spawn(async move {
            let drain = async {
                let mut read = 0;
                while let Some(Ok(chunk)) = body.next().await {
                    read += chunk.len() as u64;
                    if read > LARGEST_FILE {
                        break;
                    }
                }
            };
            let _ = tokio::time::timeout(patience, drain).await;
        });
    }
}
