//! Publication of models: an account adds a model and versions, and decides on its visibility and price.

use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::Admin;
use crate::accounts::AccountId;
use crate::catalog::{
    Existing, Metadata, ModelChange, ModelSpec, ModelState, NewVersion, check_texts, checked_formats,
};
use crate::ledger::Money;
use crate::{Error, Result};

impl Admin {
    /// Publishes a new model under an account, which earns its prices. Returns the hash of the first version. The model
    /// is unverified, and served once a node runs it. Fails for an unknown account, or an invalid or taken model.
    pub async fn publish_model(&self, username: &str, spec: ModelSpec) -> Result<String> {
        match self.put_model(username, &spec, Existing::Keep).await? {
            (_, _, 0) => {
                let cause = "the identifier is taken; a version can be added to one's own model";
                Err(Error::new(spec.publishing(), cause))
            }
            (_, commit_hash, _) => Ok(commit_hash),
        }
    }

    /// Publishes a model, or what its publisher has changed since the last publication: name, description, metadata,
    /// price, visibility, and the formats as a version. A change by the operator stays, unless the publisher changes
    /// the same field. Returns the hash of the version. Fails for an unknown account, or an invalid or another's model.
    pub async fn republish_model(&self, username: &str, spec: ModelSpec) -> Result<String> {
        let (owner, commit_hash, _) = self.put_model(username, &spec, Existing::Restate).await?;
        match self.database.published(&spec.id).await? {
            Some(published) if published.model.owner == owner => Ok(commit_hash),
            _ => Err(Error::new(
                spec.publishing(),
                "another account has published a model with this identifier",
            )),
        }
    }

    async fn put_model(
        &self,
        username: &str,
        spec: &ModelSpec,
        existing: Existing,
    ) -> Result<(AccountId, String, u64)> {
        let owner = self.account(username, "publishing a model").await?;
        let model = spec.to_model(&owner, self.clock.now())?;
        let commit_hash = model.version.commit_hash.clone();
        let changed = self.database.publish(&[model], existing).await?;
        Ok((owner.id, commit_hash, changed))
    }

    /// Publishes and activates a version of a model. Existing tasks keep their formats. Returns the hash, equal for an
    /// equal version. Fails without such a model of the account, or for invalid formats (JSON objects of descriptors).
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
    /// paused model wait, and those of a retired one are canceled. Fails if the model is missing or a value invalid.
    pub async fn change_model(&self, model: &str, mut change: ModelChange) -> Result<()> {
        let doing = || format!("changing the model {model:?}");
        if change.price.is_some_and(|price| price < Money::ZERO) {
            return Err(Error::new(doing(), "a price is not below zero"));
        }
        check_texts(change.name.as_deref(), change.description.as_deref())
            .map_err(|why| Error::new(doing(), why))?;
        if let Some(fields) = change.metadata.take() {
            change.metadata = Some(self.with_metadata(model, fields).await?);
        }
        let state = change.state;
        if !self.database.change_model(model, change, self.clock.now()).await? {
            return Err(Error::not_found(doing(), "there is no such model"));
        }
        if state == Some(ModelState::Retired) {
            self.cancel_queued(model).await.map_err(Error::after_a_change)?;
        }
        self.dispatcher.look_for_all();
        Ok(())
    }

    async fn with_metadata(&self, model: &str, fields: Map<String, Value>) -> Result<Map<String, Value>> {
        let doing = || format!("changing the metadata of the model {model:?}");
        Metadata::deserialize(&fields).map_err(|why| Error::new(doing(), why))?;
        let published = self.database.published(model).await?;
        let published = published.ok_or_else(|| Error::not_found(doing(), "there is no such model"))?;
        let stored = published.model.metadata.get();
        let mut metadata: Map<String, Value> =
            serde_json::from_str(stored).map_err(|cause| Error::new(doing(), cause))?;
        metadata.extend(fields);
        Ok(metadata)
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
