//! Limits of slow and of endless clients: timeouts with a minimum throughput for what is read and written,
//! bodies with a size limit, and reading on after a response was sent early.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout_at};

/// The fewest bytes that have to pass within one timeout: a client that passes one byte now and then would
/// otherwise hold its connection, and what belongs to it, for ever.
const MIN_PROGRESS: usize = 64 * 1024;

/// The longest time for which the rest of an unwanted body is read.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(10);

/// A connection that fails when the client reads less than `MIN_PROGRESS` of a waiting response within the
/// timeout.
pub(crate) struct WriteTimeout {
    stream: TcpStream,
    timeout: Duration,
    /// Runs from the first write that had to wait until `MIN_PROGRESS` was written.
    timer: Option<Pin<Box<Sleep>>>,
    written: usize,
}

impl WriteTimeout {
    pub(crate) fn new(stream: TcpStream, timeout: Duration) -> Self {
        Self { stream, timeout, timer: None, written: 0 }
    }

    fn watch(&mut self, cx: &mut Context<'_>, write: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = write {
            self.written += written.as_ref().copied().unwrap_or(0);
            if self.written >= MIN_PROGRESS {
                self.timer = None;
            }
            return Poll::Ready(written);
        }
        let timeout = self.timeout;
        let timer = self.timer.get_or_insert_with(|| {
            self.written = 0;
            Box::pin(sleep(timeout))
        });
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for WriteTimeout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WriteTimeout {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Stops the timer: everything was written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.timer = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A body came in more slowly than `MIN_PROGRESS` within the timeout.
pub(crate) struct TooSlow;

/// The minimum throughput of one incoming body.
pub(crate) struct MinThroughput {
    timeout: Duration,
    deadline: Instant,
    /// How many bytes came in since the deadline was last moved.
    received: usize,
}

impl MinThroughput {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, deadline: Instant::now() + timeout, received: 0 }
    }

    /// Returns the next chunk of the body; None at its end.
    pub(crate) async fn next<E>(
        &mut self,
        body: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
    ) -> Result<Option<Result<Bytes, E>>, TooSlow> {
        let chunk = timeout_at(self.deadline, body.next()).await.map_err(|_| TooSlow)?;
        self.received += chunk.iter().flatten().map(Bytes::len).sum::<usize>();
        if self.received >= MIN_PROGRESS {
            self.received = 0;
            self.deadline = Instant::now() + self.timeout;
        }
        Ok(chunk)
    }
}

/// A body with a size limit that can be raised while it is read. Clones continue where the others stopped.
///
/// The parser of forms reads on as long as there is a chunk at once and keeps what it has not understood yet;
/// so this is pending once after each chunk, and the parser looks at what it has.
#[derive(Clone)]
pub(crate) struct BoundedBody(Arc<Mutex<Bounded>>);

struct Bounded {
    body: BodyDataStream,
    remaining: u64,
    yields: bool,
}

/// Why a body is not read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The client closed the connection in the middle.
    CutOff,
    /// It is larger than its limit.
    TooLarge,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CutOff => "the body was cut off",
            Self::TooLarge => "the body is larger than allowed",
        })
    }
}

impl std::error::Error for BodyError {}

impl BoundedBody {
    pub(crate) fn new(body: Body, limit: u64) -> Self {
        let body = body.into_data_stream();
        Self(Arc::new(Mutex::new(Bounded { body, remaining: limit, yields: false })))
    }

    /// Raises the limit by so many bytes.
    pub(crate) fn raise_limit(&self, bytes: u64) {
        let mut bounded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bounded.remaining = bounded.remaining.saturating_add(bytes);
    }
}

impl Stream for BoundedBody {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut bounded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// A body whose rest is read and thrown away when it is dropped. A server that responds in the middle of an
/// upload and closes the connection makes the client fail on sending before it has read the response.
pub(crate) struct DrainOnDrop {
    body: Option<BodyDataStream>,
    max_time: Duration,
    max_bytes: u64,
}

impl DrainOnDrop {
    /// Drains no longer than a client may be idle, and no more than so many bytes.
    pub(crate) fn wrap(body: Body, idle: Duration, max_bytes: u64) -> Body {
        let body = Some(body.into_data_stream());
        Body::from_stream(Self { body, max_time: idle.min(MAX_DRAIN_TIME), max_bytes })
    }
}

impl Stream for DrainOnDrop {
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

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let max_time = self.max_time;
        let max_bytes = self.max_bytes;
        runtime.spawn(async move {
            let drain = async {
                let mut read = 0;
                while let Some(Ok(chunk)) = body.next().await {
                    read += chunk.len() as u64;
                    if read > max_bytes {
                        break;
                    }
                }
            };
            let _ = tokio::time::timeout(max_time, drain).await;
        });
    }
}
