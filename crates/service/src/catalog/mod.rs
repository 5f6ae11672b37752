//! The catalog: models with their prices and owners, and the versions that declare what goes in and
//! what comes out.

mod built_in;
mod check;
mod entries;
mod format;
mod samples;
mod search;
mod spec;

use std::sync::Arc;

use async_trait::async_trait;
pub(crate) use built_in::publish_built_in;
pub(crate) use check::{Inputs, check_inputs, check_output};
pub(crate) use entries::Entries;
pub(crate) use format::{Format, Kind};
pub(crate) use samples::{sample_at, with_sample_urls};
pub(crate) use search::{Filter, Search, Sort, folded, trending_since};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
pub(crate) use spec::checked_formats;
pub use spec::{Metadata, ModelSpec, Visibility};

use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::{Money, as_number};
use crate::words::words;
use crate::{Error, Result};

/// A model as lists show it.
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

words! {
    /// State of a model.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ModelState {
        /// Tasks are run.
        #[default]
        Active = "active",
        /// Tasks are created and wait.
        Paused = "paused",
        /// No task is created, and tasks that waited were canceled.
        Retired = "retired",
    }
}

/// A model as its own record shows it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Model {
    #[serde(flatten)]
    pub(crate) summary: ModelSummary,
    #[serde(skip)]
    pub(crate) owner: AccountId,
    /// A JSON object.
    #[serde(rename = "model_metadata")]
    pub(crate) metadata: Box<RawValue>,
    pub(crate) created_at: Moment,
    pub(crate) updated_at: Moment,
}

/// What changes about a model; None leaves it as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelChange {
    /// What one inference costs.
    pub price: Option<Money>,
    /// Who sees it.
    pub visibility: Option<Visibility>,
    /// Whether it is verified to run on this service.
    pub is_verified: Option<bool>,
    /// Whether the filter `playground` finds it.
    pub is_playground: Option<bool>,
    /// Whether its tasks are run.
    pub state: Option<ModelState>,
}

/// A version of a model.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) id: i64,
    pub(crate) commit_hash: String,
    /// Parameter name to descriptor, a JSON object.
    pub(crate) input_format: Box<RawValue>,
    pub(crate) output_format: Box<RawValue>,
}

/// A model with its active version, ready to check inputs.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) model: Model,
    pub(crate) version: Version,
    /// The input format of the version.
    pub(crate) inputs: Format,
    pub(crate) state: ModelState,
}

/// A model to be published.
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
    /// The version that becomes the active one.
    pub(crate) version: NewVersion,
}

/// A version to be published with its model.
#[derive(Debug, Clone)]
pub(crate) struct NewVersion {
    pub(crate) commit_hash: String,
    pub(crate) input_format: String,
    pub(crate) output_format: String,
}

impl NewVersion {
    /// A version is what it declares: its hash is made from the formats.
    pub(crate) fn new(inputs: &Format, outputs: &Format) -> Result<Self> {
        let written = |format: &Format| {
            serde_json::to_string(format).map_err(|cause| Error::new("writing the format of a model", cause))
        };
        let (input_format, output_format) = (written(inputs)?, written(outputs)?);
        let commit_hash = short_hash(&format!("{input_format}\n{output_format}"));
        Ok(Self { commit_hash, input_format, output_format })
    }
}

/// The first 16 hexadecimal digits of the SHA-256 of a text.
pub(crate) fn short_hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What to do with a model that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays as it is.
    Keep,
    /// The service knows it by itself: what it is and declares is brought up to date, while what people
    /// have decided or done since (price, visibility, verified, playground, likes, downloads) stays.
    Refresh,
}

/// Models on a page of the catalog, and how many there are in all.
pub(crate) type ModelPage = (Vec<ModelSummary>, u64);

/// What the store knows of models. Every method is one transaction.
#[async_trait]
pub(crate) trait Catalog: Send + Sync {
    /// A page of the models that the caller may see. What another process has changed may be missing for up to ten
    /// seconds.
    async fn models(&self, search: &Search) -> Result<ModelPage>;
    /// A model with what it declares now, also when the caller may not see it. What another process has
    /// changed may be missing for up to ten seconds.
    async fn published(&self, id: &str) -> Result<Option<Arc<Published>>>;
    /// Publishes models, all or none, each with its active version. A model of another owner is left as
    /// it is. Returns how many were new or changed.
    async fn publish(&self, models: &[NewModel], existing: Existing) -> Result<u64>;
    /// Publishes a version and makes it the active one. False when it was already, None when the owner has
    /// no such model.
    async fn publish_version(
        &self,
        owner: AccountId,
        model: &str,
        version: &NewVersion,
        now: Moment,
    ) -> Result<Option<bool>>;
    /// Changes a model for tasks from now on; false when there is no such model.
    async fn change_model(&self, model: &str, change: ModelChange, now: Moment) -> Result<bool>;
    /// Forgets uses of models that no list by `trending` counts any more.
    async fn forget_uses(&self, now: Moment) -> Result<()>;
}
