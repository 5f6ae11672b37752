//! Console: a small web server with pages for everything that a service offers, over the client alone.
//!
//! It works with every service that a [`Client`] reaches. The API key stays in the client: no page, header,
//! URL or log line holds it. A random token in [`Console::url`] admits a browser, which keeps it as a cookie.

mod assets;
mod cache;
pub mod call;
mod failure;
mod files;
mod form;
mod guard;
mod pages;
mod parts;
mod runs;
mod shown;
mod state;
mod text;

pub use text::titled;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use inferstore::{Client, PollInterval};
use inferstore_server::{Connections, Listener, Server, Timeouts, max_connections};
use percent_encoding::percent_decode_str;
use tempfile::{NamedTempFile, TempDir};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::failure::{Failure, Result};
use crate::guard::Guard;
use crate::pages::{account, catalog, keys, model, reference, run, storage, task};
use crate::state::{App, random_id};

/// Poll interval of a console with its service in the same process, where a read is cheap.
pub const LOCAL_POLL: PollInterval =
    PollInterval::Between { first: Duration::from_millis(50), longest: Duration::from_secs(1) };

const FOLDER_PREFIX: &str = "inferstore-console-";

/// Running console. Dropping it ends the console.
pub struct Console {
    url: String,
    _end: DropGuard,
    /// Removed on drop, even if requests still use it.
    _folder: TempDir,
    _lock: File,
}

impl Console {
    /// Starts a console for the service of the client, at this address; port 0 chooses a free port. `poll` is
    /// the interval at which the status of a run is read.
    ///
    /// # Errors
    /// The address cannot be used, or the system has no temporary folder or no random numbers.
    pub async fn start(client: Client, address: SocketAddr, poll: PollInterval) -> io::Result<Self> {
        let server = Server {
            timeouts: Timeouts::default(),
            connections: Connections::new(max_connections()),
            stop: CancellationToken::new(),
            refusal: |reason| (StatusCode::BAD_REQUEST, reason).into_response(),
        };
        Self::start_beside(server, client, address, poll, None).await
    }

    /// Starts a console beside a server of this process, with common limits on connections. The file keeps
    /// the token and the port, so that the address stays valid after a restart; only its owner can read it.
    ///
    /// # Errors
    /// As `start`.
    #[expect(clippy::unused_async, reason = "a console is served on the runtime of its caller")]
    pub async fn start_beside(
        server: Server,
        client: Client,
        address: SocketAddr,
        poll: PollInterval,
        file: Option<&Path>,
    ) -> io::Result<Self> {
        let (port, token) = match file.and_then(read_admission) {
            Some(known) => known,
            None => (0, random_id()?),
        };
        let former = SocketAddr::new(address.ip(), port);
        let listener = match Listener::bind(if address.port() == 0 { former } else { address }) {
            // Another program uses the former port.
            Err(_) if address.port() == 0 && port != 0 => Listener::bind(address)?,
            bound => bound?,
        };
        let address = listener.address();
        if let Some(file) = file {
            // Without the file, the address changes at the next start.
            let _ = write_admission(file, address.port(), &token);
        }
        let (folder, lock) = inferstore_server::temporary::create_locked(FOLDER_PREFIX)?;
        let url = format!("http://{address}/?token={token}");
        let app = App::new(client, Guard::new(address.port(), token), poll, folder.path().to_owned());
        let server = Server { stop: app.ended.clone(), ..server };
        let end = app.ended.clone().drop_guard();
        tokio::spawn(listener.serve(Router::new().fallback(respond).with_state(Arc::new(app)), server));
        Ok(Self { url, _end: end, _folder: folder, _lock: lock })
    }

    /// Returns the address for a browser. It contains the token, which grants the use of the account. Append
    /// `&page=tasks/ID` to open that page first.
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn read_admission(file: &Path) -> Option<(u16, String)> {
    let text = std::fs::read_to_string(file).ok()?;
    let (port, token) = text.trim().split_once(' ')?;
    let is_token = token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((port.parse().ok()?, token.to_owned())).filter(|_| is_token)
}

/// Replaces the file by one that only its owner can read.
fn write_admission(path: &Path, port: u16, token: &str) -> io::Result<()> {
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    writeln!(file, "{port} {token}")?;
    file.persist(path)?;
    Ok(())
}

/// Redaction: omits the token.
impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.url.split('?').next().unwrap_or_default();
        f.debug_struct("Console").field("address", &address).finish_non_exhaustive()
    }
}

async fn respond(State(app): State<Arc<App>>, request: Request) -> Response {
    let mut response = match app.guard.refuse(&request) {
        Some(response) => response,
        None => {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let response = route(&app, request).await;
            response.map_err(|failure| failure.after(&method, &path)).into_response()
        }
    };
    guard::protect(response.headers_mut());
    response
}

async fn route(app: &App, request: Request) -> Result<Response> {
    let no_page = || Failure::not_found("The console has no such page.");
    let Query(query) = Query::try_from_uri(request.uri()).unwrap_or_default();
    // hyper sends no body for HEAD.
    let is_head = request.method() == Method::HEAD;
    let method = if is_head { Method::GET } else { request.method().clone() };
    let path = request.uri().path().split('/').skip(1);
    let path: Vec<_> = path.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    if let ["files", folder, ..] = &path[..] {
        storage::check_folder(folder)?;
    }
    match (method.as_str(), &path[..]) {
        ("POST", ["admit"]) => Ok(app.guard.admit_form(request).await),
        ("GET", [""]) => catalog::show(app, &query).await,
        ("GET", ["models", id]) => model::show(app, id, &query).await,
        ("POST", ["models", id]) => model::run(app, id, request).await,
        ("GET", ["runs"]) => run::list(app, &query).await,
        ("GET", ["runs", "events"]) => Ok(run::events(app, &query).await),
        ("GET", ["runs", id]) => run::show(app, id).await,
        ("GET", ["tasks", id]) => task::show(app, id, &query).await,
        ("POST", ["tasks", id, "cancel"]) => task::cancel(app, id).await,
        ("GET", ["files"]) => Ok(Redirect::to("/files/samples").into_response()),
        ("GET", ["files", folder]) => storage::list(app, folder, &query).await,
        ("POST", ["files", folder]) => storage::upload(app, folder, request).await,
        ("POST", ["files", folder, "delete"]) => storage::delete(app, folder, request).await,
        ("GET", ["account"]) => account::show(app).await,
        ("POST", ["account", "keys"]) => keys::create(app, request).await,
        ("POST", ["account", "keys", id]) => keys::revoke(app, id).await,
        ("GET", ["docs"]) => Ok(reference::show()),
        ("GET", ["view" | "uploads", id]) => files::show(app, id, &query, request).await,
        ("GET", ["assets", _]) => assets::asset(request.uri().path()).ok_or_else(no_page),
        ("GET", ["openapi.yaml"]) => Ok(reference::document()),
        _ => Err(no_page()),
    }
}
