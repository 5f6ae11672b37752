//! Inputs of a run: values, and files that are uploaded before the task is created.

mod check;
mod file_input;
mod message;
mod number;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::{Map, Value};

pub(crate) use check::{Candidate, Undeclared, check};
pub use file_input::FileInput;

use crate::files::source::File;
use crate::transport::error::{Error, Result};

/// The inputs of a run, by the names of the model's parameters.
///
/// ```
/// use inferstore::Inputs;
///
/// let inputs = Inputs::new().file("input_image", "photo.jpg").set("template", "v_shape").set("angle", 30);
/// assert_eq!(inputs.len(), 3);
///
/// let same: Inputs = [("template", "v_shape")].into_iter().collect();
/// assert_eq!(same.get("template"), inputs.get("template"));
/// ```
///
/// Before anything is sent, they are checked against what the model declares, and each value is written
/// in the JSON type that the model takes: `30` is sent as `"30"` where the samples are strings.
///
/// Inputs without files can be written as JSON and read back. JSON never reads a file of this machine:
/// text in it stays text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    fields: BTreeMap<String, Input>,
    /// Why values cannot be written as JSON, by name; reported when the inputs are used.
    errors: BTreeMap<String, String>,
}

/// One input.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Input {
    /// A value that is sent; the URL of a file is a text.
    Value(Value),
    /// A file that is uploaded and replaced by its URL.
    File(File),
}

impl Inputs {
    /// Creates empty inputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a parameter to a value: a number, a text, a URL, a [`FileInput`], anything that serializes.
    ///
    /// A value that cannot be written as JSON is reported when the inputs are used.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        self.insert(name, value);
        self
    }

    /// Sets a parameter to a file: a path, a URL that starts with `http://` or `https://`, or a
    /// [`File`]. A path and a `File` are uploaded and replaced by their URL.
    #[must_use]
    pub fn file(self, name: impl Into<String>, file: impl Into<FileInput>) -> Self {
        self.set(name, file.into())
    }

    /// Sets a parameter like [`set`](Self::set), in place.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Serialize) -> &mut Self {
        let name = name.into();
        self.remove(&name);
        match file_input::collect(&value).and_then(|(value, files)| file_input::resolve(value, &files)) {
            Ok(input) => drop(self.fields.insert(name, input)),
            Err(error) => drop(self.errors.insert(name, error.to_string())),
        }
        self
    }

    /// Returns an input.
    pub fn get(&self, name: &str) -> Option<&Input> {
        self.fields.get(name)
    }

    /// Removes an input and returns it.
    pub fn remove(&mut self, name: &str) -> Option<Input> {
        self.errors.remove(name);
        self.fields.remove(name)
    }

    /// Iterates over the inputs, in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Input)> {
        self.fields.iter().map(|(name, input)| (name.as_str(), input))
    }

    /// Returns the number of inputs.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns whether there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Creates inputs from a value that serializes to a JSON object: the input of a model kind, or a
    /// type of your own. Fields of the type [`FileInput`] become files.
    ///
    /// ```
    /// use inferstore::{FileInput, Inputs};
    ///
    /// #[derive(serde::Serialize)]
    /// struct Harmonize {
    ///     input_image: FileInput,
    ///     angle: u32,
    /// }
    ///
    /// let inputs = Inputs::from_serialize(&Harmonize { input_image: "photo.jpg".into(), angle: 30 })?;
    /// assert_eq!(inputs, Inputs::new().file("input_image", "photo.jpg").set("angle", 30));
    /// # Ok::<(), inferstore::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the value does not serialize to a JSON object.
    pub fn from_serialize(value: &impl Serialize) -> Result<Self> {
        let no_json = |error: serde_json::Error| {
            let error = message::plain(&error.to_string());
            Error::InvalidArgument(format!("the inputs cannot be written as JSON: {error}"))
        };
        let (value, files) = file_input::collect(value).map_err(no_json)?;
        let Value::Object(values) = value else { return Err(no_object()) };
        let fields = values.into_iter().map(|(name, value)| Ok((name, file_input::resolve(value, &files)?)));
        let fields = fields.collect::<serde_json::Result<_>>().map_err(no_json)?;
        Ok(Self { fields, errors: BTreeMap::new() })
    }

    /// Returns the fields, if all of them can be sent.
    pub(crate) fn into_fields(self) -> Result<BTreeMap<String, Input>> {
        match self.error() {
            None => Ok(self.fields),
            Some(error) => Err(Error::InvalidArgument(error)),
        }
    }

    fn error(&self) -> Option<String> {
        let (name, error) = self.errors.first_key_value()?;
        Some(format!("{} cannot be written as JSON: {}", message::plain(name), message::plain(error)))
    }
}

fn no_object() -> Error {
    Error::InvalidArgument("inputs must be a JSON object".to_owned())
}

impl<K: Into<String>, V: Serialize> Extend<(K, V)> for Inputs {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, inputs: I) {
        for (name, value) in inputs {
            self.insert(name, value);
        }
    }
}

impl<K: Into<String>, V: Serialize> FromIterator<(K, V)> for Inputs {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(inputs: I) -> Self {
        let mut collected = Self::new();
        collected.extend(inputs);
        collected
    }
}

impl From<Map<String, Value>> for Inputs {
    fn from(values: Map<String, Value>) -> Self {
        let fields = values.into_iter().map(|(name, value)| (name, Input::Value(value))).collect();
        Self { fields, errors: BTreeMap::new() }
    }
}

impl TryFrom<Value> for Inputs {
    type Error = Error;

    fn try_from(value: Value) -> Result<Self> {
        match value {
            Value::Object(values) => Ok(Self::from(values)),
            _ => Err(no_object()),
        }
    }
}

/// Fails if an input is a file that is not uploaded yet.
impl Serialize for Inputs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.error() {
            None => serializer.collect_map(&self.fields),
            Some(error) => Err(S::Error::custom(error)),
        }
    }
}

impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

/// Fails if it is a file that is not uploaded yet.
impl Serialize for Input {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::File(file) => file_input::serialize(file, serializer),
        }
    }
}
