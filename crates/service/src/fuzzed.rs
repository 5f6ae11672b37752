//! Entry points for the fuzz targets of this repository: parsers of untrusted input. No part of the public API.

use crate::catalog::{Format, Inputs, check_inputs, checked_formats};

pub use crate::object_storage::fuzzed::{UploadForm, form, location, path, policy_expiration, signed_url};

/// Returns true if a model with these inputs can be published.
pub fn is_publishable(declared: &str) -> bool {
    checked_formats(declared, r#"{"output": {"type": "string", "position": 0}}"#).is_ok()
}

/// Returns the violations of a task's inputs; None if the declaration or the inputs cannot be parsed.
pub fn complaints(declared: &str, inputs: &str) -> Option<Vec<String>> {
    let declared: Format = serde_json::from_str(declared).ok()?;
    let inputs: Inputs = serde_json::from_str(inputs).ok()?;
    Some(check_inputs(&declared, &inputs).err().unwrap_or_default())
}
