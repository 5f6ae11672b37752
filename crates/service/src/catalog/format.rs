//! What a version of a model declares: its parameters with their descriptors, in their order.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::entries::Entries;
use crate::{Error, Result};

/// The declared inputs or outputs of a model: parameter name to descriptor, by position.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Format(Entries<Descriptor>);

/// Declares one parameter. Further fields are ignored where it is read again: a process of a later version may have
/// published them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Descriptor {
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    /// For files, the MIME types that are taken or made, as patterns such as `image/*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<Vec<String>>,
    /// Whether an input must be given; outputs say nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) required: Option<bool>,
    pub(crate) position: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) num_config: Option<NumConfig>,
    /// For options, all the words. For numbers, a sample says that a value is sent as a string.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) samples: Vec<Sample>,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// A sentence or two for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The value with which a form begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<Sample>,
    /// For options, names for people, by word.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    /// For files, the largest picture in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_pixels: Option<u64>,
}

/// The fields of a descriptor, which are all that can be published.
pub(super) const FIELDS: [&str; 11] = [
    "type",
    "mime_type",
    "required",
    "position",
    "num_config",
    "samples",
    "title",
    "description",
    "default",
    "labels",
    "max_pixels",
];

/// What a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    File,
    Int,
    Float,
    Options,
    String,
}

/// The range of a numeric parameter, as JSON numbers with exactly their digits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NumConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<Box<RawValue>>,
}

/// A sample value, as it is spelled in JSON: a string, unless it was published by an earlier version.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sample(Box<RawValue>);

impl Sample {
    /// The sample's text, if it is a string.
    pub(crate) fn text(&self) -> Option<String> {
        serde_json::from_str(self.0.get()).ok()
    }

    /// The sample as it is spelled in JSON.
    pub(crate) fn raw(&self) -> &str {
        self.0.get()
    }
}

impl Descriptor {
    pub(crate) fn is_required(&self) -> bool {
        self.required == Some(true)
    }
}

impl Format {
    /// A format as the database keeps it.
    pub(crate) fn kept(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|cause| Error::new("reading what a model declares", cause))
    }

    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&str, &Descriptor)> {
        self.0.0.iter().map(|(name, descriptor)| (name.as_str(), descriptor))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Descriptor> {
        self.0.get(name)
    }

    /// Declares the largest picture of every file.
    pub(crate) fn limit_pictures(&mut self, max_pixels: Option<u64>) {
        for (_, descriptor) in self.0.0.iter_mut().filter(|(_, descriptor)| descriptor.kind == Kind::File) {
            descriptor.max_pixels = max_pixels;
        }
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut entries = Entries::<Descriptor>::deserialize(deserializer)?;
        entries.0.sort_by_key(|(_, descriptor)| descriptor.position);
        Ok(Self(entries))
    }
}
