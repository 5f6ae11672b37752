//! Doors for the fuzz targets of this repository, to private parts that read what others wrote. Nothing
//! here is promised to anyone.

use crate::catalog::{Format, Inputs, check_inputs, checked_formats};

pub use crate::object_storage::fuzzed::{Form, form, location, path, policy_expiration};

/// Whether a model with these inputs could be published.
pub fn is_publishable(declared: &str) -> bool {
    checked_formats(declared, r#"{"output": {"type": "string", "position": 0}}"#).is_ok()
}

/// What is wrong with the inputs of a task; None when one of the two cannot even be read.
pub fn complaints(declared: &str, inputs: &str) -> Option<Vec<String>> {
    let declared: Format = serde_json::from_str(declared).ok()?;
    let inputs: Inputs = serde_json::from_str(inputs).ok()?;
    Some(check_inputs(&declared, &inputs).err().unwrap_or_default())
}
