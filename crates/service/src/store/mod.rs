//! The seam between the service and its database: six small traits, each told by the part of the
//! service that needs it. SQLite implements them for one machine; another database can.

pub(crate) mod sqlite;

use crate::accounts::Accounts;
use crate::catalog::Catalog;
use crate::ledger::Ledger;
use crate::nodes::Registry;
use crate::queue::Queue;
use crate::storage::Files;

/// Everything the service keeps.
pub(crate) trait Store: Accounts + Catalog + Files + Ledger + Queue + Registry {}

impl<T: Accounts + Catalog + Files + Ledger + Queue + Registry> Store for T {}
