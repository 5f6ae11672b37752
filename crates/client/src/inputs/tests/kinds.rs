//! The inputs of the model kinds of the catalog, with their numbers in both spellings.

use serde_json::{Map, Value, json};

use super::check_json;

const URL: &str = "https://files.test/samples/photo.jpg";

fn file(position: usize, mime: &str) -> Value {
    json!({ "type": "file", "mime_type": [mime], "required": true, "position": position })
}

fn images(names: &[&str]) -> Map<String, Value> {
    names.iter().enumerate().map(|(position, &name)| (name.to_owned(), file(position, "image/*"))).collect()
}

fn with(mut schema: Map<String, Value>, name: &str, descriptor: Value) -> Value {
    schema.insert(name.to_owned(), descriptor);
    Value::Object(schema)
}

fn options(position: usize, samples: &[&str]) -> Value {
    json!({ "type": "options", "samples": samples, "required": true, "position": position })
}

fn blending() -> Value {
    let images = images(&["bg_img", "obj_img", "mask_img"]);
    with(images, "method", options(3, &["Poisson", "Laplacian", "Mixed Gradient"]))
}

fn harmonization(samples: Value) -> Value {
    let mut schema = images(&["input_image"]);
    let templates = [
        "vertical_bar",
        "v_shape",
        "right_angle",
        "left_angle",
        "double_bar",
        "t_shape",
        "y_branch",
        "x_cross",
    ];
    schema.insert("template".to_owned(), options(1, &templates));
    let angle = json!({
        "type": "int", "samples": samples, "required": true, "position": 2,
        "num_config": { "min": 1, "max": 90, "step": 1 },
    });
    with(schema, "angle", angle)
}

const SHORT_RANGE: &str = "Short-range model (best for faces within 2 meters)";
const FULL_RANGE: &str = "Full-range model (best for faces within 5 meters)";

fn face_detection(samples: Value) -> Value {
    let mut schema = images(&["input"]);
    schema.insert("model".to_owned(), options(1, &[SHORT_RANGE, FULL_RANGE]));
    let confidence = json!({
        "type": "float", "samples": samples, "required": true, "position": 2,
        "num_config": { "min": 0, "max": 1, "step": 0.01 },
    });
    with(schema, "confidence", confidence)
}

/// Valid inputs of every kind, and the values sent.
#[test]
fn every_kind_takes_its_inputs() {
    let image = json!({ "input_image": URL });
    let input = json!({ "input": URL });
    let blended = json!({ "bg_img": URL, "obj_img": URL, "mask_img": URL, "method": "Mixed Gradient" });
    let harmonized = |angle: Value| json!({ "input_image": URL, "template": "v_shape", "angle": angle });
    let detected = |confidence: Value| json!({ "input": URL, "model": FULL_RANGE, "confidence": confidence });
    let matched = json!({ "input_1": URL, "input_2": URL });
    let replaced = json!({ "input": URL, "background_path": URL });
    let of_images = |names: &[&str]| Value::Object(images(names));
    let (strings, numbers) = (|| json!(["1", "30"]), || json!([1, 30]));
    for (kind, schema, given, expected) in [
        ("blending", blending(), blended.clone(), blended),
        ("harmonization", harmonization(strings()), harmonized(json!(30)), harmonized(json!("30"))),
        ("harmonization", harmonization(strings()), harmonized(json!("30")), harmonized(json!("30"))),
        ("harmonization", harmonization(numbers()), harmonized(json!(30)), harmonized(json!(30))),
        ("harmonization", harmonization(numbers()), harmonized(json!("30")), harmonized(json!(30))),
        ("harmonization", harmonization(json!([])), harmonized(json!(30)), harmonized(json!(30))),
        ("face detection", face_detection(json!(["0.5"])), detected(json!(0.5)), detected(json!("0.5"))),
        ("face detection", face_detection(json!(["0.5"])), detected(json!("0.5")), detected(json!("0.5"))),
        ("face detection", face_detection(json!([0.5])), detected(json!(0.29)), detected(json!(0.29))),
        ("face detection", face_detection(json!([0.5])), detected(json!("0.29")), detected(json!(0.29))),
        ("face detection", face_detection(json!(["0.5"])), detected(json!(1.0)), detected(json!("1"))),
        ("feature matching", of_images(&["input_1", "input_2"]), matched.clone(), matched),
        ("background replacement", of_images(&["input", "background_path"]), replaced.clone(), replaced),
        ("face mesh", of_images(&["input"]), input.clone(), input.clone()),
        ("semantic low light", of_images(&["input_image"]), image.clone(), image.clone()),
        ("low light", of_images(&["input_image"]), image.clone(), image.clone()),
        ("super-resolution, first variant", of_images(&["input_image"]), image.clone(), image.clone()),
        ("super-resolution, second variant", of_images(&["input_image"]), image.clone(), image.clone()),
        ("haze removal", of_images(&["input_image"]), image.clone(), image),
        ("edge map", json!({ "input": file(0, "video/*") }), input.clone(), input.clone()),
        ("background removal", of_images(&["input"]), input.clone(), input.clone()),
        ("anime", of_images(&["input"]), input.clone(), input.clone()),
        ("color extraction", of_images(&["input"]), input.clone(), input),
    ] {
        let checked = check_json(&schema, given).expect(kind);
        assert_eq!(Value::Object(checked), expected, "{kind}");
        let fields = schema.as_object().map(Map::len).unwrap_or_default();
        assert_eq!(check_json(&schema, json!({})).unwrap_err().violations.len(), fields, "{kind}");
    }
}

#[test]
fn every_limit_of_a_kind_is_kept() {
    let harmonized = |template: &str, angle: Value| {
        let given = json!({ "input_image": URL, "template": template, "angle": angle });
        check_json(&harmonization(json!(["30"])), given)
    };
    for angle in [json!(1), json!(90), json!("1"), json!("90")] {
        assert!(harmonized("x_cross", angle).is_ok());
    }
    for angle in [json!(0), json!(91), json!("0"), json!("91"), json!(-30), json!(30.5), json!("thirty")] {
        assert!(harmonized("x_cross", angle).is_err());
    }
    assert!(harmonized("X_cross", json!(1)).is_err());
    let detected = |model: &str, confidence: Value| {
        let given = json!({ "input": URL, "model": model, "confidence": confidence });
        check_json(&face_detection(json!(["0.5"])), given)
    };
    for hundredth in 0..=100 {
        let confidence = f64::from(hundredth) * 0.01;
        assert!(detected(SHORT_RANGE, json!(confidence)).is_ok(), "{confidence}");
        let text = format!("{confidence:.2}");
        assert!(detected(FULL_RANGE, json!(text)).is_ok(), "{text}");
    }
    for confidence in [json!(-0.01), json!(1.01), json!("1.0000000000000000001")] {
        assert!(detected(SHORT_RANGE, confidence).is_err());
    }
    assert!(detected("Short-range model", json!(0.5)).is_err());
}
