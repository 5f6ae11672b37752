//! A document as data that keeps its order: what people are handed reads as it was written.

use std::fmt;
use std::ops::Index;

use indexmap::IndexMap;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A value of a document.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Tree {
    /// An object, in the order of the text.
    Map(IndexMap<String, Tree>),
    /// An array.
    List(Vec<Tree>),
    /// Anything else.
    Scalar(Value),
}

/// Stands in for what is absent.
pub const NULL: &Tree = &Tree::Scalar(Value::Null);

impl Tree {
    /// A string.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Scalar(Value::String(text.into()))
    }

    /// The member of an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(members) => members.get(key),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Scalar(value) => value.as_str(),
            _ => None,
        }
    }

    /// The items of a list; of anything else none.
    pub fn items(&self) -> &[Self] {
        if let Self::List(items) = self { items } else { &[] }
    }

    /// Returns true if the value is an object.
    pub fn is_map(&self) -> bool {
        matches!(self, Self::Map(_))
    }

    /// Returns true if the value is this scalar.
    pub fn is(&self, scalar: impl Into<Value>) -> bool {
        *self == Self::Scalar(scalar.into())
    }

    /// Returns true if the value is null or absent.
    pub fn is_null(&self) -> bool {
        self == NULL
    }

    /// Returns true if both values are equal, with their members in the same order.
    pub fn is_same_in_order(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Map(_), Self::Map(_)) => {
                self.members().count() == other.members().count()
                    && self.members().zip(other.members()).all(|((key, value), (other_key, other))| {
                        key == other_key && value.is_same_in_order(other)
                    })
            }
            (Self::List(items), Self::List(others)) => {
                items.len() == others.len()
                    && items.iter().zip(others).all(|(item, other)| item.is_same_in_order(other))
            }
            _ => self == other,
        }
    }

    /// The value that a JSON pointer leads to, with or without a `#` in front.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        let mut keys = pointer.trim_start_matches('#').split('/');
        keys.next().filter(|before| before.is_empty())?;
        keys.try_fold(self, |value, key| {
            let key = key.replace("~1", "/").replace("~0", "~");
            match value {
                Self::List(items) => items.get(key.parse::<usize>().ok()?),
                value => value.get(&key),
            }
        })
    }

    /// Returns the target of a reference in a document, and any other tree as it is.
    pub fn resolved<'a>(&'a self, document: &'a Self) -> &'a Self {
        self["$ref"].as_str().and_then(|reference| document.pointer(reference)).unwrap_or(self)
    }

    /// Returns the tree with each member replaced, by its name and value, or each item, by an empty name and its value.
    pub fn map(&self, replace: impl Fn(&str, &Self) -> Self) -> Self {
        match self {
            Self::Map(members) => {
                Self::Map(members.iter().map(|(key, value)| (key.clone(), replace(key, value))).collect())
            }
            Self::List(items) => Self::List(items.iter().map(|item| replace("", item)).collect()),
            scalar => scalar.clone(),
        }
    }

    /// The members of an object; of anything else none.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        let members = if let Self::Map(members) = self { Some(members) } else { None };
        members.into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }
}

/// Returns a member of an object; an absent member is `null`.
impl Index<&str> for Tree {
    type Output = Self;

    fn index(&self, key: &str) -> &Self {
        self.get(key).unwrap_or(NULL)
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

/// Reads a value. A key is a string, or the code of a response, which many documents write without quotes.
impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = IndexMap::new();
        while let Some((Key(key), value)) = map.next_entry()? {
            members.insert(key, value);
        }
        Ok(Tree::Map(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::text(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<Tree, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }
}

struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(key) => Ok(Self(key)),
            Value::Number(code) if code.as_u64().is_some_and(|code| (100..600).contains(&code)) => {
                Ok(Self(code.to_string()))
            }
            _ => Err(D::Error::custom(
                "a key is a boolean, a number or null in YAML, such as `Off` or `1`; quote it",
            )),
        }
    }
}
