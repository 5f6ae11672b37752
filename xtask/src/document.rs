//! The document as data: reading it, and naming places in it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The document as it stands on disk.
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) value: Value,
}

impl Document {
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut document = Self { path: path.to_owned(), text, value: Value::Null };
        match serde_saphyr::from_str(&document.text) {
            Ok(value) => document.value = value,
            Err(error) => {
                let message = format!("not readable as YAML: {}", one_line(&error.to_string()));
                document.reject(vec![Mistake::new(Place::root(), message)])?;
            }
        }
        Ok(document)
    }

    /// What the generated file is stamped with.
    pub(crate) fn sha256(&self) -> String {
        Self::hash(&self.text)
    }

    pub(crate) fn hash(text: &str) -> String {
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Fails if there are mistakes, with a line for each.
    pub(crate) fn reject(&self, list: Vec<Mistake>) -> Result<()> {
        if list.is_empty() { Ok(()) } else { Err(self.mistakes(list).into()) }
    }

    pub(crate) fn mistakes(&self, list: Vec<Mistake>) -> Mistakes {
        Mistakes { path: self.path.clone(), text: self.text.clone(), list }
    }
}

/// Where something stands in the document: the keys that lead to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(Vec<String>);

impl Place {
    pub(crate) fn root() -> Self {
        Self::default()
    }

    pub(crate) fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(ToString::to_string).collect())
    }

    pub(crate) fn at(&self, key: impl ToString) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.to_string());
        Self(keys)
    }

    /// The line on which the place begins, counted from 1. The document is written in block style, so
    /// every key stands on a line of its own, deeper than its parent; where that does not lead to
    /// the end (inside a flow mapping), the line of the nearest parent has to do.
    fn line(&self, text: &str) -> Option<usize> {
        let lines: Vec<&str> = text.lines().collect();
        let mut found = None;
        let mut next = 0;
        let mut indent = -1;
        for key in &self.0 {
            let hit = lines.iter().enumerate().skip(next).find_map(|(number, line)| {
                let trimmed = line.trim_start().trim_start_matches("- ");
                let depth = i64::try_from(line.len() - line.trim_start().len()).ok()?;
                let named = [format!("{key}:"), format!("\"{key}\":"), format!("'{key}':")];
                (depth > indent && named.iter().any(|name| trimmed.starts_with(name)))
                    .then_some((number, depth))
            });
            let Some((number, depth)) = hit else { break };
            (found, next, indent) = (Some(number + 1), number + 1, depth);
        }
        found
    }
}

/// As a JSON pointer, which is what the linters print too.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("#")?;
        self.0.iter().try_for_each(|key| write!(f, "/{}", key.replace('~', "~0").replace('/', "~1")))
    }
}

/// One mistake in the document.
#[derive(Debug)]
pub(crate) struct Mistake {
    place: Place,
    message: String,
}

impl Mistake {
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into() }
    }
}

/// All mistakes of a document, one line each.
#[derive(Debug)]
pub(crate) struct Mistakes {
    path: PathBuf,
    text: String,
    list: Vec<Mistake>,
}

impl std::error::Error for Mistakes {}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Mistake { place, message }) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.path.display())?;
            if let Some(line) = place.line(&self.text) {
                write!(f, ":{line}")?;
            }
            write!(f, " at {place}: {message}")?;
        }
        Ok(())
    }
}

/// The text without line breaks, for messages that promise one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
