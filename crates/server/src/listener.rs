//! Listener: accepts connections, limits their number and slow clients, and drains on graceful shutdown.

use std::io;
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

use crate::connections::{Connection, Connections, OpenConnection};
use crate::drain::{DrainOnDrop, MAX_DRAIN};
use crate::request;
use crate::stream::TimedStream;

const CONNECTION_BUFFER: usize = 64 * 1024;

/// Grace after the announced keep-alive timeout, so that a request sent in time is still read.
const KEEP_ALIVE_GRACE: Duration = Duration::from_secs(5);

/// Length of the accept queue. A full queue costs a client a second (SYN retry); one burst exceeds the default of 128.
const BACKLOG: u32 = 4096;

const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// Largest response that is no download; a download may stall longer.
const MAX_RESPONSE: u64 = 1 << 20;

/// Extension of a response: close the connection instead of responding. An extension passes every layer.
#[derive(Debug, Clone, Copy)]
pub struct HangUp;

impl std::fmt::Display for HangUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is closed without a response")
    }
}

impl std::error::Error for HangUp {}

/// Timeouts of a server for its clients.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the head of a request, and for draining a refused body.
    pub head: Duration,
    /// For the next request on a connection.
    pub keep_alive: Duration,
    /// For the client to read 64 KiB of a response.
    pub response: Duration,
    /// For requests in progress during a graceful shutdown.
    pub shutdown: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            response: Duration::from_mins(1),
            shutdown: Duration::from_secs(10),
        }
    }
}

/// Limits that the listeners of a process share.
#[derive(Clone)]
pub struct Server {
    /// Timeouts for clients.
    pub timeouts: Timeouts,
    /// Connections of all listeners.
    pub connections: Arc<Connections>,
    /// Stops all listeners.
    pub stop: CancellationToken,
    /// Makes the response to a request that is rejected before routing, from the reason.
    pub refusal: fn(&'static str) -> Response<Body>,
}

/// Bound socket that does not accept yet; its address is known.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    answers_half_closed: bool,
}

impl Listener {
    /// Binds an address; port 0 takes a free port.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = listen(address)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, answers_half_closed: true })
    }

    /// Drops a request when its client closes its sending side, instead of running it to its end and responding.
    #[must_use]
    pub fn dropping_half_closed(self) -> Self {
        Self { answers_half_closed: false, ..self }
    }

    /// Returns the address of the listener.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the stop. Graceful shutdown: requests in progress finish within the shutdown timeout.
    pub async fn serve(self, router: Router, server: Server) {
        let graceful = GracefulShutdown::new();
        let Timeouts { head, keep_alive, shutdown, .. } = server.timeouts;
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new())
            .half_close(self.answers_half_closed)
            .header_read_timeout(keep_alive + KEEP_ALIVE_GRACE)
            .max_headers(100)
            .max_buf_size(CONNECTION_BUFFER);
        let announced = HeaderValue::from_str(&format!("timeout={}", keep_alive.as_secs())).ok();
        let closed = CancellationToken::new();
        loop {
            let (stream, open) = tokio::select! {
                () = server.stop.cancelled() => break,
                accepted = accept(&self.socket, &server.connections, &closed) => accepted,
            };
            let stream = TimedStream::new(stream, Arc::clone(&open.connection), &server.timeouts);
            let edge = Edge {
                router: router.clone(),
                refusal: server.refusal,
                connection: Arc::clone(&open.connection),
                drain_timeout: head,
                keep_alive: announced.clone(),
            };
            let service = hyper::service::service_fn(move |request| edge.clone().respond(request));
            let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
            tokio::spawn(async move {
                tokio::select! {
                    _ = connection => {}
                    () = open.connection.closed.cancelled() => {}
                }
            });
        }
        drop(self.socket);
        let mut ended = std::pin::pin!(graceful.shutdown());
        if tokio::time::timeout(shutdown, &mut ended).await.is_err() {
            tracing::warn!("requests in progress are ended: the shutdown timeout is over");
            closed.cancel();
            ended.await;
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Allows a restart to bind the port while old connections linger.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(
    socket: &TcpListener,
    connections: &Arc<Connections>,
    closed: &CancellationToken,
) -> (TcpStream, OpenConnection) {
    loop {
        match socket.accept().await {
            Ok((stream, client)) => {
                let _ = stream.set_nodelay(true);
                return (stream, connections.admit(client.ip(), closed.child_token()).await);
            }
            // Out of file descriptors, or the client has gone: the server continues.
            Err(cause) => {
                if connections.may_warn() {
                    tracing::warn!(%cause, "a connection could not be accepted");
                }
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

#[derive(Clone)]
struct Edge {
    router: Router,
    refusal: fn(&'static str) -> Response<Body>,
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
            Some(message) => {
                let mut response = (self.refusal)(message);
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                response
            }
            None => {
                let is_undrainable = request.body().size_hint().lower() > MAX_DRAIN;
                // A client that waits for `100 Continue` has not sent the body, so it is not drained.
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
        // On an error, hyper closes the connection without a response.
        if response.extensions().get::<HangUp>().is_some() {
            return Err(HangUp);
        }
        if let Some(keep_alive) = self.keep_alive
            && !response.headers().contains_key(CONNECTION)
        {
            response.headers_mut().insert("keep-alive", keep_alive);
        }
        guard.begin_response(response.body().size_hint().upper().is_none_or(|size| size > MAX_RESPONSE));
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
        // Nothing accepts. If the queue refuses a connection, the system retries a second later, in vain.
        let mut connections = Vec::new();
        while connections.len() < 500 {
            connections.push(TcpStream::connect_timeout(&listener.address, Duration::from_secs(3))?);
        }
        Ok(())
    }
}
