//! Identities of files across starts: a file whose time alone has changed is the same file.

use std::collections::HashMap;
use std::path::Path;
use std::time::UNIX_EPOCH;

use inferstore_batch::JournalError;
use serde_json::{Value, json};

use super::journal::Items;
use crate::values::md5_of;

/// Hashes of files that were read, by their identities.
#[derive(Default)]
pub(in crate::commands) struct Contents(HashMap<String, Option<String>>);

impl Contents {
    /// Returns the key of an item with the same inputs, and with files of the same contents at the same paths.
    pub(in crate::commands) fn same_item(
        &mut self,
        key: &str,
        items: &Items,
    ) -> Result<Option<String>, JournalError> {
        let own = files(key);
        for (earlier, _) in items.outdated_by(key)? {
            let mut is_same = true;
            for (own, earlier) in own.iter().zip(&files(&earlier)) {
                is_same = is_same
                    && (own == earlier || {
                        let recorded = items.content(&earlier.to_string())?;
                        recorded.is_some() && recorded == self.hash(own)
                    });
            }
            if is_same {
                return Ok(Some(earlier));
            }
        }
        Ok(None)
    }

    fn hash(&mut self, file: &Value) -> Option<String> {
        self.0.entry(file.to_string()).or_insert_with(|| md5_of(regular_file(file)?).ok()).clone()
    }
}

/// The identities of the files of a key, and of its URLs.
pub(super) fn files(key: &str) -> Vec<Value> {
    let Ok(Value::Array(parts)) = serde_json::from_str(key) else { return Vec::new() };
    let [_, _, Value::Object(others), file] = &parts[..] else { return Vec::new() };
    others.values().chain([file]).filter(|file| path_of(file).is_some()).cloned().collect()
}

fn path_of(file: &Value) -> Option<&Value> {
    file.as_array().filter(|file| file.len() == 3)?.first()
}

/// The path of a file that can be read more than once: a pipe cannot.
pub(super) fn regular_file(file: &Value) -> Option<&Path> {
    path_of(file)?.as_str().map(Path::new).filter(|path| path.is_file())
}

/// A key with the paths of its files, and without their sizes and times.
pub(super) fn without_content(key: &str) -> String {
    fn reduce(value: &mut Value) {
        if let Some(path) = path_of(value) {
            *value = path.clone();
        }
    }
    let Ok(Value::Array(mut parts)) = serde_json::from_str(key) else { return key.to_owned() };
    if let [_, _, others, file] = &mut parts[..] {
        others.as_object_mut().into_iter().flat_map(|others| others.values_mut()).for_each(reduce);
        reduce(file);
    }
    Value::Array(parts).to_string()
}

/// A file as it is: its path without links, size and time. A URL is its text.
pub(super) fn identity(given: &str, path: &Path) -> Value {
    let place =
        std::fs::canonicalize(path).map_or_else(|_| given.to_owned(), |path| path.display().to_string());
    let metadata = std::fs::metadata(path).ok();
    let size = metadata.as_ref().map(std::fs::Metadata::len);
    let modified = metadata.and_then(|metadata| metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    json!([place, size, modified.map(|time| time.as_nanos().to_string())])
}
