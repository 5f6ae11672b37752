//! Which models nodes outside the process serve: the built-in methods are left to those kinds that have no such node,
//! because an operator who starts a node for a kind has something better.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use crate::Result;
use crate::lifecycle::app::App;

/// The models that a live node outside the process serves, as of the last refresh.
#[derive(Debug, Default)]
pub(crate) struct OutsideModels(RwLock<BTreeSet<String>>);

impl OutsideModels {
    /// Returns whether a live node outside the process serves the model.
    pub(super) fn contains(&self, model: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(model)
    }

    /// Reads which nodes are alive: those seen within a lease.
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
            // The tasks that waited for that node are for the built-in method now.
            app.dispatcher.look_for_all();
        }
        Ok(())
    }
}
