//! Console: a small web server with pages for everything that a service offers, over the client alone.
//!
//! It works with every service that a [`Client`] reaches. The API key stays in the client: no page, header,
//! URL or log line holds it. A random token in [`Console::url`] admits a browser, which keeps it as a cookie.

mod call;
mod failure;
mod files;
mod form;
mod guard;
mod pages;
mod runs;
mod shown;
mod state;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, Request};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use inferstore::{Client, PollInterval};
use percent_encoding::percent_decode_str;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::DropGuard;

use crate::failure::{Failure, Result};
use crate::pages::{account, assets, catalog, model, run, storage, task};
use crate::state::{App, private_folder};

/// The poll interval of a console whose service is in the same process, where a read costs nothing.
pub const LOCAL_POLL: PollInterval =
    PollInterval::Between { first: Duration::from_millis(50), longest: Duration::from_secs(1) };

/// How long a browser may take for the head of a request, and to begin the next one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause after a connection that could not be accepted.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// A console that is being served. It ends when it is dropped.
pub struct Console {
    url: String,
    _end: DropGuard,
    /// Removed with this value, whatever requests still hold.
    _folder: TempDir,
}

impl Console {
    /// Serves a console of the service that the client reaches, at this address; port 0 chooses a free one.
    /// The status of a run is read at the poll interval.
    ///
    /// # Errors
    /// When the address cannot be used, or the system has no temporary folder or no random numbers.
    pub async fn start(client: Client, address: SocketAddr, poll: PollInterval) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let folder = private_folder()?;
        let app = App::new(client, address.port(), poll, folder.path().to_owned())?;
        let url = format!("http://{address}/?token={}", app.guard.token);
        let end = app.ended.clone().drop_guard();
        serve(listener, Arc::new(app));
        Ok(Self { url, _end: end, _folder: folder })
    }

    /// The address for a browser, with the token in it, which is all that the use of the account needs. With
    /// `&page=tasks/ID` behind it, it leads to that page and not to the first one.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// Without the token.
impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.url.split('?').next().unwrap_or_default();
        f.debug_struct("Console").field("address", &address).finish_non_exhaustive()
    }
}

/// Not async: the body of an async function is compiled by every crate that awaits it.
fn serve(listener: TcpListener, app: Arc<App>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    tokio::spawn(async move {
        let graceful = GracefulShutdown::new();
        while let Some(accepted) = app.ended.run_until_cancelled(listener.accept()).await {
            let stream = match accepted {
                Ok((stream, _)) => TokioIo::new(stream),
                // Out of files, or a client that has gone: neither ends the console.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                    continue;
                }
            };
            let app = Arc::clone(&app);
            let service = service_fn(move |request: Request<Incoming>| {
                let app = Arc::clone(&app);
                async move { Ok::<_, Infallible>(respond(&app, request.map(Body::new)).await) }
            });
            tokio::spawn(graceful.watch(http.serve_connection(stream, service)));
        }
        drop(listener);
        graceful.shutdown().await;
    });
}

/// Every request comes here.
async fn respond(app: &App, request: Request) -> Response {
    let mut response = match app.guard.refuse(&request) {
        Some(response) => response,
        None => route(app, request).await.into_response(),
    };
    guard::protect(response.headers_mut());
    response
}

async fn route(app: &App, request: Request) -> Result<Response> {
    let Query(query) = Query::try_from_uri(request.uri()).unwrap_or_default();
    // hyper sends no body in response to a HEAD.
    let is_head = request.method() == Method::HEAD;
    let method = if is_head { Method::GET } else { request.method().clone() };
    let path = request.uri().path().split('/').skip(1);
    let path: Vec<_> = path.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    if let ["files", folder, ..] = &path[..] {
        storage::check_folder(folder)?;
    }
    match (method.as_str(), &path[..]) {
        ("GET", [""]) => catalog::show(app, &query).await,
        ("GET", ["models", id]) => model::show(app, id, &query).await,
        ("POST", ["models", id]) => model::run(app, id, request).await,
        ("GET", ["runs"]) => Ok(run::list(app)),
        ("GET", ["runs", "events"]) => Ok(run::events(app, &query)),
        ("GET", ["runs", id]) => run::show(app, id),
        ("GET", ["tasks"]) => task::list(app, &query).await,
        ("GET", ["tasks", id]) => task::show(app, id, &query).await,
        ("POST", ["tasks", id, "cancel"]) => task::cancel(app, id).await,
        ("GET", ["files"]) => Ok(Redirect::to("/files/samples").into_response()),
        ("GET", ["files", folder]) => storage::list(app, folder, &query).await,
        ("POST", ["files", folder]) => storage::upload(app, folder, request).await,
        ("GET", ["files", folder, "delete"]) => storage::confirm(app, folder, &query),
        ("POST", ["files", folder, "delete"]) => storage::delete(app, folder, request).await,
        ("GET", ["account"]) => account::show(app).await,
        ("GET", ["docs"]) => Ok(assets::reference()),
        ("GET", ["view" | "uploads", id]) => files::show(app, id, &query, request).await,
        ("GET", ["assets", name] | [name]) => assets::asset(name),
        _ => Err(Failure::not_found("The console has no such page.")),
    }
}
