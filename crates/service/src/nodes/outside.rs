//! Models of external nodes, which built-in methods do not run: the operator's node is the better implementation.

use std::collections::BTreeSet;

use parking_lot::RwLock;

use crate::Result;
use crate::clock::Moment;
use crate::database::Database;

#[derive(Debug, Default)]
pub(crate) struct OutsideModels(RwLock<BTreeSet<String>>);

impl OutsideModels {
    pub(super) fn contains(&self, model: &str) -> bool {
        self.0.read().contains(model)
    }

    /// Reads the models of nodes with a heartbeat since this moment; true if a model has lost its last such node.
    pub(super) async fn refresh(&self, database: &dyn Database, since: Moment) -> Result<bool> {
        let models: BTreeSet<String> = database.models_of_outside_nodes(since).await?.into_iter().collect();
        let mut known = self.0.write();
        let lost_some = known.iter().any(|model| !models.contains(model));
        *known = models;
        Ok(lost_some)
    }
}
