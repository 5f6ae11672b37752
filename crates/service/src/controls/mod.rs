//! Controls for testers: everything that a test of a client needs from the service and that the API must
//! not offer. They have a listener and a token of their own, and are off unless `Config::controls` is set.
//! A Rust program has the same as methods of `Controls`; both ways lead to the same code.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /` | the time of the service, whether its node is up, how much there is of everything |
//! | `POST /reset` | back to a fresh start |
//! | `POST /fixtures` | adds accounts, models and files from a folder |
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
mod fault;
mod faults;
mod fixtures;
mod http;
mod journal;
mod middleware;
mod operation;
mod reset;
mod running;
mod scripts;

use std::path::Path;
use std::sync::Arc;

use subtle::ConstantTimeEq;

pub use fault::{Effect, Fault, Side};
pub use faults::KeptFault;
pub use fixtures::LoadedFixtures;
pub(crate) use http::router;
pub use journal::JournalEntry;
pub(crate) use middleware::around_the_api;
pub use operation::Operation;
pub use running::Amounts;
pub use scripts::{Script, Then};

use crate::Error;
use crate::database::Database;
use crate::http::listener::Listener;
use crate::lifecycle::app::App;
use crate::nodes::RunHook;
use crate::random::Randomness;
use faults::Faults;
use journal::Journal;
use reset::InitialState;
use scripts::Scripts;

/// What a running service keeps for testers.
pub(crate) struct Tester {
    faults: Faults,
    scripts: Arc<Scripts>,
    journal: Journal,
    initial: InitialState,
    url: String,
    token: String,
}

impl Tester {
    pub(crate) fn new(
        data: &Path,
        database: &Arc<dyn Database>,
        listener: &Listener,
        token: Option<String>,
        seed: Option<u64>,
    ) -> Result<Self, Error> {
        let token = match token {
            Some(token) if token.is_empty() => {
                return Err(Error::new("turning on the controls", "their token is empty"));
            }
            Some(token) => token,
            // Never from a seed: a guessed seed must not give the token.
            None => Randomness::new(None).word(32)?,
        };
        Ok(Self {
            faults: Faults::new(seed),
            scripts: Arc::default(),
            journal: Journal::default(),
            initial: InitialState::new(data, Arc::clone(database)),
            url: listener.url(),
            token,
        })
    }

    /// What the scripts change about the runs of the local node.
    pub(crate) fn run_hook(&self) -> Arc<dyn RunHook> {
        Arc::clone(&self.scripts) as Arc<dyn RunHook>
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
/// use inferstore_service::{Config, Fault, Operation, Script, Service};
///
/// let service = Service::start(Config::ephemeral().with_controls()).await?;
/// let controls = service.controls()?;
/// controls.add_fault(Fault::lose_response().on(Operation::CreateTask).once())?;
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

    fn tester(&self) -> &Tester {
        &self.tester
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
