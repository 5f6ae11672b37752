//! The model kinds of the catalog as types: 15 of them, each with its output.

use inferstore_api::{ModelKind, types};
use serde_json::{Value, json};

use crate::support::document::{document, members, schema};
use crate::support::schema::mistakes;

/// What a kind is, read from its Rust type.
struct Kind {
    name: &'static str,
    there_and_back: fn(&Value) -> serde_json::Result<Value>,
    output_there_and_back: fn(&Value) -> serde_json::Result<Value>,
}

fn kind<K: ModelKind>() -> Kind {
    fn there_and_back<T: serde::Serialize + serde::de::DeserializeOwned>(
        value: &Value,
    ) -> serde_json::Result<Value> {
        serde_json::to_value(serde_json::from_str::<T>(&value.to_string())?)
    }
    Kind {
        name: K::NAME,
        there_and_back: there_and_back::<K>,
        output_there_and_back: there_and_back::<K::Output>,
    }
}

fn kinds() -> [Kind; 15] {
    [
        kind::<types::ImageBlendingInput>(),
        kind::<types::ColorHarmonizationInput>(),
        kind::<types::FaceDetectionInput>(),
        kind::<types::FeatureMatchingInput>(),
        kind::<types::BackgroundReplacementInput>(),
        kind::<types::FaceMeshInput>(),
        kind::<types::SemanticLowLightEnhancementInput>(),
        kind::<types::LowLightEnhancementInput>(),
        kind::<types::SuperResolutionInput>(),
        kind::<types::SuperResolutionAltInput>(),
        kind::<types::HazeRemovalInput>(),
        kind::<types::VideoEdgeMapInput>(),
        kind::<types::BackgroundRemovalInput>(),
        kind::<types::ImageToAnimeInput>(),
        kind::<types::ColorExtractionInput>(),
    ]
}

/// A value for every property of a schema.
fn filled(name: &str) -> Value {
    let value_of = |property: &'static Value| match property["$ref"].as_str() {
        Some(reference) => schema(reference.rsplit('/').next().unwrap_or_default())["enum"][0].clone(),
        None if property["type"] == "integer" => json!(1),
        None if property["type"] == "number" => json!(0.5),
        None => json!("https://files.example/a.png"),
    };
    members(&schema(name)["properties"])
        .map(|(name, property)| (name.to_owned(), value_of(property)))
        .collect()
}

#[test]
fn every_kind_of_the_document_has_a_type_that_carries_its_inputs_and_its_outputs() {
    let kinds = kinds();
    let mut seen = 0;
    for (input, schema) in members(&document()["components"]["schemas"]) {
        let Some(name) = schema["x-model-kind"]["name"].as_str() else { continue };
        let output = schema["x-model-kind"]["output"].as_str().expect("a kind has an output");
        let kind = kinds
            .iter()
            .find(|kind| kind.name == name)
            .unwrap_or_else(|| panic!("no type of the kind {name}"));
        let (inputs, outputs) = (filled(input), filled(output));
        assert_eq!(mistakes(schema, &inputs), Vec::<String>::new(), "{name}");
        assert_eq!((kind.there_and_back)(&inputs).ok(), Some(inputs), "{name}");
        assert_eq!((kind.output_there_and_back)(&outputs).ok(), Some(outputs), "{name}");
        seen += 1;
    }
    assert_eq!(seen, kinds.len());
}
