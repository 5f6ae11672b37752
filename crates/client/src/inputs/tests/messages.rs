//! Messages about inputs that do not fit.

use serde_json::{Value, json};

use super::{check_json, descriptors, file, inputs};
use crate::inputs::check::check;
use crate::transport::error::{InvalidInputs, ViolationKind};

fn schema() -> Value {
    json!({
        "template": { "type": "options", "samples": ["v_shape", "t_shape"], "required": true, "position": 2 },
        "input_image": { "type": "file", "mime_type": ["image/*"], "required": true, "position": 1 },
        "angle": {
            "type": "int", "samples": ["1"], "required": true, "position": 3,
            "num_config": { "min": 1, "max": 90 },
        },
        "zoom": { "type": "float", "num_config": { "min": 0.5, "step": 0.25 } },
        "note": { "type": "string" },
    })
}

fn messages(invalid: &InvalidInputs) -> Vec<&str> {
    invalid.violations.iter().map(|violation| violation.message.as_str()).collect()
}

#[test]
fn all_violations_are_reported_at_once_in_the_order_of_the_parameters() {
    let values = json!({
        "input_image": "photo.jpg", "template": "V_shape", "angle": 95.5, "zoom": 0.25, "note": [1, 2],
        "templte": "x", "seed": 7,
    });
    let invalid = check_json(&schema(), values).unwrap_err();
    assert_eq!(
        messages(&invalid),
        [
            "input_image: expected a file to upload (image/*), or a URL that starts with http:// or https://, got \"photo.jpg\"",
            "template: expected one of \"v_shape\", \"t_shape\", got \"V_shape\", did you mean \"v_shape\"?",
            "angle: expected a whole number from 1 to 90, got 95.5",
            "note: expected text, got a list of 2",
            "zoom: expected a number of 0.5 or more, got 0.25",
            "seed: the model declares no such parameter, expected one of input_image, template, angle, note, zoom",
            "templte: the model declares no such parameter, did you mean \"template\"?",
        ]
    );
    assert_eq!(invalid.parameters, ["input_image", "template", "angle", "note", "zoom"]);
    assert_eq!(invalid.to_string(), messages(&invalid).join("; "));
}

#[test]
fn a_missing_input_is_described() {
    let invalid = check_json(&schema(), json!({})).unwrap_err();
    assert_eq!(
        messages(&invalid),
        [
            "input_image: required but not given, expected a file to upload (image/*), or a URL that starts with http:// or https://",
            "template: required but not given, expected one of \"v_shape\", \"t_shape\"",
            "angle: required but not given, expected a whole number from 1 to 90",
        ]
    );
    assert!(invalid.has(ViolationKind::Missing) && !invalid.has(ViolationKind::Undeclared));
}

#[test]
fn wrong_types_are_described() {
    let mut inputs = inputs(json!({ "angle": true, "zoom": "big" }));
    let video = || file(Some("video/mp4"));
    inputs.extend([("input_image".to_owned(), video()), ("template".to_owned(), video())]);
    let invalid = check(&descriptors(schema()), &inputs).unwrap_err();
    assert_eq!(
        messages(&invalid),
        [
            "input_image: expected a file to upload (image/*), or a URL that starts with http:// or https://, got a file of type video/mp4",
            "template: expected one of \"v_shape\", \"t_shape\", got a file",
            "angle: expected a whole number from 1 to 90, got true",
            "zoom: expected a number of 0.5 or more, got \"big\"",
        ]
    );
}

#[test]
fn every_bound_is_described() {
    for (config, given, message) in [
        (json!({ "max": 9 }), json!(10), "p: expected a number of 9 or less, got 10"),
        (
            json!({ "min": "-0.50", "max": 0 }),
            json!("-1"),
            "p: expected a number from -0.50 to 0, got \"-1\"",
        ),
        (json!({ "max": 9 }), json!([]), "p: expected a number of 9 or less, got a list of 0"),
        (json!({}), json!({}), "p: expected a number, got an object"),
    ] {
        let schema = json!({ "p": { "type": "float", "num_config": config } });
        assert_eq!(check_json(&schema, json!({ "p": given })).unwrap_err().to_string(), message);
    }
}

#[test]
fn no_secret_of_a_url_is_shown() {
    let signed = "https://me:planted@files.test/a.png?X-Amz-Signature=planted#planted";
    let values = json!({
        "input_image": signed.replace("https", "s3"), "template": signed, "angle": signed, "zoom": [signed],
        "note": { signed: signed }, "unknown": signed, signed: 1,
    });
    let invalid = check_json(&schema(), values).unwrap_err();
    assert_eq!(invalid.violations.len(), 7);
    assert!(!invalid.to_string().contains("planted"), "{invalid}");
}

#[test]
fn hostile_text_is_bounded_and_has_no_control_characters() {
    let hostile = "\u{1b}[31mz\n\u{202e}".repeat(1_000);
    let schema = json!({
        &hostile: { "type": "options", "samples": vec![&hostile; 50], "required": true },
        "b": { "type": "file", "mime_type": vec![&hostile; 50] },
        "c": { "type": "int", "num_config": { "min": "1".repeat(10_000) } },
    });
    for values in
        [json!({}), json!({ &hostile: &hostile, "b": &hostile, "c": 2 }), json!({ &hostile: 1, "d": 1 })]
    {
        let invalid = check_json(&schema, values).unwrap_err();
        for message in messages(&invalid) {
            assert!(message.len() < 25_000, "{} bytes", message.len());
        }
        let text = invalid.to_string();
        assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text}");
    }
}

#[test]
fn the_text_of_many_violations_is_bounded() {
    let values: Value = (0..1_000).map(|index| (format!("unknown {index}"), json!(1))).collect();
    let invalid = check_json(&json!({ "p": {} }), values).unwrap_err();
    assert_eq!(invalid.violations.len(), 1_000);
    assert!(invalid.to_string().ends_with("; and 980 more"), "{invalid}");
}
