//! Model kinds of the catalog as types, each with its output.

use inferstore_api::types;
use serde_json::{Value, json};

use inferstore_document::kinds;
use inferstore_document::members;
use inferstore_document::schema::mistakes;

#[test]
fn every_kind_has_an_input_type_that_writes_as_the_document_spells() {
    let types = inferstore_document::types::kinds();
    let mut seen = 0;
    for kind in kinds::kinds() {
        let name = kind.name;
        let found = types.iter().find(|typed| typed.name == name);
        let typed = found.unwrap_or_else(|| panic!("no type of the kind {name}"));
        for input in kind.legal_inputs() {
            assert_eq!(mistakes(kind.input, &input), Vec::<String>::new(), "{name}");
            let again = (typed.input)(&input).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(mistakes(kind.input, &again), Vec::<String>::new(), "{name}: {again}");
            assert_eq!(numbers_of(again), numbers_of(input), "{name}");
        }
        let output: Value = members(&kind.output["properties"])
            .map(|(name, _)| (name.to_owned(), json!("https://files.example/a.png")))
            .collect();
        assert_eq!((typed.output)(&output).ok(), Some(output), "{name}");
        seen += 1;
    }
    assert_eq!(seen, types.len());
}

/// `"1.00"` and `"1"` are one number. The types use `f64`, whose precision is accepted.
fn numbers_of(input: Value) -> Value {
    let Value::Object(members) = input else { return input };
    let value_of = |value: Value| match value.as_str().and_then(|text| text.parse::<f64>().ok()) {
        Some(number) => json!([number]),
        None => value,
    };
    members.into_iter().map(|(name, value)| (name, value_of(value))).collect()
}

#[test]
fn callers_write_numbers_and_strings_travel() {
    let input = types::FaceDetectionInput {
        input: "https://files.example/a.png".to_owned(),
        model: types::FaceDetectionModel::ShortRange,
        confidence: 0.5,
    };
    assert_eq!(json!(input)["confidence"], json!("0.5"));
    let bare = json!({"input_image": "https://files.example/a.png", "template": "v_shape", "angle": 30});
    let read: types::ColorHarmonizationInput = serde_json::from_value(bare).expect("a bare number is read");
    assert_eq!(read.angle, 30);
    for (confidence, text) in [
        (1.0 / 300.0, "0.003333333333333334"),
        (0.1, "0.1"),
        (1e-7, "0.0000001"),
        (1e-30, "0"),
        (-0.0, "0"),
        (1.0, "1"),
    ] {
        let sent = json!(types::FaceDetectionInput { confidence, ..input.clone() });
        assert_eq!(sent["confidence"], text);
        let kind = kinds::kinds().find(|kind| kind.name == "face-detection").expect("a kind");
        assert_eq!(mistakes(kind.input, &sent), Vec::<String>::new(), "{confidence}");
    }
    let unsendable = types::FaceDetectionInput { confidence: f64::NAN, ..input };
    let refused = serde_json::to_value(&unsendable).expect_err("it is no number");
    assert_eq!(refused.to_string(), "NaN is not a finite number");
}
