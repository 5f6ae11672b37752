//! Model kinds of the catalog: inputs with the exact options, and outputs.

use super::{Differences, is_our_decision, object, spelled, strings};
use inferstore_document::{document, members, resolve};
use serde_json::Value;

type Field = (&'static str, &'static str);

/// Row of the catalog: kind of model, number of variants, inputs and outputs with their limits.
const KINDS: &[(&str, usize, &[Field], &[Field])] = &[
    (
        "multi-method image blending",
        1,
        &[
            ("bg_img", "URL"),
            ("obj_img", "URL"),
            ("mask_img", "URL"),
            ("method", "options: Poisson, Laplacian, Mixed Gradient"),
        ],
        &[("output", "URL")],
    ),
    (
        "color harmonization",
        1,
        &[
            ("input_image", "URL"),
            (
                "template",
                "options: vertical_bar, v_shape, right_angle, left_angle, double_bar, t_shape, y_branch, x_cross",
            ),
            ("angle", "int"),
        ],
        &[("output_image", "URL"), ("output_hue", "URL")],
    ),
    (
        "face detection",
        1,
        &[
            ("input", "URL"),
            (
                "model",
                "options: Short-range model (best for faces within 2 meters), \
                 Full-range model (best for faces within 5 meters)",
            ),
            ("confidence", "float"),
        ],
        &[("output", "URL")],
    ),
    ("image feature matching", 1, &[("input_1", "URL"), ("input_2", "URL")], &[("output", "URL")]),
    ("background replacement", 1, &[("input", "URL"), ("background_path", "URL")], &[("output", "URL")]),
    ("face mesh plotting", 1, &[("input", "URL")], &[("output", "URL"), ("multi_face_landmarks", "string")]),
    ("semantic-guided low-light enhancement", 1, &[("input_image", "URL")], &[("output_image", "URL")]),
    ("low-light enhancement", 1, &[("input_image", "URL")], &[("output_image", "URL")]),
    ("super-resolution", 2, &[("input_image", "URL")], &[("output_image", "URL")]),
    ("haze removal", 1, &[("input_image", "URL")], &[("output_image", "URL")]),
    ("video to edge map", 1, &[("input", "URL")], &[("output", "URL")]),
    ("background removal", 1, &[("input", "URL")], &[("output", "URL")]),
    ("image to anime", 1, &[("input", "URL")], &[("output", "URL")]),
    ("color extraction", 1, &[("input", "URL")], &[("output", "string")]),
];

/// Returns the input schemas of the document. The description names no kind; the first sentence of a schema's
/// description says which one it means.
fn inputs() -> impl Iterator<Item = (&'static str, &'static Value)> {
    members(&document()["components"]["schemas"]).filter(|(_, schema)| schema.get("x-model-kind").is_some())
}

fn is_of(kind: &str, schema: &Value) -> bool {
    let description = schema["description"].as_str().unwrap_or_default();
    let words: Vec<_> = description.split(['.', ',']).take(1).map(str::to_lowercase).collect();
    words == [kind]
}

fn in_catalog(field: &'static Value) -> String {
    let target = resolve(field);
    match (target.get("enum"), spelled(field).as_str()) {
        (Some(words), _) => format!("options: {}", strings(words).join(", ")),
        // A number of a kind is sent as a string.
        (None, "string") if target["x-number"]["type"] == "integer" => "int".to_owned(),
        (None, "string") if target["x-number"]["type"] == "number" => "float".to_owned(),
        (None, other) => other.to_owned(),
    }
}

fn compare(differences: &mut Differences, place: &str, object: &'static Value, fields: &[Field]) {
    let described = fields.iter().map(|(name, kind)| format!("{name} {kind}"));
    let documented =
        members(&object["properties"]).map(|(name, field)| format!("{name} {}", in_catalog(field)));
    differences.between(place, described, documented);
}

#[test]
fn every_model_kind_has_exactly_the_described_inputs_and_outputs() {
    let mut differences = Differences::default();
    for (kind, variants, input, output) in KINDS {
        let found: Vec<_> = inputs().filter(|(_, schema)| is_of(kind, schema)).collect();
        differences.unless(found.len() == *variants, || {
            format!("{kind}: {variants} are described, {} are there", found.len())
        });
        for (name, schema) in found {
            compare(&mut differences, name, schema, input);
            let required = input.iter().map(|(name, _)| *name);
            differences.between(&format!("required by {name}"), required, strings(&schema["required"]));
            let result = schema["x-model-kind"]["output"].as_str().expect("a kind names its output");
            compare(&mut differences, result, object(result), output);
        }
    }
    differences.none();
}

#[test]
fn every_other_kind_is_our_decision_with_its_own_name_and_output() {
    let described: usize = KINDS.iter().map(|(_, variants, ..)| variants).sum();
    let documented: Vec<_> =
        inputs().filter(|(_, schema)| !is_our_decision(schema)).map(|(name, _)| name).collect();
    assert_eq!((described, documented.len()), (15, 15), "{documented:?}");
    for key in ["name", "output"] {
        let mut values: Vec<_> = inputs().map(|(_, schema)| schema["x-model-kind"][key].as_str()).collect();
        values.sort_unstable();
        values.dedup();
        assert!(!values.contains(&None), "a kind has no {key}");
        assert_eq!(values.len(), inputs().count(), "two kinds share a {key}");
    }
}
