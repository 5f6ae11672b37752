//! The document as data: reading it, and the lines of the places in it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow};
pub(crate) use openapi_impact::{Pointer, one_line};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;
use sha2::{Digest, Sha256};

pub(crate) const DOCUMENT: &str = "openapi/inferstore.yaml";

pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    lines: Lines,
    pub(crate) value: Value,
}

impl Document {
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(path, text)
    }

    /// Reads a text that is not written yet; `path` names it in messages.
    pub(crate) fn parse(path: &Path, text: String) -> Result<Self> {
        let value = openapi_impact::parse(path, &text)?;
        let lines = Lines::read(&text, &value);
        Ok(Self { path: path.to_owned(), text, lines, value })
    }

    pub(crate) fn line(&self, pointer: &Pointer) -> Option<&str> {
        self.text.lines().nth(self.index(pointer)?)
    }

    pub(crate) fn index(&self, pointer: &Pointer) -> Option<usize> {
        usize::try_from(self.lines.of(pointer)?).ok()?.checked_sub(1)
    }

    pub(crate) fn hash(bytes: impl AsRef<[u8]>) -> String {
        Sha256::digest(bytes.as_ref()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn reject(&self, mistakes: Vec<Mistake>) -> Result<()> {
        if mistakes.is_empty() { Ok(()) } else { Err(self.error(mistakes)) }
    }

    pub(crate) fn error(&self, mistakes: Vec<Mistake>) -> Error {
        let mut numbered: Vec<(Option<u64>, Mistake)> =
            mistakes.into_iter().map(|mistake| (self.lines.of(&mistake.pointer), mistake)).collect();
        numbered.sort_by_key(|(line, _)| *line);
        let lines = numbered.into_iter().map(|(line, Mistake { pointer, message })| {
            let line = line.map_or_else(String::new, |line| format!(":{line}"));
            let pointer = if pointer.is_root() { String::new() } else { format!(" at {pointer}") };
            format!("{}{line}{pointer}: {}", self.path.display(), one_line(&message))
        });
        anyhow!(lines.collect::<Vec<_>>().join("\n"))
    }
}

#[derive(Debug)]
pub(crate) struct Mistake {
    pointer: Pointer,
    message: String,
}

impl Mistake {
    pub(crate) fn new(pointer: Pointer, message: impl Into<String>) -> Self {
        Self { pointer, message: message.into() }
    }
}

/// The line of every key and of every item of a list, counted from 1.
struct Lines(BTreeMap<Pointer, u64>);

impl Lines {
    fn read(text: &str, value: &Value) -> Self {
        let mut found = BTreeMap::new();
        let walk = LineWalk { value, pointer: Pointer::root(), found: &mut found };
        // The text has been read once. Should it fail here, the messages only lack their lines.
        let _ = serde_saphyr::with_deserializer_from_str(text, |yaml| walk.deserialize(yaml));
        Self(found)
    }

    /// The line of the place, or of the nearest thing around it that is there.
    fn of(&self, pointer: &Pointer) -> Option<u64> {
        let keys = pointer.keys();
        (1..=keys.len()).rev().find_map(|depth| self.0.get(&Pointer::of(&keys[..depth]))).copied()
    }
}

struct LineWalk<'a> {
    value: &'a Value,
    pointer: Pointer,
    found: &'a mut BTreeMap<Pointer, u64>,
}

impl<'de> DeserializeSeed<'de> for LineWalk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.value {
            Value::Object(_) => deserializer.deserialize_map(self),
            Value::Array(_) => deserializer.deserialize_seq(self),
            _ => {
                let scalar: Spanned<IgnoredAny> = serde::Deserialize::deserialize(deserializer)?;
                self.found.entry(self.pointer).or_insert(scalar.referenced.line());
                Ok(())
            }
        }
    }
}

impl<'de> Visitor<'de> for LineWalk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what was read before")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let pointer = self.pointer.at(&key.value);
            let line = key.referenced.line();
            // A mapping in a list begins with its first key.
            self.found.entry(self.pointer.clone()).or_insert(line);
            self.found.insert(pointer.clone(), line);
            map.next_value_seed(LineWalk { value: &self.value[&key.value], pointer, found: self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for index in 0.. {
            let item =
                LineWalk { value: &self.value[index], pointer: self.pointer.at(index), found: self.found };
            if list.next_element_seed(item)?.is_none() {
                break;
            }
        }
        Ok(())
    }
}
