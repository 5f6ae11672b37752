//! Addresses of listeners.

use std::net::SocketAddr;

use inferstore_server::Listener;

use crate::{Error, Result};

pub(crate) fn bind(address: SocketAddr, option: &str) -> Result<Listener> {
    Listener::bind(address).map_err(|cause| {
        Error::new(format!("listening on {address} ({option})"), cause)
            .with_hint("choose another port with that option, such as 0 for one that is free, or an address of this machine")
    })
}

pub(crate) fn url(listener: &Listener) -> String {
    format!("http://{}", listener.address())
}
