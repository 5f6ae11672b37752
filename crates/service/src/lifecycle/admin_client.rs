//! Operator's client: calls a running service through its socket, or opens the data of a stopped service.

use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{Method, Request, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::Value;
use tokio::time::timeout;
use tower::ServiceExt;

use super::service::Service;
use crate::admin::http;
#[cfg(unix)]
use crate::admin::socket;
use crate::{Error, database};

/// Time within which a running service has to respond to the first request.
const MAX_SILENCE: Duration = Duration::from_secs(10);

/// Calls the administration of a service, running or (in this process) stopped. `docs/admin-http.md` has the requests.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use inferstore_service::{AdminClient, Config, Service};
///
/// # let folder = tempfile::tempdir()?;
/// let service = Service::start(Config::folder(folder.path())).await?;
/// let mut admin = AdminClient::open(folder.path()).await?;
/// let key = admin.call("POST", &["accounts", "demo", "keys"], None).await?;
/// assert!(key["api_key"].is_string());
/// admin.close().await;
/// # service.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub struct AdminClient {
    transport: Transport,
}

enum Transport {
    #[cfg(unix)]
    Running(hyper::client::conn::http1::SendRequest<Body>),
    Stopped {
        router: Router,
        service: Box<Service>,
    },
}

impl fmt::Debug for AdminClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.transport {
            #[cfg(unix)]
            Transport::Running(_) => "AdminClient(Running)",
            Transport::Stopped { .. } => "AdminClient(Stopped)",
        })
    }
}

/// A failed call of the operator.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct AdminError {
    message: String,
    status: Option<StatusCode>,
}

impl AdminError {
    /// Returns true if the service refused the call and changed nothing.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.status.is_some_and(|status| status.is_client_error())
    }

    /// Returns true if the response was lost or the service does not know the outcome: the call may have taken effect.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.status.is_none_or(|status| status == StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn connection(cause: impl fmt::Display) -> Self {
        Self { message: format!("calling the service failed: {cause}"), status: None }
    }
}

impl AdminClient {
    /// Connects to the service that uses a data folder, or opens the data if no service does. Fails if the folder is
    /// unused and has no embedded database, the data cannot be opened, or the service that uses them has no socket.
    pub async fn open(folder: &Path) -> Result<Self, Error> {
        let opening = || format!("opening the data in {}", folder.display());
        let check = |cause: &io::Error| match cause.kind() {
            io::ErrorKind::PermissionDenied => {
                let cause = "permission denied: the data belong to the user of the service";
                let hint = "run it as that user: sudo -u USER inferstore admin …";
                Err(Error::new(opening(), cause).with_hint(hint))
            }
            _ => Ok(()),
        };
        #[cfg(unix)]
        match connect(folder).await {
            Ok(stream) => {
                let stream = hyper_util::rt::TokioIo::new(stream);
                let (sender, connection) = hyper::client::conn::http1::handshake(stream)
                    .await
                    .map_err(|cause| Error::new("connecting to the service", cause))?;
                tokio::spawn(connection);
                let mut client = Self { transport: Transport::Running(sender) };
                // Any response will do: a call has no limit of its own, since a backup takes hours.
                if timeout(MAX_SILENCE, client.call("GET", &[""], None)).await.is_err() {
                    let cause =
                        format!("the service there did not respond within {} s", MAX_SILENCE.as_secs());
                    let hint = "its process is stopped, or its disk hangs: look at the log";
                    return Err(Error::new(opening(), cause).with_hint(hint));
                }
                return Ok(client);
            }
            Err(cause) => check(&cause)?,
        }
        let found = std::fs::metadata(folder.join(database::FILE));
        if let Err(cause) = &found {
            check(cause)?;
        }
        if !found.is_ok_and(|metadata| metadata.is_file()) {
            return Err(Error::new(opening(), "no service runs there, and there is no embedded database")
                .with_hint("name its folder with --data-dir; a service over PostgreSQL has to run"));
        }
        let service = Service::open_stopped(folder).await?;
        let router = http::router(service.admin.clone());
        Ok(Self { transport: Transport::Stopped { router, service: Box::new(service) } })
    }

    /// Sends a request to a path of segments, with an optional JSON body. Returns `data`, or fails with the message.
    pub async fn call(
        &mut self,
        method: &str,
        segments: &[&str],
        body: Option<String>,
    ) -> Result<Value, AdminError> {
        self.send(method, &path(segments), body).await
    }

    /// Reads a list by `GET` with a query; fails as `call` does.
    pub async fn list(&mut self, segments: &[&str], query: &[(&str, String)]) -> Result<Value, AdminError> {
        let pairs: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        self.send("GET", &format!("{}?{}", path(segments), pairs.join("&")), None).await
    }

    async fn send(&mut self, method: &str, path: &str, body: Option<String>) -> Result<Value, AdminError> {
        let method = Method::from_bytes(method.as_bytes()).map_err(AdminError::connection)?;
        let request = Request::builder().method(method).uri(path).header(HOST, "localhost");
        let request = match body {
            Some(body) => request.header(CONTENT_TYPE, "application/json").body(Body::from(body)),
            None => request.body(Body::empty()),
        };
        let request = request.map_err(AdminError::connection)?;
        let response: Response<Body> = match &mut self.transport {
            #[cfg(unix)]
            Transport::Running(sender) => {
                sender.ready().await.map_err(AdminError::connection)?;
                sender.send_request(request).await.map_err(AdminError::connection)?.map(Body::new)
            }
            Transport::Stopped { router, .. } => {
                let Ok(response) = router.clone().oneshot(request).await;
                response
            }
        };
        let status = response.status();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.map_err(AdminError::connection)?;
        let mut response: Value = serde_json::from_slice(&bytes).map_err(AdminError::connection)?;
        if status.is_success() {
            return Ok(response["data"].take());
        }
        let message = response["message"].as_str().unwrap_or("no reason is given").to_owned();
        Err(AdminError { message, status: Some(status) })
    }

    /// Closes the connection, or shuts the opened data down gracefully.
    pub async fn close(self) {
        if let Transport::Stopped { service, .. } = self.transport {
            service.shutdown().await;
        }
    }
}

#[cfg(unix)]
async fn connect(folder: &Path) -> io::Result<tokio::net::UnixStream> {
    let address = socket::Address::of(folder)?;
    tokio::net::UnixStream::connect(&address.path).await
}

fn path(segments: &[&str]) -> String {
    segments.iter().map(|segment| format!("/{}", encoded(segment))).collect()
}

fn encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_service_that_stands_still_is_an_error() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let address = socket::Address::of(folder.path())?;
        let _silent = tokio::net::UnixListener::bind(&address.path)?;
        let opened = AdminClient::open(folder.path()).await;
        assert!(opened.is_err_and(|cause| cause.to_string().contains("did not respond within 10 s")));
        Ok(())
    }
}
