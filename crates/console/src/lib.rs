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

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::response::Redirect;
use axum::routing::{get, post};
use inferstore::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::form::MAX_FORM;
use crate::pages::{account, assets, catalog, model, run, storage, task};
use crate::state::{App, Shared};

/// A console that is being served. It ends when it is dropped.
pub struct Console {
    url: String,
    ended: CancellationToken,
}

impl Console {
    /// Serves a console of the service that the client reaches, at this address; port 0 chooses a free one.
    ///
    /// # Errors
    /// When the address cannot be used, or the system has no temporary folder or no random numbers.
    pub async fn start(client: Client, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let app = Arc::new(App::new(client, address.port())?);
        let url = format!("http://{address}/?token={}", app.guard.token());
        let ended = app.ended.clone();
        let serve =
            axum::serve(listener, router(app)).with_graceful_shutdown(ended.clone().cancelled_owned());
        tokio::spawn(async move {
            if let Err(error) = serve.await {
                tracing::error!(%error, "the console ends");
            }
        });
        Ok(Self { url, ended })
    }

    /// The address for a browser, with the token in it, which is all that the use of the account needs.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// Without the token.
impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.url.split('?').next().unwrap_or_default();
        f.debug_struct("Console").field("address", &address).finish_non_exhaustive()
    }
}

fn router(app: Shared) -> Router {
    let limit = DefaultBodyLimit::max(MAX_FORM);
    Router::new()
        .route("/", get(catalog::show))
        .route("/models/{id}", get(model::show).post(model::run).layer(limit))
        .route("/runs", get(run::list))
        .route("/runs/events", get(run::events))
        .route("/runs/{run}", get(run::show))
        .route("/tasks", get(task::list))
        .route("/tasks/{id}", get(task::show))
        .route("/tasks/{id}/cancel", post(task::cancel))
        .route("/files", get(async || Redirect::to("/files/samples")))
        .route("/files/{folder}", get(storage::list).post(storage::upload).layer(limit))
        .route("/files/{folder}/delete", post(storage::delete))
        .route("/account", get(account::show))
        .route("/docs", get(assets::reference))
        .route("/openapi.yaml", get(assets::document))
        .route("/view/{id}", get(files::show))
        .route("/uploads/{id}", get(files::show))
        .route("/assets/{name}", get(assets::asset))
        .fallback(async || Failure::not_found("The console has no such page."))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::check))
        .with_state(app)
}
