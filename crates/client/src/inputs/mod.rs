//! Inputs of a run: values, and files that are uploaded before the task is created.

mod check;
mod number;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use check::check;

use crate::files::source::File;
use crate::transport::error::{Error, Result};

/// The inputs of a run, by the names of the model's parameters.
///
/// ```
/// use inferstore::Inputs;
///
/// let inputs = Inputs::new().file("input_image", "photo.jpg").set("template", "v_shape").set("angle", 30);
///
/// let same: Inputs = [("template", "v_shape")].into_iter().collect();
/// assert_eq!(same.get("template"), inputs.get("template"));
/// ```
///
/// Before anything is sent, they are checked against what the model declares, and each value is written
/// in the JSON type that the model takes: `30` is sent as `"30"` where the samples are strings.
///
/// They can be read from JSON, which never reads a file of this machine: text in it stays text.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct Inputs {
    /// By name; an error is why the value cannot be written as JSON, reported when the inputs are used.
    fields: BTreeMap<String, Result<Input, String>>,
}

/// One input. Paths, URLs and [`File`]s convert into it.
///
/// ```
/// use inferstore::{File, Input};
///
/// assert_eq!(Input::from("photo.jpg"), Input::File(File::path("photo.jpg")));
/// assert_eq!(Input::from("https://host.example/a.jpg"), Input::Value("https://host.example/a.jpg".into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Input {
    /// A value that is sent; the URL of a file is a text.
    Value(Value),
    /// A file that is uploaded and replaced by its URL.
    File(File),
}

/// Text that starts with `http://` or `https://` is a URL; everything else is a path.
impl<P: Into<PathBuf>> From<P> for Input {
    fn from(path: P) -> Self {
        let path = path.into();
        match path.to_str() {
            Some(text) if is_http(text) => Self::Value(text.into()),
            _ => Self::File(File::path(path)),
        }
    }
}

impl From<File> for Input {
    fn from(file: File) -> Self {
        Self::File(file)
    }
}

impl Inputs {
    /// Creates empty inputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a parameter to a value: a number, a text, a URL, anything that serializes.
    ///
    /// A value that cannot be written as JSON is reported when the inputs are used. NaN and infinity
    /// are written as `null`, which counts as an input that is not given.
    #[must_use]
    pub fn set(self, name: impl Into<String>, value: impl Serialize) -> Self {
        let value = as_json(&value).map(Input::Value).map_err(|error| error.to_string());
        self.with(name.into(), value)
    }

    /// Sets a parameter to a file: a path, a URL that starts with `http://` or `https://`, or a
    /// [`File`]. A path and a `File` are uploaded and replaced by their URL.
    #[must_use]
    pub fn file(self, name: impl Into<String>, file: impl Into<Input>) -> Self {
        self.with(name.into(), Ok(file.into()))
    }

    // Not generic, so that the map is compiled here, and not in each program that sets an input.
    fn with(mut self, name: String, input: Result<Input, String>) -> Self {
        self.fields.insert(name, input);
        self
    }

    /// An input that can be sent.
    pub fn get(&self, name: &str) -> Option<&Input> {
        self.fields.get(name)?.as_ref().ok()
    }

    /// Creates inputs from a value that serializes to a JSON object, such as a type of your own.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the value does not serialize to a JSON object.
    pub fn from_serialize(value: &impl Serialize) -> Result<Self> {
        let values = as_json::<Map<String, Value>>(value);
        values.map(Self::from).map_err(|error| not_json("the inputs", &error.to_string()))
    }

    /// Returns the fields, if all of them can be sent.
    pub(crate) fn into_fields(self) -> Result<BTreeMap<String, Input>> {
        let fields = self.fields.into_iter().map(|(name, input)| match input {
            Ok(input) => Ok((name, input)),
            Err(error) => Err(not_json(&check::plain(&name), &error)),
        });
        fields.collect()
    }
}

fn not_json(what: &str, error: &str) -> Error {
    Error::InvalidArgument(format!("{what} cannot be written as JSON: {}", check::plain(error)))
}

/// Whether the text starts with `http://` or `https://`.
pub(crate) fn is_http(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

fn as_json<T: DeserializeOwned>(value: &impl Serialize) -> serde_json::Result<T> {
    // Only `to_value` refuses numbers that no JSON value can hold.
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
        let fields = values.into_iter().map(|(name, value)| (name, Ok(Input::Value(value)))).collect();
        Self { fields }
    }
}
