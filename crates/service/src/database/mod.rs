//! The seam between the service and its database: small traits, each stated by the part of the
//! service that needs it. SQLite implements them for one machine; another database can.

pub(crate) mod sqlite;

use async_trait::async_trait;

use crate::Error;
use crate::accounts::Accounts;
use crate::catalog::Catalog;
use crate::clock::Moment;
use crate::ledger::Ledger;
use crate::nodes::Registry;
use crate::object_storage::Files;
use crate::queue::Queue;

/// Everything the service keeps.
pub(crate) trait Database: Accounts + Catalog + Files + Health + Ledger + Queue + Registry {}

impl<T: Accounts + Catalog + Files + Health + Ledger + Queue + Registry> Database for T {}

/// What operations need of the database.
#[async_trait]
pub(crate) trait Health: Send + Sync {
    /// Commits a write without effect.
    async fn check_writer(&self) -> Result<(), Error>;
    /// Since when the task has waited that has waited longest.
    async fn oldest_queued(&self) -> Result<Option<Moment>, Error>;
}
