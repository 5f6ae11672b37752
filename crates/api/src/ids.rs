//! Macros for generated newtypes of text: opaque identifiers, and texts of visible ASCII.

use std::fmt;

/// Methods of a newtype. Its text is private, so that a later version can change the representation.
macro_rules! named_text {
    ($name:ident) => {
        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl From<&$name> for $name {
            fn from(id: &$name) -> Self {
                id.clone()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        // Valid because the derived `Eq`, `Ord` and `Hash` are those of the text.
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, text: &str) -> bool {
                self.0 == text
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, text: &&str) -> bool {
                self.0 == *text
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

macro_rules! opaque_id {
    ($name:ident) => {
        crate::ids::named_text!($name);

        impl $name {
            /// Wraps an identifier as the service issued it, without validation.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }
        }

        impl std::str::FromStr for $name {
            type Err = std::convert::Infallible;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Ok(Self::new(text))
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::lenient::required(deserializer).map(Self)
            }
        }
    };
}

/// Methods of a text of 1 to `$max` visible ASCII characters, validated on construction.
macro_rules! visible_ascii {
    ($name:ident, $max:literal) => {
        crate::ids::named_text!($name);

        impl std::str::FromStr for $name {
            type Err = crate::NotVisibleAscii;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::try_from(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = crate::NotVisibleAscii;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                crate::NotVisibleAscii::check(&text, $max).map(|()| Self(text))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use {named_text, opaque_id, visible_ascii};

/// Text that is empty, too long, or has characters other than visible ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotVisibleAscii {
    max_length: usize,
}

impl NotVisibleAscii {
    pub(crate) fn check(text: &str, max_length: usize) -> Result<(), Self> {
        let is_good =
            (1..=max_length).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_good.then_some(()).ok_or(Self { max_length })
    }
}

impl fmt::Display for NotVisibleAscii {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected 1 to {} visible ASCII characters, without spaces", self.max_length)
    }
}

impl std::error::Error for NotVisibleAscii {}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use crate::types::{IdempotencyKey, TaskId};

    #[test]
    fn an_identifier_is_made_from_any_text_and_gives_it_back() {
        let id = TaskId::new("7b0e6a52");
        for same in [TaskId::from("7b0e6a52"), "7b0e6a52".to_owned().into(), TaskId::from(&id)] {
            assert_eq!(same, id);
        }
        assert_eq!("7b0e6a52".parse(), Ok(id.clone()));
        assert_eq!((id.as_str(), id.as_ref(), id.to_string().as_str()), ("7b0e6a52", "7b0e6a52", "7b0e6a52"));
        assert_eq!(format!("{id:>10}"), "  7b0e6a52");
        assert!(id == "7b0e6a52" && id == *"7b0e6a52" && id != "7b");
        assert_eq!(String::from(id), "7b0e6a52");
    }

    #[test]
    fn a_map_is_searched_by_text() {
        let hashed = HashMap::from([(TaskId::new("a"), 1)]);
        let sorted = BTreeMap::from([(TaskId::new("a"), 1), (TaskId::new("b"), 2)]);
        assert_eq!((hashed.get("a"), sorted.get("b"), sorted.get("c")), (Some(&1), Some(&2), None));
    }

    #[test]
    fn a_number_is_read_as_an_identifier_and_nothing_else_is() {
        let read = |json: &str| serde_json::from_str::<TaskId>(json);
        assert_eq!(read("\"7b\"").expect("a text is one"), "7b");
        assert_eq!(read("70").expect("a number is one"), "70");
        assert!(read("null").is_err() && read("{}").is_err());
        assert_eq!(serde_json::to_string(&TaskId::new("70")).expect("it can be written"), "\"70\"");
    }

    #[test]
    fn a_text_of_visible_ascii_is_checked_where_it_is_made() {
        let longest = "k".repeat(255);
        for good in ["!", "~", "5f0c9a4e-8d3b", &longest] {
            let key: IdempotencyKey = good.parse().expect("it is visible ASCII");
            assert_eq!(key, good);
            let json = serde_json::to_string(&key).expect("it can be written");
            assert_eq!(serde_json::from_str::<IdempotencyKey>(&json).expect("it can be read"), key);
        }
        for bad in ["", " ", "a b", "a\n", "\u{7f}", "schlüssel", &"k".repeat(256)] {
            let error = bad.parse::<IdempotencyKey>().expect_err("it is not permitted");
            assert_eq!(error.to_string(), "expected 1 to 255 visible ASCII characters, without spaces");
            let json = serde_json::to_string(bad).expect("it can be written");
            assert!(serde_json::from_str::<IdempotencyKey>(&json).is_err(), "{bad:?}");
        }
    }
}
