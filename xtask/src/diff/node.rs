//! A value in one of the two documents, which knows its place and can follow references.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::document::Place;

/// Stands in for what is not there.
static NOTHING: Value = Value::Null;

/// References lead to references only a few times; more is a ring.
const MAX_STEPS: usize = 16;

#[derive(Clone)]
pub(super) struct Node<'a> {
    document: &'a Value,
    pub(super) value: &'a Value,
    pub(super) place: Place,
}

impl<'a> Node<'a> {
    pub(super) fn root(document: &'a Value) -> Self {
        Self { document, value: document, place: Place::root() }
    }

    /// What stands under that key or at that index; nothing if there is no such thing.
    pub(super) fn at(&self, key: &str) -> Self {
        let value = match self.value {
            Value::Array(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
            other => other.get(key),
        };
        Self { document: self.document, value: value.unwrap_or(&NOTHING), place: self.place.at(key) }
    }

    pub(super) fn get(&self, key: &str) -> Option<Self> {
        Some(self.at(key)).filter(|_| self.has(key))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.value.get(key).is_some()
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.value[key] == true
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.value.get(key)?.as_str()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.as_object().into_iter().flat_map(Map::keys).map(String::as_str)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, Self)> {
        self.keys().map(|key| (key, self.at(key)))
    }

    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        (0..self.value.as_array().map_or(0, Vec::len)).map(|index| self.at(&index.to_string()))
    }

    /// The texts of a list under that key.
    pub(super) fn texts(&self, key: &str) -> BTreeSet<&'a str> {
        self.value
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// The name of the component that it refers to.
    pub(super) fn component(&self) -> Option<&'a str> {
        self.text("$ref")?.rsplit('/').next()
    }

    /// The schemas that its document names.
    pub(super) fn document_schemas(&self) -> Self {
        Self::root(self.document).at("components").at("schemas")
    }

    /// What it refers to, or itself.
    pub(super) fn resolved(&self) -> Self {
        let mut node = self.clone();
        for _ in 0..MAX_STEPS {
            let Some(reference) = node.text("$ref") else { break };
            let keys = keys_of(reference);
            node = keys.iter().fold(Self::root(self.document), |node, key| node.at(key));
        }
        node
    }
}

/// The keys that a reference within the document goes along.
pub(super) fn keys_of(reference: &str) -> Vec<String> {
    let unescaped = |key: &str| key.replace("~1", "/").replace("~0", "~");
    reference.trim_start_matches('#').split('/').skip(1).map(unescaped).collect()
}

/// The members of both, by key: what is only in the old one, in both, only in the new one.
pub(super) fn side_by_side<'a>(
    old: &Node<'a>,
    new: &Node<'a>,
) -> Vec<(&'a str, Option<Node<'a>>, Option<Node<'a>>)> {
    let keys: BTreeSet<&str> = old.keys().chain(new.keys()).collect();
    keys.into_iter().map(|key| (key, old.get(key), new.get(key))).collect()
}

/// A value as messages show it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}
