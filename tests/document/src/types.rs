//! Generated type of each body and model kind, listed from the document.

#[rustfmt::skip]
mod generated;

use inferstore_api::ModelKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use generated::{kinds, rewritten};

/// Model kind with its Rust type.
pub struct Kind {
    /// Name in the catalog.
    pub name: &'static str,
    /// Deserializes an input, and serializes it again.
    pub input: fn(&Value) -> serde_json::Result<Value>,
    /// Deserializes an output, and serializes it again.
    pub output: fn(&Value) -> serde_json::Result<Value>,
}

fn kind<K: ModelKind + Serialize + DeserializeOwned>() -> Kind {
    fn rewrite<T: Serialize + DeserializeOwned>(value: &Value) -> serde_json::Result<Value> {
        serde_json::to_value(serde_json::from_str::<T>(&value.to_string())?)
    }
    Kind { name: K::NAME, input: rewrite::<K>, output: rewrite::<K::Output> }
}

fn through<T: DeserializeOwned + Serialize>(body: &str) -> serde_json::Result<String> {
    serde_json::to_string(&serde_json::from_str::<T>(body)?)
}
