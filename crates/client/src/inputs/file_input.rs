//! A file as an input: its URL, or a file that is uploaded first.

use std::cell::RefCell;
use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

use super::Input;
use crate::files::source::File;

/// The value of a file parameter: the URL of a stored file, or a file to upload.
///
/// ```
/// use inferstore::FileInput;
///
/// assert_eq!(FileInput::from("photo.jpg"), FileInput::path("photo.jpg"));
/// assert_eq!(FileInput::from("https://host.example/a.jpg"), FileInput::url("https://host.example/a.jpg"));
/// ```
///
/// Only a URL can be written as JSON, except by [`Inputs`](crate::Inputs), which keep the file. JSON is
/// always read as a URL, never as a path.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FileInput {
    /// The URL of a stored file, sent as it is.
    Url(String),
    /// A file that is uploaded and replaced by its URL.
    File(File),
}

impl FileInput {
    /// Creates the input from the URL of a stored file.
    pub fn url(url: impl Into<String>) -> Self {
        Self::Url(url.into())
    }

    /// Creates the input from the path of a file on this machine.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self::File(File::path(path))
    }
}

/// Text that starts with `http://` or `https://` is a URL; everything else is a path.
impl<P: Into<PathBuf>> From<P> for FileInput {
    fn from(path: P) -> Self {
        let path = path.into();
        match path.to_str() {
            Some(text) if is_http(text) => Self::url(text),
            _ => Self::path(path),
        }
    }
}

impl From<File> for FileInput {
    fn from(file: File) -> Self {
        Self::File(file)
    }
}

/// Fails for a file that is not uploaded yet.
impl Serialize for FileInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Url(url) => serializer.serialize_str(url),
            Self::File(file) => serialize(file, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FileInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::Url)
    }
}

tokio::task_local! {
    /// The files met so far while [`collect`] serializes a value.
    static FILES: RefCell<Vec<File>>;
}

/// The key of the JSON object that stands for a file while a value is serialized.
const REFERENCE: &str = "$inferstore::file";

/// Serializes the value. Files in it are returned beside the JSON, where references stand for them.
pub(super) fn collect(value: &impl Serialize) -> serde_json::Result<(Value, Vec<File>)> {
    FILES.sync_scope(RefCell::default(), || {
        // Only `to_value` refuses numbers that no JSON value can hold.
        serde_json::to_value(value)?;
        FILES.with(RefCell::take);
        // Only text keeps the digits of an `f32`: `to_value` turns 0.1 into 0.10000000149011612.
        let value = serde_json::from_str(&serde_json::to_string(value)?)?;
        Ok((value, FILES.with(RefCell::take)))
    })
}

/// Whether the text starts with `http://` or `https://`.
pub(super) fn is_http(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// Replaces the reference to a file by the file.
pub(super) fn resolve(value: Value, files: &[File]) -> serde_json::Result<Input> {
    let index = value.get(REFERENCE).and_then(Value::as_u64).map(usize::try_from);
    if let Some(Ok(index)) = index
        && let Some(file) = files.get(index)
    {
        return Ok(Input::File(file.clone()));
    }
    if !files.is_empty() && value.to_string().contains(REFERENCE) {
        return Err(serde_json::Error::custom("a file must be the whole value of an input"));
    }
    Ok(Input::Value(value))
}

/// Serializes a file as a reference within [`collect`], and fails outside of it.
pub(super) fn serialize<S: Serializer>(file: &File, serializer: S) -> Result<S::Ok, S::Error> {
    let index = FILES.try_with(|files| {
        let mut files = files.borrow_mut();
        files.push(file.clone());
        files.len() - 1
    });
    let index = index.map_err(|_| {
        S::Error::custom("a file that is not uploaded cannot be written as JSON; upload it and use its URL")
    })?;
    let mut reference = serializer.serialize_map(Some(1))?;
    reference.serialize_entry(REFERENCE, &index)?;
    reference.end()
}
