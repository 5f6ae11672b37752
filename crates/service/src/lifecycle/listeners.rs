//! Listeners of a process: bound before any part runs, served once all parts run.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use inferstore_server::Listener;

use crate::lifecycle::app::App;
use crate::lifecycle::config::Config;
use crate::{Error, Result, api, nodes, object_storage, operations};

pub(super) struct Listeners {
    api: Option<Listener>,
    storage: Option<Listener>,
    operations: Option<Listener>,
    nodes: Option<Listener>,
}

impl Listeners {
    /// Binds the configured listeners; the API and object storage only if the process serves clients.
    pub(super) fn bind(config: &Config, serves: bool) -> Result<Self> {
        let bind = |address: Option<SocketAddr>| address.map(bind).transpose();
        let serves_clients = serves && config.roles.api;
        Ok(Self {
            api: bind(serves_clients.then_some(config.api))?,
            storage: bind(serves_clients.then_some(config.storage))?,
            operations: bind(config.operations)?,
            nodes: bind(config.nodes.filter(|_| config.roles.nodes))?,
        })
    }

    pub(super) fn api_url(&self) -> Option<String> {
        self.api.as_ref().map(|listener| format!("{}{}", url(listener), api::ROOT))
    }

    pub(super) fn storage_address(&self) -> Option<SocketAddr> {
        self.storage.as_ref().map(Listener::address)
    }

    pub(super) fn operations_url(&self) -> Option<String> {
        self.operations.as_ref().map(url)
    }

    pub(super) fn nodes_url(&self) -> Option<String> {
        self.nodes.as_ref().map(url)
    }

    pub(super) fn serve(self, app: &Arc<App>) {
        serve(app, self.api, api::router(app));
        serve(app, self.storage, object_storage::router(app));
        serve(app, self.operations, operations::router(app));
        serve(app, self.nodes, nodes::router(app));
    }
}

pub(crate) fn bind(address: SocketAddr) -> Result<Listener> {
    Listener::bind(address).map_err(|cause| {
        Error::new(format!("listening on {address}"), cause)
            .with_hint("choose another port for this listener, or an address of this machine")
    })
}

pub(crate) fn url(listener: &Listener) -> String {
    format!("http://{}", listener.address())
}

pub(super) fn serve(app: &Arc<App>, listener: Option<Listener>, router: Router) {
    if let Some(listener) = listener {
        app.parts.spawn("listener", listener.serve(router, app.server.clone()));
    }
}
