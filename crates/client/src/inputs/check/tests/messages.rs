//! What is said about inputs that do not fit.

use serde_json::{Value, json};

use super::{candidates, check_json, descriptors};
use crate::inputs::check::{Candidate, check};

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

#[test]
fn everything_is_said_at_once_in_the_order_of_the_model() {
    let values = json!({
        "input_image": "photo.jpg", "template": "V_shape", "angle": 95.5, "zoom": 0.6, "note": [1, 2],
        "templte": "x", "seed": 7,
    });
    let invalid = check_json(&schema(), values).unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "input_image: \"photo.jpg\" is not the URL of a file; give one that begins with http:// or https://, or a file to upload
template: \"V_shape\" is not among its options; did you mean \"v_shape\"? give one of \"v_shape\", \"t_shape\"
angle: 95.5 is not a whole number; give it without a fraction
angle: 95.5 is above the maximum; give 90 or less
note: a list of 2 does not fit; give a text
zoom: 0.6 is between two steps; give 0.5 plus a multiple of 0.25
seed: the model has no such parameter; leave it out
templte: the model has no such parameter; did you mean template?
the model takes: input_image, template, angle, note, zoom"
    );
    assert_eq!(invalid.parameters(), ["input_image", "template", "angle", "note", "zoom"]);
}

#[test]
fn what_is_missing_is_described() {
    let invalid = check_json(&schema(), json!({})).unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "input_image: required, but not given; give a file to upload (image/*), or its URL
template: required, but not given; give one of \"v_shape\", \"t_shape\"
angle: required, but not given; give a whole number from 1 to 90"
    );
    assert!(invalid.violations().iter().all(|violation| violation.given().is_none()));
}

#[test]
fn wrong_types_and_files_are_named() {
    let mut inputs = candidates(json!({ "angle": true, "zoom": "big" }));
    let video = || Candidate::File { mime: Some("video/mp4".to_owned()) };
    inputs.extend([("input_image".to_owned(), video()), ("template".to_owned(), video())]);
    let invalid = check(&descriptors(schema()), &inputs).unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "input_image: a file of type video/mp4 is not accepted; give a file of type image/*
template: a file of type video/mp4 does not fit; give one of \"v_shape\", \"t_shape\"
angle: true is a truth value; give a whole number from 1 to 90
zoom: \"big\" is not a number; give digits such as 12.5"
    );
}

#[test]
fn no_secret_of_a_url_is_kept() {
    let signed = "https://me:planted@files.test/a.png?X-Amz-Signature=planted#planted";
    let values = json!({
        "input_image": signed.replace("https", "s3"), "template": signed, "angle": signed, "zoom": [signed],
        "note": { signed: signed }, "unknown": signed, signed: 1,
    });
    let invalid = check_json(&schema(), values).unwrap_err();
    assert_eq!(invalid.violations().len(), 7);
    assert!(!invalid.to_string().contains("planted"), "{invalid}");
    let given = invalid.violations().iter().filter_map(|violation| violation.given());
    assert!(!given.collect::<String>().contains("planted"));
}

#[test]
fn hostile_texts_stay_on_their_line() {
    let schema = json!({ "a\nb": { "type": "options", "samples": ["x\ny"], "required": true } });
    let invalid =
        check_json(&schema, json!({ "a\nb": "z\n".repeat(10_000), "c\nd": "\u{1b}[31m" })).unwrap_err();
    let text = invalid.to_string();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.len() < 1_000 && !text.contains('\u{1b}'), "{text}");
}
