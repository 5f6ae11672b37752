//! Formats: the parameters that a model version declares, with their descriptors, in order.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::entries::Entries;
use crate::{Error, Result};

#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Format(Entries<Descriptor>);

/// Declaration of one parameter. Reading ignores unknown fields, which a later version may have published.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Descriptor {
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) required: Option<bool>,
    pub(crate) position: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) num_config: Option<NumConfig>,
    /// For options, all allowed values. For numbers, a string sample means that the value is sent as a string.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) samples: Vec<Sample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<Sample>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_pixels: Option<u64>,
}

/// Fields of a descriptor. A published descriptor has no others.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    File,
    Int,
    Float,
    Options,
    String,
}

/// Range of a numeric parameter, as JSON numbers without loss of digits.
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

/// Sample value as spelled in JSON: a string, unless an earlier version of the service published it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sample(Box<RawValue>);

impl Sample {
    pub(crate) fn text(&self) -> Option<String> {
        serde_json::from_str(self.0.get()).ok()
    }

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
    pub(crate) fn kept(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|cause| Error::new("reading what a model declares", cause))
    }

    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&str, &Descriptor)> {
        self.0.0.iter().map(|(name, descriptor)| (name.as_str(), descriptor))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Descriptor> {
        self.0.get(name)
    }

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
