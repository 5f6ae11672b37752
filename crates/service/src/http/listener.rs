//! Listener: accepts connections, limits their number and how slow a client may be, and drains on shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::connections::{Connection, Connections, OpenConnection};
use super::drain::{DrainOnDrop, MAX_DRAIN};
use super::request;
use super::stream::TimedStream;
use crate::lifecycle::config::Limits;
use crate::{Error, Result};

/// The number of bytes that are read ahead of a handler.
const CONNECTION_BUFFER: usize = 64 * 1024;

/// How much later than announced an idle connection is closed, so that a request that is sent in time is
/// still read.
const KEEP_ALIVE_GRACE: Duration = Duration::from_secs(5);

/// How many connections wait to be accepted, where the system allows as many. Beyond it, a client waits a
/// second for its next try; the 128 of `TcpListener::bind` are less than one burst.
const BACKLOG: u32 = 4096;

/// The pause after a connection that could not be accepted.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// In place of a response: the connection is closed without one. An extension of a response, so that it
/// passes every layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HangUp;

impl std::fmt::Display for HangUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is closed without a response")
    }
}

impl std::error::Error for HangUp {}

/// A socket that is bound, so that its address is known, and not served yet.
pub(crate) struct Listener {
    socket: TcpListener,
    pub(crate) address: SocketAddr,
}

/// What all listeners of a service share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) connections: Arc<Connections>,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) stop: CancellationToken,
}

impl Listener {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self> {
        let failed = |cause| {
            Error::new(format!("listening on {address}"), cause)
                .with_hint("choose another port for this listener, or an address of this machine")
        };
        let socket = listen(address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// The URL of the listener on this machine.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until the service stops, then finishes the requests in progress within the shutdown timeout.
    pub(crate) async fn serve(self, router: Router, shared: Shared) {
        let graceful = GracefulShutdown::new();
        let keep_alive = shared.limits.keep_alive;
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(keep_alive + KEEP_ALIVE_GRACE)
            .max_headers(100)
            .max_buf_size(CONNECTION_BUFFER);
        let announced = HeaderValue::from_str(&format!("timeout={}", keep_alive.as_secs())).ok();
        loop {
            let (stream, open) = tokio::select! {
                () = shared.stop.cancelled() => break,
                accepted = accept(&self.socket, &shared.connections) => accepted,
            };
            let stream = TimedStream::new(stream, Arc::clone(&open.connection), &shared.limits);
            let edge = Edge {
                router: router.clone(),
                connection: Arc::clone(&open.connection),
                drain_timeout: shared.limits.head_timeout,
                keep_alive: announced.clone(),
            };
            let service = hyper::service::service_fn(move |request| edge.clone().respond(request));
            let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
            tokio::spawn(async move {
                tokio::select! {
                    // A connection that a client drops or that carries no HTTP concerns the client alone.
                    _ = connection => {}
                    () = open.connection.closed.cancelled() => {}
                }
            });
        }
        drop(self.socket);
        let mut ended = std::pin::pin!(graceful.shutdown());
        if tokio::time::timeout(shared.shutdown_timeout, &mut ended).await.is_err() {
            tracing::warn!("requests in progress are ended: the shutdown timeout is over");
            shared.connections.close_all();
            ended.await;
        }
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart binds the port again while old connections linger.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The next connection, counted.
async fn accept(socket: &TcpListener, connections: &Arc<Connections>) -> (TcpStream, OpenConnection) {
    loop {
        match socket.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                return (stream, connections.admit().await);
            }
            // Out of files, or a client that has gone: neither ends the service.
            Err(cause) => {
                if connections.may_warn() {
                    tracing::warn!(%cause, "a connection could not be accepted");
                }
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

/// What surrounds the router on every listener.
#[derive(Clone)]
struct Edge {
    router: Router,
    connection: Arc<Connection>,
    drain_timeout: Duration,
    keep_alive: Option<HeaderValue>,
}

impl Edge {
    async fn respond(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<impl HttpBody<Data = Bytes, Error = axum::Error>>, HangUp> {
        let guard = self.connection.begin_request().ok_or(HangUp)?;
        let mut response = match request::defect(&request) {
            Some(message) => request::bad_request(message),
            None => {
                let is_undrainable = request.body().size_hint().lower() > MAX_DRAIN;
                // A client that waits for 100 Continue has not begun to send.
                let waits = request.headers().contains_key(EXPECT);
                let timeout = self.drain_timeout;
                let request = request.map(|body| match waits || body.is_end_stream() {
                    true => Body::new(body),
                    false => Body::new(DrainOnDrop::new(body, self.connection.begin_body(), timeout)),
                });
                let Ok(mut response) = self.router.oneshot(request).await;
                if is_undrainable {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                response
            }
        };
        // hyper closes the connection without a response when there is none.
        if response.extensions().get::<HangUp>().is_some() {
            return Err(HangUp);
        }
        if let Some(keep_alive) = self.keep_alive
            && !response.headers().contains_key(CONNECTION)
        {
            response.headers_mut().insert("keep-alive", keep_alive);
        }
        // The request is in progress until its response was written.
        let guarded = move |cause| {
            let _ = &guard;
            cause
        };
        Ok(response.map(|body| body.map_err(guarded)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_burst_of_connections_waits_in_the_queue_of_the_system()
    -> Result<(), Box<dyn std::error::Error>> {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into())?;
        // Nothing is accepted. What the queue refuses is tried again by the system a second later, in vain.
        let mut connections = Vec::new();
        while connections.len() < 500 {
            connections.push(TcpStream::connect_timeout(&listener.address, Duration::from_secs(3))?);
        }
        Ok(())
    }
}
