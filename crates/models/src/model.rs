//! Model interface: inputs, outputs and limits of a run.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::Error;
use crate::memory::Need;

/// Built-in model.
pub trait Model: Send + Sync {
    /// Returns the kind in the catalog, such as `haze-removal`.
    fn kind(&self) -> &'static str;

    /// Returns the peak memory of a run whose largest picture has `pixels` pixels, in bytes. `None`, the
    /// default, reserves all of `Limits::memory` for every run.
    fn memory(&self, pixels: u64) -> Option<u64> {
        let _ = pixels;
        None
    }

    /// Computes the outputs, by name, in the order of the catalog.
    ///
    /// # Errors
    ///
    /// An input is missing, unusable, or above `limits`; or the deadline has passed.
    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error>;
}

pub(crate) type Outputs = Vec<(&'static str, Output)>;

pub(crate) struct BuiltIn {
    pub(crate) kind: &'static str,
    pub(crate) need: Need,
    pub(crate) run: fn(&Inputs, &Limits) -> Result<Outputs, Error>,
}

impl Model for BuiltIn {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn memory(&self, pixels: u64) -> Option<u64> {
        Some(self.need.of(pixels))
    }

    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Outputs, Error> {
        (self.run)(inputs, limits)
    }
}

/// One input of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Content of a file.
    File(Vec<u8>),
    /// Text, or a choice of a list.
    Text(String),
    /// Number.
    Number(f64),
}

/// Inputs of a run, by name. Additional inputs are ignored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inputs {
    by_name: BTreeMap<String, Input>,
}

impl<Name: Into<String>> FromIterator<(Name, Input)> for Inputs {
    fn from_iter<Pairs: IntoIterator<Item = (Name, Input)>>(pairs: Pairs) -> Self {
        Self { by_name: pairs.into_iter().map(|(name, input)| (name.into(), input)).collect() }
    }
}

impl Inputs {
    /// Returns the content of the file `name`.
    ///
    /// # Errors
    ///
    /// The input is missing, or not a file.
    pub fn file(&self, name: &str) -> Result<&[u8], Error> {
        match self.get(name)? {
            Input::File(bytes) => Ok(bytes),
            Input::Text(_) | Input::Number(_) => Err(unusable(name, "it has to be a file")),
        }
    }

    /// Returns the text `name`.
    ///
    /// # Errors
    ///
    /// The input is missing, or not a text.
    pub fn text(&self, name: &str) -> Result<&str, Error> {
        match self.get(name)? {
            Input::Text(text) => Ok(text),
            Input::File(_) | Input::Number(_) => Err(unusable(name, "it has to be a text")),
        }
    }

    /// Returns the number `name`, within `allowed`; it may be spelled as a text.
    ///
    /// # Errors
    ///
    /// The input is missing, not a number, or out of range.
    pub fn number(&self, name: &str, allowed: std::ops::RangeInclusive<f64>) -> Result<f64, Error> {
        let number = match self.get(name)? {
            Input::Number(number) => Some(*number),
            Input::Text(text) => text.trim().parse().ok(),
            Input::File(_) => None,
        };
        number.filter(|number| allowed.contains(number)).ok_or_else(|| {
            unusable(name, &format!("it has to be a number from {} to {}", allowed.start(), allowed.end()))
        })
    }

    pub(crate) fn choice<Value: Copy>(&self, name: &str, choices: &[(&str, Value)]) -> Result<Value, Error> {
        let text = self.text(name)?;
        choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            unusable(name, &format!("it has to be one of: {}", words.join("; ")))
        })
    }

    /// Returns every input with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Input)> {
        self.by_name.iter().map(|(name, input)| (name.as_str(), input))
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &[u8]> {
        self.by_name.values().filter_map(|input| match input {
            Input::File(bytes) => Some(bytes.as_slice()),
            Input::Text(_) | Input::Number(_) => None,
        })
    }

    fn get(&self, name: &str) -> Result<&Input, Error> {
        self.by_name.get(name).ok_or_else(|| Error::Missing { input: name.to_owned() })
    }
}

fn unusable(input: &str, reason: &str) -> Error {
    Error::Unusable { input: input.to_owned(), reason: reason.to_owned() }
}

/// Output of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// File.
    File {
        /// Content of the file.
        bytes: Vec<u8>,
        /// MIME type.
        mime: &'static str,
        /// File extension without the dot.
        extension: &'static str,
    },
    /// Text.
    Text(String),
}

/// Limits of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of pixels of an input picture.
    pub pixels: u64,
    /// Maximum memory in bytes, inputs included. Each model knows its memory per pixel, so a picture that
    /// needs more is rejected before it is decoded.
    pub memory: u64,
    /// Deadline of the run. A run stops soon after it, not exactly at it.
    pub deadline: Option<Instant>,
}

impl Default for Limits {
    /// 50 megapixels, 4 GiB, no deadline.
    fn default() -> Self {
        Self { pixels: 50_000_000, memory: 4 << 30, deadline: None }
    }
}

impl Limits {
    /// Returns an error after the deadline. Loops call this once per row or round.
    pub(crate) fn check_time(&self) -> Result<(), Error> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::TimedOut),
            _ => Ok(()),
        }
    }
}
