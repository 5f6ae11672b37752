//! Controls for testers: everything that a test of a client needs from the service and that the API must
//! not offer. They have a listener and a token of their own, and are off unless `Config::controls` is set.
//! A Rust program has the same as methods of `Controls`; both ways lead to the same code.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /` | the time of the service, whether its node is up, how much there is of everything |
//! | `POST /reset` | back to a fresh start |
//! | `POST /baseline` | makes the present state the one that a reset goes back to |
//! | `GET, POST, DELETE /faults` | lists, adds, clears faults |
//! | `DELETE /faults/{id}` | clears one |
//! | `POST /clock/advance` | sets the clock ahead |
//! | `PUT /accounts/{username}/balance` | sets what an account owns and owes |
//! | `POST /accounts/{username}/credit` | gives it money |
//! | `PUT /node` | switches the node of this process off and on |
//! | `GET /models`, `PUT, DELETE /models/{id}` | lists, writes, clears what models do instead of running |
//! | `GET, DELETE /journal` | lists, forgets the requests that were seen |
//!
//! Every request needs the header `authorization: Bearer <token>`. Responses and failures have the shape
//! of the API's. `docs/controls.md` shows each with curl.

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
mod switch;

use std::net::SocketAddr;
use std::sync::Arc;

use inferstore_server::Listener;
use subtle::ConstantTimeEq;

pub use fault::{Effect, Fault, Side};
pub use faults::KeptFault;
pub(crate) use http::router;
pub use journal::JournalEntry;
pub(crate) use middleware::{around_objects, around_the_api};
pub use operation::Operation;
pub use running::Amounts;
pub use scripts::{Script, Then};

use crate::lifecycle::app::App;
use crate::lifecycle::config::{Config, FREE_PORT};
use crate::lifecycle::listeners;
use crate::random::Randomness;
use crate::{Error, Result};
use faults::Faults;
use journal::Journal;
use reset::Baseline;
pub(crate) use scripts::Replacement;
pub(crate) use switch::{Held, Switch};

/// Controls for testers: with the token, everything in the service can be changed and broken.
#[derive(Clone)]
#[non_exhaustive]
pub struct ControlsConfig {
    /// Where the controls listen. Port 0 takes a free one.
    pub address: SocketAddr,
    /// What has to be sent in the header `authorization`, after `Bearer`; drawn when there is none.
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

/// What a running service keeps for testers.
pub(crate) struct Tester {
    faults: Faults,
    pub(crate) switch: Arc<Switch>,
    journal: Journal,
    baseline: tokio::sync::Mutex<Baseline>,
    url: String,
    token: String,
}

impl Tester {
    /// Binds the listener of the controls, where the settings turn them on.
    pub(crate) fn bind(config: &Config) -> Result<Option<(Arc<Self>, Listener)>> {
        let Some(settings) = &config.controls else { return Ok(None) };
        let token = match &settings.token {
            Some(token) if token.is_empty() => {
                return Err(Error::new("turning on the controls", "their token is empty"));
            }
            Some(token) => token.clone(),
            // Never from a seed: a guessed seed must not give the token.
            None => Randomness::new(None).word(32)?,
        };
        let listener = listeners::bind(settings.address)?;
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

    /// Whether this is the token, compared in constant time.
    fn admits(&self, token: &str) -> bool {
        self.token.as_bytes().ct_eq(token.as_bytes()).into()
    }
}

/// The controls of a running service. Clones control the same one.
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
    app: Arc<App>,
    tester: Arc<Tester>,
}

impl Controls {
    /// The controls of a service; None when they are off.
    pub(crate) fn of(app: &Arc<App>) -> Option<Self> {
        Some(Self { app: Arc::clone(app), tester: Arc::clone(app.tester.as_ref()?) })
    }

    /// Where the controls listen.
    pub fn url(&self) -> &str {
        &self.tester.url
    }

    /// What has to be sent in the header `authorization`, after `Bearer`.
    pub fn token(&self) -> &str {
        &self.tester.token
    }
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controls").field("url", &self.tester.url).field("token", &"…").finish()
    }
}
