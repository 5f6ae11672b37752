//! Socket with timeouts for slow clients: on the head of a request, and on the reading of a response.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::connections::Connection;
use crate::listener::Timeouts;

/// Minimum of bytes within one timeout, so that a client that reads a byte now and then cannot hold its connection.
pub const MIN_PROGRESS: usize = 64 * 1024;

pub(crate) struct TimedStream {
    stream: TcpStream,
    connection: Arc<Connection>,
    head_timeout: Duration,
    write_timeout: Duration,
    head: Option<Pin<Box<Sleep>>>,
    write: Option<Pin<Box<Sleep>>>,
    written: usize,
}

impl TimedStream {
    pub(crate) fn new(stream: TcpStream, connection: Arc<Connection>, timeouts: &Timeouts) -> Self {
        Self {
            stream,
            connection,
            head_timeout: timeouts.head,
            write_timeout: timeouts.response,
            head: None,
            write: None,
            written: 0,
        }
    }

    fn check_write(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = write {
            self.written += written.as_ref().copied().unwrap_or(0);
            if self.written >= MIN_PROGRESS && self.write.take().is_some() {
                self.connection.written(false);
            }
            return Poll::Ready(written);
        }
        self.connection.blocked_on_write();
        let timeout = self.write_timeout;
        let timer = self.write.get_or_insert_with(|| {
            self.written = 0;
            Box::pin(sleep(timeout))
        });
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            if buffer.filled().len() > before && self.connection.received() {
                self.head = None;
            }
            return read;
        }
        if !self.connection.found_no_bytes() {
            self.head = None;
            return Poll::Pending;
        }
        let timeout = self.head_timeout;
        let timer = self.head.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check_write(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.check_write(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write = None;
        self.connection.written(true);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
