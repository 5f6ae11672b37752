//! Requested operation: an operation of the API document, or of the object store.

use inferstore_api::operations;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// An operation of the API document ([`operations`]) or of the object store; in JSON, `createTask` or `getObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Operation(&'static str);

impl From<inferstore_api::Operation> for Operation {
    fn from(operation: inferstore_api::Operation) -> Self {
        Self(operation.id)
    }
}

impl Operation {
    /// Reads an object from the object store.
    pub const GET_OBJECT: Self = Self("getObject");
    /// Reads the headers of an object.
    pub const HEAD_OBJECT: Self = Self("headObject");
    /// Uploads a large file.
    pub const PUT_OBJECT: Self = Self("putObject");
    /// Uploads a small file by form.
    pub const POST_OBJECT: Self = Self("postObject");

    /// Returns every operation.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_api = operations::ALL.iter().map(|operation| Self(operation.id));
        of_api.chain([Self::GET_OBJECT, Self::HEAD_OBJECT, Self::PUT_OBJECT, Self::POST_OBJECT])
    }

    pub(super) fn of_api(method: &str, pattern: &str) -> Option<Self> {
        let mut all = operations::ALL.iter();
        all.find(|one| one.method == method && one.path == pattern).map(|one| Self(one.id))
    }

    pub(super) fn of_objects(method: &str) -> Option<Self> {
        match method {
            "GET" => Some(Self::GET_OBJECT),
            "HEAD" => Some(Self::HEAD_OBJECT),
            "PUT" => Some(Self::PUT_OBJECT),
            "POST" => Some(Self::POST_OBJECT),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        let unknown =
            || D::Error::custom(format!("{id:?} is no operation of the document or the object store"));
        Self::all().find(|one| one.0 == id).ok_or_else(unknown)
    }
}
