//! A model as it is told in JSON: by the files of the catalog, and by whoever publishes one.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

use super::{Format, NewModel, NewVersion, short_hash};
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::ledger::Money;

/// What the description of a model of the catalog adds as long as the service cannot run it.
const WAITS: &str = "No serving node runs it yet, so its tasks wait in the queue.";

/// The longest identifier of a model.
const LONGEST_ID: usize = 80;

/// A model as it is told in JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) id: String,
    name: String,
    /// Files of the catalog say who publishes them.
    #[serde(default)]
    pub(super) publisher: Option<Publisher>,
    description: String,
    #[serde(default)]
    is_verified: bool,
    is_public: bool,
    #[serde(default)]
    is_playground: bool,
    /// A text, so that it is exact.
    price: String,
    #[serde(default)]
    likes: i64,
    #[serde(default)]
    downloads: i64,
    /// Now, unless told.
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    updated_at: Option<String>,
    metadata: Metadata,
    pub(super) input_format: Format,
    output_format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Publisher {
    Operator,
    Community,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    pretty_name: String,
    task: String,
    license: String,
    library: Vec<String>,
    language: Vec<String>,
}

/// `model_metadata` as the API writes it.
#[derive(Serialize)]
struct FullMetadata<'a> {
    id: String,
    model_id: &'a str,
    #[serde(flatten)]
    told: &'a Metadata,
}

/// What is wrong with a model that is told.
pub(super) type Mistake = Box<dyn std::error::Error + Send + Sync>;

impl Entry {
    /// Says of a model of the catalog how this process runs it, or that nothing does.
    pub(super) fn run_by(&mut self, model: Option<&dyn inferstore_models::Model>) {
        self.is_verified = model.is_some();
        self.description.push(' ');
        self.description.push_str(model.map_or(WAITS, |model| model.method()));
        if let Some(model) = model {
            self.metadata.library = model.libraries().iter().map(|library| (*library).to_owned()).collect();
        }
    }

    pub(super) fn model(self, owner: AccountId, is_official: bool, now: Moment) -> Result<NewModel, Mistake> {
        // "list" is a path of its own.
        let is_slug =
            self.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if !is_slug || self.id == "list" || !(1..=LONGEST_ID).contains(&self.id.len()) {
            return Err(format!(
                "{:?} cannot identify a model; take up to {LONGEST_ID} small letters, digits and hyphens",
                self.id
            )
            .into());
        }
        let price: Money = self.price.parse()?;
        if price < Money::ZERO {
            return Err("a price is not below zero".into());
        }
        self.input_format.validate()?;
        let metadata = FullMetadata { id: short_hash(&self.id), model_id: &self.id, told: &self.metadata };
        let created_at = moment(self.created_at.as_deref(), now)?;
        Ok(NewModel {
            owner,
            is_official,
            description: self.description,
            price,
            metadata: to_raw_value(&metadata)?,
            created_at,
            updated_at: moment(self.updated_at.as_deref(), now)?.max(created_at),
            version: NewVersion::new(&self.input_format, &self.output_format)?,
            id: self.id,
            name: self.name,
            is_verified: self.is_verified,
            is_public: self.is_public,
            is_playground: self.is_playground,
            likes: self.likes,
            downloads: self.downloads,
        })
    }
}

fn moment(text: Option<&str>, now: Moment) -> Result<Moment, jiff::Error> {
    text.map_or(Ok(now), |text| Ok(Moment(text.parse::<Timestamp>()?.as_millisecond())))
}
