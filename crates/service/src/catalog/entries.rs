//! JSON object that keeps its order and refuses duplicate names, because parsers differ in which duplicate they take.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of entries. Models declare fewer, and the check for duplicates is quadratic.
const MAX_ENTRIES: usize = 1_000;

#[derive(Debug, Clone)]
pub(crate) struct Entries<V>(pub(crate) Vec<(String, V)>);

impl<V> Entries<V> {
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl<V> Default for Entries<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V: Serialize> Serialize for Entries<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
            type Value = Entries<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from parameter name to value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<V>, A::Error> {
                let mut entries = Entries::default();
                while let Some((name, value)) = map.next_entry::<String, V>()? {
                    if entries.0.len() >= MAX_ENTRIES {
                        return Err(A::Error::custom(format!("more than {MAX_ENTRIES} parameters")));
                    }
                    if entries.get(&name).is_some() {
                        return Err(A::Error::custom(format!("{} is given twice", quote_name(&name))));
                    }
                    entries.0.push((name, value));
                }
                Ok(entries)
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

pub(super) fn quote_name(name: &str) -> String {
    let begin: String = name.chars().take(80).collect();
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    if begin == name && begin.chars().all(is_plain) { begin } else { format!("{begin:?}") }
}
