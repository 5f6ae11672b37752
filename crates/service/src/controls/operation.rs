//! What a request asks for: an operation of the document, or one of the object store.

use inferstore_api::operations;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a request asks for: one of the [`operations`] of the document, or one of the object store. In JSON, its
/// identifier: `createTask`, `getObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation {
    id: &'static str,
    method: &'static str,
    /// Paths of the API without `/api/v1`.
    path: &'static str,
}

impl From<inferstore_api::Operation> for Operation {
    fn from(operation: inferstore_api::Operation) -> Self {
        Self { id: operation.id, method: operation.method, path: operation.path }
    }
}

impl Operation {
    /// Reads an object from the object store.
    pub const GET_OBJECT: Self = Self { id: "getObject", method: "GET", path: "/{bucket}/{key}" };
    /// Reads the headers of an object.
    pub const HEAD_OBJECT: Self = Self { id: "headObject", method: "HEAD", path: "/{bucket}/{key}" };
    /// Uploads a large file.
    pub const PUT_OBJECT: Self = Self { id: "putObject", method: "PUT", path: "/{bucket}/{key}" };
    /// Uploads a small file by form.
    pub const POST_OBJECT: Self = Self { id: "postObject", method: "POST", path: "/{bucket}" };

    const OF_OBJECTS: [Self; 4] = [Self::GET_OBJECT, Self::HEAD_OBJECT, Self::PUT_OBJECT, Self::POST_OBJECT];

    fn all_of_api() -> impl Iterator<Item = Self> {
        operations::ALL.iter().map(|operation| Self::from(**operation))
    }

    /// Every operation.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::all_of_api().chain(Self::OF_OBJECTS)
    }

    /// The operation at a path of the API, as the router has it (with its placeholders).
    pub(super) fn of_api(method: &str, pattern: &str) -> Option<Self> {
        Self::all_of_api().find(|one| one.method == method && one.path == pattern)
    }

    /// The operation on the object store.
    pub(super) fn of_objects(method: &str) -> Option<Self> {
        Self::OF_OBJECTS.into_iter().find(|one| one.method == method)
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        let unknown =
            || D::Error::custom(format!("{id:?} is no operation of the document or the object store"));
        Self::all().find(|one| one.id == id).ok_or_else(unknown)
    }
}
