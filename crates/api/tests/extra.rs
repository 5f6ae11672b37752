//! Fields beyond the document, where the document allows them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use inferstore_api::types::{Descriptor, ModelVersioning};
use serde_json::json;

#[test]
fn further_fields_of_descriptors_and_versions_are_kept() {
    let version = json!({
        "model_id": "m-1",
        "input_format": {"tint": {
            "type": "color", "fallback": "#fff", "limits": [0.1, 5], "samples": [5, "5.0"],
            "num_config": {"min": "0.30000000000000000001"},
        }},
        "released": "2026-04-02",
    });
    let read: ModelVersioning = serde_json::from_str(&version.to_string()).unwrap();
    assert_eq!(read.extra["released"], "2026-04-02");
    assert_eq!(read.input_format.as_ref().unwrap()["tint"].extra["fallback"], "#fff");
    assert_eq!(serde_json::to_value(&read).unwrap(), version);
    assert!(Descriptor::default().extra.is_empty());
}
