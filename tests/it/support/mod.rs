//! Test doubles and callers: scripted services, clusters, and a caller that validates every response of the service.

pub(crate) mod caller;
pub(crate) mod cluster;
pub(crate) mod deployment;
pub(crate) mod picture;
pub(crate) mod scripted;
pub(crate) mod upload_memory;

use serde_json::{Value, json};

/// Returns a model for `ModelSpec`, with the identifier `sketch`.
pub(crate) fn sketch(price: &str, inputs: &Value, outputs: &Value) -> Value {
    json!({
        "id": "sketch", "name": "sketch", "description": "Draws.", "visibility": "public", "price": price,
        "metadata": {
            "pretty_name": "Sketch", "task": "image-to-image", "license": "MIT", "library": [], "language": [],
        },
        "input_format": inputs,
        "output_format": outputs,
    })
}
