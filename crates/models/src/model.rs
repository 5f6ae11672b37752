//! What a model is, what it is given, and what it may take.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::Error;

/// A built-in model.
pub trait Model: Send + Sync {
    /// The kind of the catalog that this model serves, such as `haze-removal`.
    fn kind(&self) -> &'static str;

    /// Returns how many bytes a run takes at its peak when its largest picture has so many pixels. `None`, the default,
    /// reserves all of `Limits::memory` for every run.
    fn memory(&self, pixels: u64) -> Option<u64> {
        let _ = pixels;
        None
    }

    /// Computes the outputs, by name, in the order of the catalog.
    ///
    /// # Errors
    ///
    /// When an input is missing or cannot be used, when it is larger than `limits` allow, and when the
    /// time is over.
    fn run(&self, inputs: &Inputs, limits: &Limits) -> Result<Vec<(&'static str, Output)>, Error>;
}

/// One input.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The content of a file.
    File(Vec<u8>),
    /// A text or one word of a list.
    Text(String),
    /// A number.
    Number(f64),
}

/// What a model is given, by name. Further inputs than it needs do no harm.
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
    /// The content of the file `name`.
    ///
    /// # Errors
    ///
    /// When it is missing or no file.
    pub fn file(&self, name: &str) -> Result<&[u8], Error> {
        match self.get(name)? {
            Input::File(bytes) => Ok(bytes),
            Input::Text(_) | Input::Number(_) => Err(unusable(name, "it has to be a file")),
        }
    }

    /// The text `name`.
    ///
    /// # Errors
    ///
    /// When it is missing or no text.
    pub fn text(&self, name: &str) -> Result<&str, Error> {
        match self.get(name)? {
            Input::Text(text) => Ok(text),
            Input::File(_) | Input::Number(_) => Err(unusable(name, "it has to be a text")),
        }
    }

    /// The number `name`, which may also be spelled as a text, and lies within `allowed`.
    ///
    /// # Errors
    ///
    /// When it is missing, no number, or out of range.
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

    /// The choice `name` among words that each stand for a value.
    pub(crate) fn choice<Value: Copy>(&self, name: &str, choices: &[(&str, Value)]) -> Result<Value, Error> {
        let text = self.text(name)?;
        choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            unusable(name, &format!("it has to be one of: {}", words.join("; ")))
        })
    }

    /// Every input with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Input)> {
        self.by_name.iter().map(|(name, input)| (name.as_str(), input))
    }

    /// The contents of all files.
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

/// One output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A file that the model made.
    File {
        /// Its content.
        bytes: Vec<u8>,
        /// Its MIME type.
        mime: &'static str,
        /// The end of its name, without the dot.
        extension: &'static str,
    },
    /// A text.
    Text(String),
}

/// What one run may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How many pixels a picture among the inputs may have.
    pub pixels: u64,
    /// How many bytes of memory the run may use, its inputs included. Each model knows what it needs for a
    /// pixel, so a picture that would take more is refused before it is decoded.
    pub memory: u64,
    /// When the run has to be over. It is stopped soon after, not on the dot.
    pub deadline: Option<Instant>,
}

impl Default for Limits {
    /// 50 megapixels, 4 GiB, and all the time in the world.
    fn default() -> Self {
        Self { pixels: 50_000_000, memory: 4 << 30, deadline: None }
    }
}

impl Limits {
    /// Fails when the time is over. Loops call it once per row or round.
    pub(crate) fn check_time(&self) -> Result<(), Error> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::TimedOut),
            _ => Ok(()),
        }
    }
}
