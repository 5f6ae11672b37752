//! A listener: accepts connections, bounds how many there are and how slowly a client may speak, and
//! ends in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::Error;
use crate::http::slow_clients::WriteTimeout;
use crate::lifecycle::config::Limits;

/// How much of what a client sends is read ahead of who wants it.
const CONNECTION_BUFFER: usize = 64 * 1024;

/// How long requests in progress may take to end when the service does.
const GRACE: Duration = Duration::from_secs(10);

/// In place of an answer: the connection is closed without one. As an extension of a response, so that
/// it comes through everything that stands between.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HangUp;

impl std::fmt::Display for HangUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is closed without an answer")
    }
}

impl std::error::Error for HangUp {}

/// A socket that is bound, so that its address is known, and not served yet.
pub(crate) struct Listener {
    socket: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Listener {
    pub(crate) async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |cause| Error::new(format!("listening on {address}"), cause);
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// The same for an address that may be left out.
    pub(crate) async fn bind_if_asked(address: Option<SocketAddr>) -> Result<Option<Self>, Error> {
        match address {
            Some(address) => Self::bind(address).await.map(Some),
            None => Ok(None),
        }
    }

    /// Where others reach it from this machine.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until told to stop, then lets what is in progress end.
    pub(crate) async fn serve(self, router: Router, limits: Limits, stop: CancellationToken) {
        let connections = Arc::new(Semaphore::new(limits.connections));
        let graceful = GracefulShutdown::new();
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_headers(100)
            .max_buf_size(CONNECTION_BUFFER);
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accept(&self.socket, &connections) => accepted,
            };
            let Some((stream, permit)) = accepted else { break };
            let router = router.clone();
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let router = router.clone();
                async move {
                    let Ok(response) = router.oneshot(request.map(Body::new)).await;
                    // hyper closes the connection without an answer when there is none.
                    match response.extensions().get::<HangUp>() {
                        None => Ok(response),
                        Some(_) => Err(HangUp),
                    }
                }
            });
            let connection = graceful.watch(
                http.serve_connection(TokioIo::new(WriteTimeout::new(stream, limits.answer_idle)), service),
            );
            tokio::spawn(async move {
                // A connection that a client drops or talks nonsense on is the client's affair.
                let _ = connection.await;
                drop(permit);
            });
        }
        drop(self.socket);
        let _ = tokio::time::timeout(GRACE, graceful.shutdown()).await;
    }
}

/// The next connection, once there is room for one. None only when the service ends.
async fn accept(
    socket: &TcpListener,
    connections: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(connections).acquire_owned().await.ok()?;
    loop {
        match socket.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                return Some((stream, permit));
            }
            // Out of file handles, or a client that is gone already: neither ends the service.
            Err(cause) => {
                tracing::warn!(%cause, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
