//! Publishing models: an account adds a model and new versions of it, decides who sees it and what it
//! costs. Like everything that the operator can do, this is for programs that embed the service.

use super::Admin;
use crate::Error;
use crate::catalog::{Existing, ModelSpec, NewVersion, Visibility, checked_formats};
use crate::ledger::Money;

impl Admin {
    /// Publishes a new model under an account, which earns what its tasks cost. Returns the hash of its
    /// first version. The model is not verified; it is served as soon as a node runs it.
    ///
    /// # Errors
    /// When there is no such account, the model cannot be published as it is (it says why), its identifier
    /// is taken, or the database cannot be written.
    pub async fn publish_model(&self, username: &str, spec: ModelSpec) -> Result<String, Error> {
        let owner = self.account(username, "publishing a model").await?;
        let model = spec.to_model(&owner, self.app.clock.now())?;
        let commit_hash = model.version.commit_hash.clone();
        match self.app.database.publish(&[model], Existing::Keep).await? {
            0 => {
                let cause = "the identifier is taken; a version can be added to one's own model";
                Err(Error::new(publishing(&spec), cause))
            }
            _ => Ok(commit_hash),
        }
    }

    /// Publishes a version of a model and makes it the active one. Tasks that exist keep the formats that
    /// they were created with. Returns the hash of the version; a version that was there before has the
    /// same one.
    ///
    /// # Errors
    /// When the account has no such model, the formats (JSON objects from parameter name to descriptor)
    /// cannot be published, or the database cannot be written.
    pub async fn publish_version(
        &self,
        username: &str,
        model: &str,
        input_format: &str,
        output_format: &str,
    ) -> Result<String, Error> {
        let doing = || format!("publishing a version of the model {model:?}");
        let owner = self.account(username, "publishing a version of a model").await?;
        let (inputs, outputs) =
            checked_formats(input_format, output_format).map_err(|why| Error::new(doing(), why))?;
        let version = NewVersion::new(&inputs, &outputs)?;
        match self.app.database.publish_version(owner.id, model, &version, self.app.clock.now()).await? {
            Some(_) => Ok(version.commit_hash),
            None => Err(Error::new(doing(), format!("{username:?} has no such model"))),
        }
    }

    /// Changes what one inference on a model costs. Tasks that exist keep their price; a restart keeps
    /// the new one.
    ///
    /// # Errors
    /// When there is no such model, the price is below zero, or the database cannot be written.
    pub async fn set_price(&self, model: &str, price: Money) -> Result<(), Error> {
        let doing = || format!("changing the price of the model {model:?}");
        if price < Money::ZERO {
            return Err(Error::new(doing(), "a price is not below zero"));
        }
        known(self.app.database.set_price(model, price, self.app.clock.now()).await?, doing)
    }

    /// Shows a model to everyone, or to its owner alone. Tasks that exist go on.
    ///
    /// # Errors
    /// When there is no such model, or the database cannot be written.
    pub async fn set_visibility(&self, model: &str, visibility: Visibility) -> Result<(), Error> {
        let is_public = visibility == Visibility::Public;
        let done = self.app.database.set_public(model, is_public, self.app.clock.now()).await?;
        known(done, || format!("changing who sees the model {model:?}"))
    }

    /// Says that a model is verified to run on this service, or that it is not.
    ///
    /// # Errors
    /// When there is no such model, or the database cannot be written.
    pub async fn set_verified(&self, model: &str, is_verified: bool) -> Result<(), Error> {
        let done = self.app.database.set_verified(model, is_verified, self.app.clock.now()).await?;
        known(done, || format!("verifying the model {model:?}"))
    }

    /// Says that a model belongs to the playground, or that it does not.
    ///
    /// # Errors
    /// When there is no such model, or the database cannot be written.
    pub async fn set_playground(&self, model: &str, is_playground: bool) -> Result<(), Error> {
        let done = self.app.database.set_playground(model, is_playground, self.app.clock.now()).await?;
        known(done, || format!("changing the playground for the model {model:?}"))
    }
}

fn publishing(spec: &ModelSpec) -> String {
    format!("publishing the model {:?}", spec.id)
}

fn known(done: bool, doing: impl Fn() -> String) -> Result<(), Error> {
    if done { Ok(()) } else { Err(Error::new(doing(), "there is no such model")) }
}
