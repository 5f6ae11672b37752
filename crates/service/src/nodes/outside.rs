//! Models of external nodes. Built-in methods run only models without such a node, because an operator who starts a
//! node for a model has a better implementation.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use crate::Result;
use crate::lifecycle::app::App;

/// Models that live external nodes serve, as of the last refresh.
#[derive(Debug, Default)]
pub(crate) struct OutsideModels(RwLock<BTreeSet<String>>);

impl OutsideModels {
    pub(super) fn contains(&self, model: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(model)
    }

    /// Reads the models of live nodes, which have a heartbeat within a lease duration.
    pub(super) async fn refresh(&self, app: &App) -> Result<()> {
        let since = app.clock.now().before(app.config.lease);
        let models: BTreeSet<String> =
            app.database.models_of_outside_nodes(since).await?.into_iter().collect();
        let lost_some = {
            let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
            let lost_some = known.iter().any(|model| !models.contains(model));
            *known = models;
            lost_some
        };
        if lost_some {
            // Built-in methods now run the tasks that waited for the lost node.
            app.dispatcher.look_for_all();
        }
        Ok(())
    }
}
