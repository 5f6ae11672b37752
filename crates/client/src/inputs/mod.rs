//! Inputs of a run: values, and files that are uploaded before the task is created.

mod check;
mod number;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reqwest::Url;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use check::check;
pub use check::{by_position, nearest};

use crate::files::source::File;
use crate::transport::error::{Error, Result};

/// The inputs of a run, by the names of the model's parameters.
///
/// ```
/// use inferstore::{File, Inputs};
///
/// let inputs = Inputs::new().file("input_image", File::path("photo.jpg")).set("template", "v_shape").set("angle", 30);
///
/// let same: Inputs = [("template", "v_shape")].into_iter().collect();
/// assert_eq!(same.get("template"), inputs.get("template"));
/// ```
///
/// Before anything is sent, inputs are checked against what the model declares, and each value is written in the JSON
/// type that the model takes: `30` is sent as `"30"` where the samples are strings. Inputs can be read from JSON,
/// which never reads a file of this machine: text in it stays text.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct Inputs {
    /// Sorted by name; a map would take ten times the memory of a batch. An error is reported on use of the inputs.
    fields: Vec<(String, Result<Input, String>)>,
}

/// One input. URLs, paths and [`File`]s convert into it.
///
/// ```
/// use std::path::Path;
/// use inferstore::{File, Input};
///
/// assert_eq!(Input::from(Path::new("photo.jpg")), Input::File(File::path("photo.jpg")));
/// assert_eq!(Input::from("https://host.example/a.jpg"), Input::Value("https://host.example/a.jpg".into()));
/// ```
///
/// Text is never a path: otherwise a program that forwards untrusted text could upload any file of this machine.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Input {
    /// Value to send; the URL of a file is a text.
    Value(Value),
    /// File to upload and to replace by its URL.
    File(File),
}

impl From<&str> for Input {
    fn from(url: &str) -> Self {
        Self::Value(url.into())
    }
}

impl From<String> for Input {
    fn from(url: String) -> Self {
        Self::Value(url.into())
    }
}

impl From<Url> for Input {
    fn from(url: Url) -> Self {
        Self::Value(String::from(url).into())
    }
}

macro_rules! from_paths {
    ($($path:ty),*) => {
        $(impl From<$path> for File {
            fn from(path: $path) -> Self {
                Self::path(path)
            }
        })*
    };
}
from_paths!(&Path, &PathBuf, PathBuf);

impl<F: Into<File>> From<F> for Input {
    fn from(file: F) -> Self {
        Self::File(file.into())
    }
}

impl Inputs {
    /// Creates empty inputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a parameter to a value: a number, a text, a URL, or any serializable value. A value that cannot be
    /// written as JSON is reported when the inputs are used. NaN and infinity become `null`, which counts as absent.
    #[must_use]
    pub fn set(self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        let value = as_json(&value).map(Input::Value);
        let value = value.map_err(|error| not_json(&check::plain(&name), &error.to_string()));
        self.with(name, value)
    }

    /// Sets a parameter to a file: a URL with `http://` or `https://` as text, or a local file as a [`Path`], a
    /// [`PathBuf`] or a [`File`], which is uploaded and replaced by its URL. Other text is reported when the inputs
    /// are used, before anything is read or sent.
    #[must_use]
    pub fn file(self, name: impl Into<String>, file: impl Into<Input>) -> Self {
        let name = name.into();
        let file = match file.into() {
            Input::Value(value) if !value.as_str().is_some_and(is_http) => Err(not_a_url(&name, &value)),
            file => Ok(file),
        };
        self.with(name, file)
    }

    // Not generic, so that it is compiled once here, and not in each program that sets an input.
    fn with(mut self, name: String, input: Result<Input, String>) -> Self {
        match self.place(&name) {
            Ok(place) => self.fields[place].1 = input,
            Err(place) => {
                self.fields.reserve_exact(1);
                self.fields.insert(place, (name, input));
            }
        }
        self
    }

    /// Returns an input, if it can be sent.
    pub fn get(&self, name: &str) -> Option<&Input> {
        self.fields[self.place(name).ok()?].1.as_ref().ok()
    }

    fn place(&self, name: &str) -> std::result::Result<usize, usize> {
        self.fields.binary_search_by(|(field, _)| field.as_str().cmp(name))
    }

    /// Creates inputs from a value that serializes to a JSON object, such as a type of your own.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the value does not serialize to a JSON object.
    pub fn from_serialize(value: &impl Serialize) -> Result<Self> {
        let values = as_json::<Map<String, Value>>(value);
        let not_json = |error: serde_json::Error| not_json("the inputs", &error.to_string());
        values.map(Self::from).map_err(|error| Error::InvalidArgument(not_json(error)))
    }

    pub(crate) fn into_fields(self) -> Result<BTreeMap<String, Input>> {
        let fields = self.fields.into_iter().map(|(name, input)| Ok((name, input?)));
        fields.collect::<Result<_, String>>().map_err(Error::InvalidArgument)
    }
}

fn not_json(what: &str, error: &str) -> String {
    format!("{what} cannot be written as JSON: {}", check::plain(error))
}

fn not_a_url(name: &str, value: &Value) -> String {
    let name = check::plain(name);
    let value = check::value_shown(value);
    format!(
        "{name}: {value} is not a URL that starts with http:// or https://; a local file is a Path or a File"
    )
}

/// Returns true for an http or https URL.
pub fn is_http(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

fn as_json<T: DeserializeOwned>(value: &impl Serialize) -> serde_json::Result<T> {
    // Only `to_value` rejects numbers that JSON cannot hold.
    serde_json::to_value(value)?;
    // Only text keeps the digits of an `f32`: `to_value` turns 0.1 into 0.10000000149011612.
    serde_json::from_str(&serde_json::to_string(value)?)
}

impl<K: Into<String>, V: Serialize> FromIterator<(K, V)> for Inputs {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(inputs: I) -> Self {
        inputs.into_iter().fold(Self::new(), |inputs, (name, value)| inputs.set(name, value))
    }
}

impl From<Map<String, Value>> for Inputs {
    fn from(values: Map<String, Value>) -> Self {
        values
            .into_iter()
            .fold(Self::new(), |inputs, (name, value)| inputs.with(name, Ok(Input::Value(value))))
    }
}
