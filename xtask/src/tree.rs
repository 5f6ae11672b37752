//! A document as data that keeps its order: what people are handed reads as it was written.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Tree {
    Map(IndexMap<String, Tree>),
    List(Vec<Tree>),
    Scalar(Value),
}

impl Tree {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Scalar(Value::String(text.into()))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(members) => members.get(key),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Scalar(value) => value.as_str(),
            _ => None,
        }
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        let members = if let Self::Map(members) = self { Some(members) } else { None };
        members.into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }
}

impl From<Value> for Tree {
    fn from(value: Value) -> Self {
        match value {
            Value::Object(members) => {
                Self::Map(members.into_iter().map(|(key, value)| (key, value.into())).collect())
            }
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            scalar => Self::Scalar(scalar),
        }
    }
}
