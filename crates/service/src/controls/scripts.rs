//! Controls of the scripts of models.

use std::collections::BTreeMap;

use super::Controls;
use crate::nodes::Script;
use crate::{Error, Result};

impl Controls {
    /// Sets the script of a model, replacing an earlier one. Fails without such a model, or for a contradictory script.
    pub async fn let_model(&self, model: &str, script: Script) -> Result<()> {
        let doing = || format!("writing a script for {model:?}");
        if let Some(mistake) = script.mistake() {
            return Err(Error::new(doing(), mistake));
        }
        if self.admin.database.published(model).await?.is_none() {
            return Err(Error::not_found(doing(), "there is no such model"));
        }
        // The pause waits for a claim that has read the old scripts, so that the script applies to every later task.
        let paused = self.tester.switch.pause().await;
        self.tester.switch.scripts.lock().insert(model.to_owned(), script);
        drop(paused);
        self.scripts_changed().await
    }

    /// Clears the script of a model; false if there was none.
    pub async fn clear_script(&self, model: &str) -> Result<bool> {
        let was_there = self.tester.switch.scripts.lock().remove(model).is_some();
        self.scripts_changed().await?;
        Ok(was_there)
    }

    /// Returns the active scripts, with their remaining `times`.
    pub fn scripts(&self) -> BTreeMap<String, Script> {
        self.tester.switch.scripts.lock().clone()
    }

    async fn scripts_changed(&self) -> Result<()> {
        self.nodes.heartbeat().await?;
        self.admin.dispatcher.look_for_all();
        Ok(())
    }
}
