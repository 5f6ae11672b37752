//! Listeners of a process: bound before any part runs, served once all parts run.

use std::net::SocketAddr;

use axum::Router;
use inferstore_server::Listener;

use crate::config::Config;
use crate::http::listeners::{bind, url};
use crate::{Result, api};

pub(super) struct Listeners {
    api: Option<Listener>,
    storage: Option<Listener>,
    operations: Option<Listener>,
    nodes: Option<Listener>,
}

#[cfg_attr(test, derive(Clone))]
pub(crate) struct Routers {
    pub(crate) api: Router,
    pub(crate) storage: Router,
    pub(super) operations: Router,
    pub(super) nodes: Router,
}

impl Listeners {
    pub(super) fn bind(config: &Config, serves: bool) -> Result<Self> {
        let bind =
            |address: Option<SocketAddr>, option| address.map(|address| bind(address, option)).transpose();
        let serves_clients = serves && config.roles.api;
        Ok(Self {
            api: bind(serves_clients.then_some(config.api), "--port")?,
            storage: bind(serves_clients.then_some(config.storage), "--storage-port")?,
            operations: bind(config.operations, "--operations-port")?,
            nodes: bind(config.nodes.filter(|_| config.roles.nodes), "--nodes-port")?,
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

    pub(super) fn serve(self, serve: impl Fn(Option<Listener>, Router), routers: Routers) {
        serve(self.api, routers.api);
        serve(self.storage, routers.storage);
        serve(self.operations, routers.operations);
        // A claim waits for a task, which would go to a node that is gone.
        serve(self.nodes.map(Listener::dropping_half_closed), routers.nodes);
    }
}
