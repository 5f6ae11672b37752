//! Catalog: models with their prices and owners, and the versions that declare their inputs and outputs.

mod built_in;
mod check;
mod entries;
mod format;
mod samples;
mod search;
mod spec;

use std::sync::Arc;

use async_trait::async_trait;
pub(crate) use built_in::built_in_models;
pub(crate) use check::{Inputs, check_inputs, check_output};
pub(crate) use entries::Entries;
pub(crate) use format::{Format, Kind};
pub(crate) use samples::{sample_at, with_sample_urls};
pub(crate) use search::{Filter, Search, Sort, folded, trending_since};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
pub use spec::{Metadata, ModelSpec, Visibility, check_model_id};
pub(crate) use spec::{check_texts, checked_formats};

use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::hex::hex;
use crate::ledger::{Money, as_number};
use crate::string_enum::string_enum;
use crate::{Error, Result};

#[derive(Debug, Clone, Serialize)]
pub(crate) struct ModelSummary {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) username: String,
    pub(crate) description: String,
    pub(crate) is_official: bool,
    pub(crate) is_verified: bool,
    pub(crate) visibility: Visibility,
    #[serde(serialize_with = "as_number")]
    pub(crate) price: Money,
}

string_enum! {
    /// State of a model.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ModelState {
        /// Nodes run the model's tasks.
        #[default]
        Active = "active",
        /// Tasks can be created, and wait in the queue.
        Paused = "paused",
        /// No task can be created. The model's queued tasks were canceled.
        Retired = "retired",
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Model {
    #[serde(flatten)]
    pub(crate) summary: ModelSummary,
    #[serde(skip)]
    pub(crate) owner: AccountId,
    #[serde(rename = "model_metadata")]
    pub(crate) metadata: Box<RawValue>,
    pub(crate) created_at: Moment,
    pub(crate) updated_at: Moment,
}

/// Changes to a model; a field that is None stays unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelChange {
    /// Technical name.
    pub name: Option<String>,
    /// Description for people.
    pub description: Option<String>,
    /// Fields of [`Metadata`], by name; the other fields stay unchanged.
    pub metadata: Option<Map<String, Value>>,
    /// Price of one task.
    pub price: Option<Money>,
    /// Visibility of the model.
    pub visibility: Option<Visibility>,
    /// True if the model is verified to run on this service.
    pub is_verified: Option<bool>,
    /// True if the filter `playground` includes the model.
    pub is_playground: Option<bool>,
    /// State of the model.
    pub state: Option<ModelState>,
}

#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) id: i64,
    pub(crate) commit_hash: String,
    pub(crate) input_format: Box<RawValue>,
    pub(crate) output_format: Box<RawValue>,
}

#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) model: Model,
    pub(crate) version: Version,
    pub(crate) inputs: Format,
    pub(crate) state: ModelState,
}

#[derive(Debug, Clone)]
pub(crate) struct NewModel {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) owner: AccountId,
    pub(crate) description: String,
    pub(crate) is_official: bool,
    pub(crate) is_verified: bool,
    pub(crate) is_public: bool,
    pub(crate) is_playground: bool,
    pub(crate) price: Money,
    pub(crate) metadata: Box<RawValue>,
    pub(crate) likes: i64,
    pub(crate) downloads: i64,
    pub(crate) created_at: Moment,
    pub(crate) updated_at: Moment,
    pub(crate) version: NewVersion,
}

#[derive(Debug, Clone)]
pub(crate) struct NewVersion {
    pub(crate) commit_hash: String,
    pub(crate) input_format: String,
    pub(crate) output_format: String,
}

impl NewVersion {
    /// Creates a version. Its hash is computed from the formats, so that equal formats make an equal version.
    pub(crate) fn new(inputs: &Format, outputs: &Format) -> Result<Self> {
        let written = |format: &Format| {
            serde_json::to_string(format).map_err(|cause| Error::new("writing the format of a model", cause))
        };
        let (input_format, output_format) = (written(inputs)?, written(outputs)?);
        let commit_hash = short_hash(&format!("{input_format}\n{output_format}"));
        Ok(Self { commit_hash, input_format, output_format })
    }
}

pub(crate) fn short_hash(text: &str) -> String {
    hex(Sha256::digest(text).get(..8).unwrap_or_default())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Keep,
    /// Update the description and formats of a built-in model, but keep the values that people have set or caused.
    Refresh,
    /// Update the fields that the publisher has changed since the last publication. The operator's changes stay.
    Restate,
}

pub(crate) type ModelPage = (Vec<ModelSummary>, u64);

#[async_trait]
pub(crate) trait Catalog: Send + Sync {
    /// Returns a model with its active version, even if the caller may not see the model; may be ten seconds old.
    async fn published(&self, id: &str) -> Result<Option<Arc<Published>>>;
    /// Publishes models, all or none, except those of another owner; returns the number of new or changed models.
    async fn publish(&self, models: &[NewModel], existing: Existing) -> Result<u64>;
    /// Publishes and activates a version; false if it was active already, None if the owner has no such model.
    async fn publish_version(
        &self,
        owner: AccountId,
        model: &str,
        version: &NewVersion,
        now: Moment,
    ) -> Result<Option<bool>>;
    /// Changes a model, with effect on later tasks; false if there is no such model. The metadata replace the stored ones.
    async fn change_model(&self, model: &str, change: ModelChange, now: Moment) -> Result<bool>;
    /// Retention: deletes uses of models that are too old for the sort order `trending`.
    async fn forget_uses(&self, now: Moment) -> Result<()>;
}

#[async_trait]
pub(crate) trait ModelPages: Send + Sync {
    /// Returns a page of the models that the caller may see; other processes' changes may be missing for ten seconds.
    async fn models(&self, search: &Search) -> Result<ModelPage>;
}
