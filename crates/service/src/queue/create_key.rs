//! Create keys: the `Idempotency-Key` of a create, by which the same create sent again gets the task of the first one.
//!
//! A key has a row of its own, which the transaction of the create adds: so a key is used if and only if its task was
//! created, and retention of tasks, which may be shorter, does not touch it.

use std::iter;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// Time for which a key is remembered after its create.
pub(crate) const KEY_RETENTION: Duration = Duration::from_hours(24);

/// The largest length of a key.
pub(crate) const MAX_KEY: usize = 255;

/// The key of a create.
#[derive(Debug, Clone)]
pub(crate) struct CreateKey {
    pub(crate) key: String,
    /// Identifies the model and the inputs.
    pub(crate) request: String,
}

impl CreateKey {
    /// A key of a create with this model and these inputs, in their canonical form.
    pub(crate) fn new(key: String, model: &str, inputs: &[String]) -> Self {
        let mut digest = Sha256::new();
        for part in iter::once(model).chain(inputs.iter().map(String::as_str)) {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        Self { key, request: digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect() }
    }
}

/// A create whose key is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyedCreate {
    pub(crate) task: String,
    pub(crate) request: String,
}
