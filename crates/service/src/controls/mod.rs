//! Test controls: functions that tests of clients need and the API must not offer, on a listener and with a token of
//! their own; off unless `Config::controls` is set. `Controls` offers them to Rust programs. Every request needs the
//! header `authorization: Bearer <token>`; responses have the format of the API. `docs/controls.md` shows each request.

mod corrupt_body;
mod endpoint;
mod fault;
mod faults;
mod http;
mod journal;
mod middleware;
mod operation;
mod reset;
mod running;
mod scripts;

use std::sync::Arc;

use inferstore_server::Listener;
use subtle::ConstantTimeEq;

pub use fault::{Effect, Fault, Side};
pub use faults::KeptFault;
pub(crate) use http::router;
pub use journal::JournalEntry;
pub use operation::Operation;
pub use running::Amounts;

use crate::admin::Admin;
use crate::config::Config;
use crate::http::listeners;
use crate::jobs::Jobs;
use crate::nodes::{Nodes, Switch};
use crate::random::Randomness;
use crate::{Error, Result};
use faults::Faults;
use journal::Journal;
use reset::Baseline;

pub(crate) struct Tester {
    faults: Faults,
    switch: Arc<Switch>,
    journal: Journal,
    baseline: tokio::sync::Mutex<Baseline>,
    url: String,
    token: String,
}

impl Tester {
    pub(crate) fn bind(config: &Config) -> Result<Option<(Arc<Self>, Listener)>> {
        let Some(settings) = &config.controls else { return Ok(None) };
        let token = match &settings.token {
            Some(token) if token.is_empty() => {
                return Err(Error::new("turning on the controls", "their token is empty"));
            }
            Some(token) => token.clone(),
            // The token is never seeded, so that a guessed seed does not reveal the token.
            None => Randomness::new(None).word(32)?,
        };
        let listener = listeners::bind(settings.address, "--controls-port")?;
        let tester = Self {
            faults: Faults::new(config.seed),
            switch: Arc::new(Switch::new()),
            journal: Journal::default(),
            baseline: tokio::sync::Mutex::default(),
            url: listeners::url(&listener),
            token,
        };
        Ok(Some((Arc::new(tester), listener)))
    }

    pub(crate) fn switch(&self) -> Arc<Switch> {
        Arc::clone(&self.switch)
    }

    fn admits(&self, token: &str) -> bool {
        self.token.as_bytes().ct_eq(token.as_bytes()).into()
    }
}

/// Test controls of a running service. Clones control the same service.
///
/// ```
/// # async fn example() -> Result<(), inferstore_service::Error> {
/// use inferstore_api::operations;
/// use inferstore_service::{Config, Fault, Script, Service};
///
/// let service = Service::start(Config::ephemeral().with_controls()).await?;
/// let controls = service.controls()?;
/// controls.add_fault(Fault::lose_response().on(operations::CREATE_TASK).once())?;
/// controls.let_model("color-extraction", Script::stay_queued()).await?;
/// // … the test …
/// controls.reset().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Controls {
    pub(crate) tester: Arc<Tester>,
    pub(crate) admin: Admin,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) jobs: Arc<Jobs>,
}

impl Controls {
    /// Returns the base URL of the controls.
    pub fn url(&self) -> &str {
        &self.tester.url
    }

    /// Returns the token for the header `authorization`, after `Bearer`.
    pub fn token(&self) -> &str {
        &self.tester.token
    }
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controls").field("url", &self.tester.url).field("token", &"…").finish()
    }
}
