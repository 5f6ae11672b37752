//! The seam between the service and its database: seven small traits, each told by the part of the
//! service that needs it. SQLite implements them for one machine; another database can.

pub(crate) mod sqlite;

use crate::accounts::Accounts;
use crate::admin::AdminDatabase;
use crate::catalog::Catalog;
use crate::ledger::Ledger;
use crate::nodes::Registry;
use crate::object_storage::Files;
use crate::queue::Queue;

/// Everything the service keeps.
pub(crate) trait Database:
    Accounts + AdminDatabase + Catalog + Files + Ledger + Queue + Registry
{
}

impl<T: Accounts + AdminDatabase + Catalog + Files + Ledger + Queue + Registry> Database for T {}
