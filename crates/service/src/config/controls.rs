//! Settings of the test controls.

use std::net::SocketAddr;

use super::FREE_PORT;

/// Settings of the test controls. A client with the token can change and break everything in the service.
#[derive(Clone)]
#[non_exhaustive]
pub struct ControlsConfig {
    /// Address of the controls' listener. Port 0 takes a free port.
    pub address: SocketAddr,
    /// Token in the header `authorization`, after `Bearer`; None generates a token.
    pub token: Option<String>,
}

impl Default for ControlsConfig {
    fn default() -> Self {
        Self { address: FREE_PORT, token: None }
    }
}

impl std::fmt::Debug for ControlsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlsConfig")
            .field("address", &self.address)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .finish()
    }
}
