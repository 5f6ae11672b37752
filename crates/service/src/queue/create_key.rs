//! Create keys: the `Idempotency-Key` header of a create; a second create with the key returns the first one's task.
//! The create's transaction inserts the key as a row of its own: a key exists if and only if its task was created, and
//! the retention of tasks, which may be shorter, does not delete the key.

use std::iter;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::hex::hex;

pub(crate) const KEY_RETENTION: Duration = Duration::from_hours(24);

pub(crate) const MAX_KEY: usize = 255;

#[derive(Debug, Clone)]
pub(crate) struct CreateKey {
    pub(crate) key: String,
    /// SHA-256 digest of the model and the inputs, in hexadecimal.
    pub(crate) request: String,
}

impl CreateKey {
    pub(crate) fn new(key: String, model: &str, inputs: &[String]) -> Self {
        let mut digest = Sha256::new();
        for part in iter::once(model).chain(inputs.iter().map(String::as_str)) {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        Self { key, request: hex(&digest.finalize()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyedCreate {
    pub(crate) task: String,
    pub(crate) request: String,
}
