//! The listeners of a process: bound before anything runs, served when everything does.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;

use crate::http::listener::{Listener, Shared};
use crate::lifecycle::app::App;
use crate::lifecycle::config::Config;
use crate::{Result, api, nodes, object_storage, operations};

/// The listeners of a process, where it has them.
pub(super) struct Listeners {
    api: Option<Listener>,
    storage: Option<Listener>,
    operations: Option<Listener>,
    nodes: Option<Listener>,
}

impl Listeners {
    /// Binds those that the settings ask for; without those of clients when it does not serve.
    pub(super) fn bind(config: &Config, serves: bool) -> Result<Self> {
        let bind = |address: Option<SocketAddr>| address.map(Listener::bind).transpose();
        let serves_clients = serves && config.roles.api;
        Ok(Self {
            api: bind(serves_clients.then_some(config.api))?,
            storage: bind(serves_clients.then_some(config.storage))?,
            operations: bind(config.operations)?,
            nodes: bind(config.nodes.filter(|_| config.roles.nodes))?,
        })
    }

    /// The base URL of the API.
    pub(super) fn api_url(&self) -> Option<String> {
        self.api.as_ref().map(|listener| format!("{}{}", listener.url(), api::ROOT))
    }

    pub(super) fn storage_address(&self) -> Option<SocketAddr> {
        self.storage.as_ref().map(|listener| listener.address)
    }

    pub(super) fn operations_url(&self) -> Option<String> {
        self.operations.as_ref().map(Listener::url)
    }

    pub(super) fn nodes_url(&self) -> Option<String> {
        self.nodes.as_ref().map(Listener::url)
    }

    /// Serves all of them until the service stops.
    pub(super) fn serve(self, app: &Arc<App>) {
        serve(app, self.api, api::router(app));
        serve(app, self.storage, object_storage::router(app));
        serve(app, self.operations, operations::router(app));
        serve(app, self.nodes, nodes::router(app));
    }
}

/// Serves a listener, where there is one, until the service stops.
pub(super) fn serve(app: &Arc<App>, listener: Option<Listener>, router: Router) {
    let shared = Shared {
        limits: app.config.limits,
        connections: Arc::clone(&app.connections),
        shutdown_timeout: app.config.shutdown_timeout,
        stop: app.parts.stop.clone(),
    };
    if let Some(listener) = listener {
        app.parts.spawn("listener", listener.serve(router, shared));
    }
}
