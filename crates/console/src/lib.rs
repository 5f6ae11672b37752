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

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::TryFutureExt;
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
    let ended = app.ended.clone().cancelled_owned();
    let router = Router::new().fallback(respond).with_state(app);
    let serve = axum::serve(listener, router).with_graceful_shutdown(ended).into_future();
    tokio::spawn(serve.inspect_err(|error| tracing::error!(%error, "the console ends")));
}

/// Every request comes here.
async fn respond(State(app): State<Arc<App>>, request: Request) -> Response {
    let mut response = match app.guard.refuse(&request) {
        Some(response) => response,
        None => route(&app, request).await.into_response(),
    };
    guard::protect(response.headers_mut());
    response
}

async fn route(app: &App, request: Request) -> Result<Response> {
    let Query(query) = Query::try_from_uri(request.uri()).unwrap_or_default();
    let method = request.method().as_str().to_owned();
    let path = request.uri().path().split('/').skip(1);
    let path: Vec<_> = path.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    if let ["files", folder, ..] = &path[..] {
        storage::check_folder(folder)?;
    }
    match (&*method, &path[..]) {
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
