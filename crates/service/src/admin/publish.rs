//! Publication of models: an account adds a model and versions, and decides on its visibility and price. Like all
//! administration, the methods are for programs that embed the service.

use super::Admin;
use crate::catalog::{Existing, ModelChange, ModelSpec, ModelState, NewVersion, checked_formats};
use crate::ledger::Money;
use crate::{Error, Result};

impl Admin {
    /// Publishes a new model under an account, which earns the prices of its tasks. Returns the hash of the first
    /// version. The model is not verified, and is served once a node runs it.
    ///
    /// # Errors
    /// If there is no such account, the model is invalid (the error contains the reason), its identifier is taken, or
    /// the database cannot be written.
    pub async fn publish_model(&self, username: &str, spec: ModelSpec) -> Result<String> {
        let owner = self.account(username, "publishing a model").await?;
        let model = spec.to_model(&owner, self.clock.now())?;
        let commit_hash = model.version.commit_hash.clone();
        match self.database.publish(&[model], Existing::Keep).await? {
            0 => {
                let cause = "the identifier is taken; a version can be added to one's own model";
                Err(Error::new(format!("publishing the model {:?}", spec.id), cause))
            }
            _ => Ok(commit_hash),
        }
    }

    /// Publishes a version of a model and activates it. Existing tasks keep the formats of their create. Returns the
    /// hash of the version, which is the same for a version that existed before.
    ///
    /// # Errors
    /// If the account has no such model, the formats (JSON objects from parameter name to descriptor) are invalid, or
    /// the database cannot be written.
    pub async fn publish_version(
        &self,
        username: &str,
        model: &str,
        input_format: &str,
        output_format: &str,
    ) -> Result<String> {
        let doing = || format!("publishing a version of the model {model:?}");
        let owner = self.account(username, "publishing a version of a model").await?;
        let (inputs, outputs) =
            checked_formats(input_format, output_format).map_err(|why| Error::new(doing(), why))?;
        let version = NewVersion::new(&inputs, &outputs)?;
        match self.database.publish_version(owner.id, model, &version, self.clock.now()).await? {
            Some(_) => Ok(version.commit_hash),
            None => Err(Error::not_found(doing(), format!("{username:?} has no such model"))),
        }
    }

    /// Changes a model. Existing tasks continue at their price, and a restart keeps the change. Queued tasks of a
    /// paused model wait, and those of a retired model are canceled.
    ///
    /// # Errors
    /// If there is no such model, the price is negative, or the database cannot be written.
    pub async fn change_model(&self, model: &str, change: ModelChange) -> Result<()> {
        let doing = || format!("changing the model {model:?}");
        if change.price.is_some_and(|price| price < Money::ZERO) {
            return Err(Error::new(doing(), "a price is not below zero"));
        }
        if !self.database.change_model(model, change, self.clock.now()).await? {
            return Err(Error::not_found(doing(), "there is no such model"));
        }
        if change.state == Some(ModelState::Retired) {
            self.cancel_queued(model).await?;
        }
        self.dispatcher.look_for_all();
        Ok(())
    }

    async fn cancel_queued(&self, model: &str) -> Result<()> {
        loop {
            let queued = self.database.queued_of_model(model).await?;
            if queued.is_empty() {
                return Ok(());
            }
            for (account, task) in queued {
                self.database.cancel(account, &task, self.clock.now()).await?;
            }
        }
    }
}
