//! Check of inputs: accepted inputs, sent values, and messages.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod inputs;
mod kinds;
mod messages;
mod properties;

use std::collections::BTreeMap;

use inferstore_api::Decimal;
use inferstore_api::types::Descriptor;
use serde_json::{Map, Value, json};

use super::Input;
use super::check::check;
use crate::files::source::File;
use crate::transport::error::{InvalidInputs, ViolationKind};

fn descriptors(schema: Value) -> BTreeMap<String, Descriptor> {
    serde_json::from_value(schema).unwrap()
}

fn inputs(values: Value) -> BTreeMap<String, Input> {
    let values: BTreeMap<String, Value> = serde_json::from_value(values).unwrap();
    values.into_iter().map(|(name, value)| (name, Input::Value(value))).collect()
}

fn check_json(schema: &Value, values: Value) -> Result<Map<String, Value>, InvalidInputs> {
    check(&descriptors(schema.clone()), &inputs(values))
}

fn file(mime: Option<&str>) -> Input {
    let file = File::path("file");
    Input::File(match mime {
        Some(mime) => file.with_mime(mime),
        None => file,
    })
}

/// Returns the sent value, or the violation, of one value for one parameter.
fn sent(descriptor: &Value, given: Value) -> Result<Value, ViolationKind> {
    match check_json(&json!({ "p": descriptor }), json!({ "p": given })) {
        Ok(mut checked) => Ok(checked.remove("p").unwrap()),
        Err(invalid) => Err(only_kind(&invalid)),
    }
}

fn only_kind(invalid: &InvalidInputs) -> ViolationKind {
    let [violation] = &invalid.violations[..] else { panic!("more than one violation: {invalid}") };
    violation.kind
}

fn check_file(descriptor: &Value, mime: Option<&str>) -> Result<Map<String, Value>, InvalidInputs> {
    let inputs = BTreeMap::from([("p".to_owned(), file(mime))]);
    check(&descriptors(json!({ "p": descriptor })), &inputs)
}

#[test]
fn a_model_that_declares_nothing_takes_everything_as_it_is() {
    let mut inputs = inputs(json!({ "a": " 30 ", "b": null, "c": [1, { "d": 2 }] }));
    inputs.insert("f".to_owned(), file(None));
    let checked = check(&BTreeMap::new(), &inputs).unwrap();
    assert_eq!(Value::Object(checked), json!({ "a": " 30 ", "b": null, "c": [1, { "d": 2 }] }));
}

#[test]
fn null_is_not_given() {
    let schema = json!({ "a": { "type": "int" }, "b": { "type": "int", "required": true } });
    let checked = check_json(&schema, json!({ "a": null, "b": 1, "unknown": null })).unwrap();
    assert_eq!(Value::Object(checked), json!({ "b": 1 }));
    let invalid = check_json(&schema, json!({ "b": null })).unwrap_err();
    assert_eq!(only_kind(&invalid), ViolationKind::Missing);
}

#[test]
fn only_what_says_so_is_required() {
    for required in [json!(false), json!(null)] {
        let schema = json!({ "a": { "type": "int", "required": required }, "b": {} });
        assert!(check_json(&schema, json!({})).unwrap().is_empty());
    }
    assert!(check_json(&json!({ "a": { "required": true } }), json!({})).is_err());
}

#[test]
fn the_samples_decide_whether_a_number_is_sent_as_text() {
    let strings = json!(["1", "45"]);
    let numbers = json!([1, 45]);
    let mixed = json!(["auto", "1", 45]);
    for (kind, samples, given, expected) in [
        ("int", &strings, json!(30), json!("30")),
        ("int", &strings, json!(30.0), json!("30")),
        ("int", &strings, json!(1e2), json!("100")),
        ("int", &strings, json!(-0.0), json!("0")),
        ("int", &strings, json!("30"), json!("30")),
        ("int", &strings, json!(" 30.0 "), json!("30")),
        ("int", &strings, json!("+3e1"), json!("30")),
        ("int", &strings, json!(u64::MAX), json!("18446744073709551615")),
        ("int", &strings, json!("1e300"), json!("1e300")),
        ("float", &strings, json!(0.5), json!("0.5")),
        ("float", &strings, json!(1.0), json!("1")),
        ("float", &strings, json!(1e-7), json!("0.0000001")),
        ("float", &strings, json!(" 0.50 "), json!("0.50")),
        ("float", &strings, json!("+.50"), json!("0.5")),
        ("float", &strings, json!("5."), json!("5")),
        ("float", &strings, json!("-0.0"), json!("0")),
        ("float", &strings, json!("030.50"), json!("30.5")),
        ("float", &strings, json!("25e-2"), json!("0.25")),
        ("float", &strings, json!("1e300"), json!("1e300")),
        ("int", &numbers, json!("30"), json!(30)),
        ("int", &numbers, json!("30.0"), json!(30)),
        ("int", &numbers, json!(30.0), json!(30)),
        ("int", &numbers, json!("9007199254740993"), json!(9_007_199_254_740_993_u64)),
        ("float", &numbers, json!("0.5"), json!(0.5)),
        ("float", &numbers, json!("+.5"), json!(0.5)),
        ("float", &numbers, json!(0.5), json!(0.5)),
        ("int", &mixed, json!(30), json!(30)),
        ("int", &mixed, json!("30"), json!(30)),
        ("int", &json!([]), json!(30), json!(30)),
        ("int", &json!(null), json!("30"), json!("30")),
        ("int", &json!([true]), json!("30"), json!("30")),
        ("float", &json!(null), json!(30.0), json!(30.0)),
        ("float", &json!(null), json!("0.50"), json!("0.50")),
    ] {
        let descriptor = json!({ "type": kind, "samples": samples });
        assert_eq!(sent(&descriptor, given.clone()), Ok(expected), "{kind} {samples} {given}");
    }
}

/// `serde_json` numbers are binary floats, unless a crate enables arbitrary precision.
#[test]
fn a_value_that_no_json_number_holds_is_sent_as_text() {
    let descriptor = json!({ "type": "float", "samples": [0.5] });
    for given in ["0.30000000000000000001", "1e400", "1e-400", "9007199254740993.5"] {
        match sent(&descriptor, json!(given)).unwrap() {
            Value::String(text) => assert_eq!(text, given),
            number => assert_eq!(number.to_string().parse::<Decimal>(), given.parse()),
        }
    }
}

/// Parsing as JSON would yield the neighboring float.
#[test]
fn a_text_that_a_float_holds_is_sent_as_that_float() {
    let descriptor = json!({ "type": "float", "samples": [0.5] });
    for number in [-1.807_437_454_401_267_4e-308, 0.1 + 0.2, f64::MAX, f64::MIN_POSITIVE, 1e-320] {
        let Value::Number(read) = sent(&descriptor, json!(format!("{number:e}"))).unwrap() else {
            panic!("{number:e} was left a text")
        };
        assert_eq!(read.to_string().parse::<Decimal>(), json!(number).to_string().parse());
        assert_eq!(sent(&descriptor, json!(number)), Ok(json!(number)));
    }
}

#[test]
fn numbers_must_be_numbers_in_range() {
    let descriptor = json!({ "type": "int", "samples": ["1"], "num_config": { "min": 1, "max": 90 } });
    for given in [json!(1), json!(90), json!("90.0"), json!(9e1)] {
        assert!(sent(&descriptor, given.clone()).is_ok(), "{given}");
    }
    for given in [json!(0), json!(91), json!("-1"), json!("1e2000000000"), json!("9e2")] {
        assert_eq!(sent(&descriptor, given.clone()), Err(ViolationKind::OutOfRange), "{given}");
    }
    for given in [
        json!(30.5),
        json!("0.9999999999999999999999999"),
        json!("30°"),
        json!(""),
        json!("NaN"),
        json!("0x1e"),
        json!(true),
        json!([30]),
        json!({ "value": 30 }),
    ] {
        assert_eq!(sent(&descriptor, given.clone()), Err(ViolationKind::WrongType), "{given}");
    }
    let fraction = json!({ "type": "float", "num_config": { "max": 90 } });
    let over = json!("90.00000000000000000000001");
    assert_eq!(sent(&fraction, over), Err(ViolationKind::OutOfRange));
}

#[test]
fn a_number_with_very_many_digits_is_sent_as_it_is() {
    let long = format!("0.{}", "1".repeat(70_000));
    let float = json!({ "type": "float", "num_config": { "min": 0, "max": 1, "step": 0.1 } });
    assert_eq!(sent(&float, json!(long)), Ok(json!(long)));
}

#[test]
fn undeclared_inputs_are_refused() {
    let declared = descriptors(json!({ "p": { "type": "int" } }));
    let mut given = inputs(json!({ "p": 1, "seed": 7, "none": null }));
    given.insert("mask".to_owned(), file(None));
    let invalid = check(&declared, &given).unwrap_err();
    assert_eq!(invalid.violations.iter().filter(|one| one.kind == ViolationKind::Undeclared).count(), 2);
}

#[test]
fn a_range_that_makes_no_sense_is_no_range() {
    for config in [
        json!({ "min": 90, "max": 1, "step": 7 }),
        json!({ "min": null, "max": null, "step": null }),
        json!({}),
        json!(null),
    ] {
        let descriptor = json!({ "type": "float", "num_config": config });
        assert_eq!(sent(&descriptor, json!(30.25)), Ok(json!(30.25)), "{config}");
    }
}

#[test]
fn options_are_taken_exactly() {
    let shapes = json!({ "type": "options", "samples": ["v_shape", "t_shape"] });
    assert_eq!(sent(&shapes, json!("v_shape")), Ok(json!("v_shape")));
    for given in ["V_shape", " v_shape", "v-shape"] {
        assert_eq!(sent(&shapes, json!(given)), Err(ViolationKind::NotAnOption), "{given}");
    }
    assert_eq!(sent(&shapes, json!(true)), Err(ViolationKind::NotAnOption));
    assert_eq!(sent(&shapes, json!(["v_shape"])), Err(ViolationKind::WrongType));
}

#[test]
fn options_that_look_like_numbers_are_found_by_numbers() {
    for (samples, given, expected) in [
        (json!(["1", "2"]), json!(2), json!("2")),
        (json!(["1", "2"]), json!(2.0), json!("2")),
        (json!(["1.0", "1"]), json!(1), json!("1")),
        (json!(["0.50"]), json!(0.5), json!("0.50")),
        (json!(["auto", "2"]), json!(2), json!("2")),
        (json!([1, 2]), json!("2"), json!(2)),
        (json!([1, "1"]), json!("1"), json!("1")),
        (json!(["1", 1]), json!(1), json!(1)),
        (json!(["true", "false"]), json!(true), json!("true")),
        (json!([]), json!(7), json!(7)),
    ] {
        let descriptor = json!({ "type": "options", "samples": samples });
        assert_eq!(sent(&descriptor, given.clone()), Ok(expected), "{samples} {given}");
    }
    assert!(sent(&json!({ "type": "options", "samples": ["1"] }), json!("1.0")).is_err());
}

#[test]
fn an_option_that_no_json_number_holds_is_sent_as_it_was_given() {
    let declared = r#"{ "p": { "type": "options", "samples": [0.30000000000000000001] } }"#;
    let given = inputs(json!({ "p": "0.30000000000000000001" }));
    let checked = check(&serde_json::from_str(declared).unwrap(), &given).unwrap();
    assert_eq!(checked["p"], "0.30000000000000000001");
}

#[test]
fn a_file_is_named_by_a_url_over_http() {
    let image = json!({ "type": "file", "mime_type": ["image/*"] });
    for url in [
        "https://files.test/a.png",
        "http://127.0.0.1:9/a b.png?x=1",
        "HTTPS://files.test",
        "https://files.test/a.mp4",
    ] {
        assert_eq!(sent(&image, json!(url)), Ok(json!(url)));
    }
    for text in [
        "",
        "photo.jpg",
        "/tmp/photo.jpg",
        "ftp://files.test/a.png",
        "data:image/png;base64,AAAA",
        "https:files.test/a.png",
        "https:///files.test/a.png",
        "https://",
        " https://files.test/a.png",
        "https://files.test/a.png\n",
    ] {
        assert_eq!(sent(&image, json!(text)), Err(ViolationKind::NotAUrl), "{text}");
    }
    assert_eq!(sent(&image, json!(7)), Err(ViolationKind::WrongType));
}

#[test]
fn a_picture_with_more_pixels_than_declared_is_refused_in_megapixels() {
    let refused = |declared: Value, pixels: Option<u64>| {
        let mut picture = File::path("photo.jpg");
        picture.pixels = pixels;
        let inputs = BTreeMap::from([("p".to_owned(), Input::File(picture))]);
        let invalid = check(&descriptors(json!({ "p": declared })), &inputs).err()?;
        assert_eq!(only_kind(&invalid), ViolationKind::TooManyPixels);
        Some(invalid.to_string())
    };
    let image = |most: Value| json!({ "type": "file", "mime_type": ["image/*"], "max_pixels": most });
    let text = refused(image(json!(50_000_000)), Some(108_000_000)).unwrap();
    let words = "p: This picture has 108 megapixels; this model takes at most 50.";
    assert!(text.contains(words), "{text}");
    let text = refused(image(json!(50_000_000)), Some(50_000_001)).unwrap();
    assert!(text.contains("has 50.1 megapixels"), "{text}");
    for (most, pixels) in [
        (json!(50_000_000), Some(50_000_000)),
        (json!(50_000_000), None),
        (json!(null), Some(u64::MAX)),
        (json!("many"), Some(u64::MAX)),
        (json!(-1), Some(u64::MAX)),
    ] {
        assert_eq!(refused(image(most), pixels), None);
    }
}

#[test]
fn a_file_to_upload_must_be_of_an_accepted_type() {
    let image = json!({ "type": "file", "mime_type": ["image/*"] });
    for mime in [Some("image/png"), None] {
        let checked = check_file(&image, mime).unwrap();
        assert!(checked.is_empty());
    }
    let invalid = check_file(&image, Some("video/mp4")).unwrap_err();
    assert_eq!(only_kind(&invalid), ViolationKind::MimeType);
    assert!(check_file(&json!({ "type": "file" }), Some("video/mp4")).is_ok());
    assert!(check_file(&json!({ "type": "image" }), Some("image/png")).is_ok());
    assert!(check_file(&json!({ "type": "string" }), Some("image/png")).is_ok(), "a URL is a text");
    for kind in ["int", "float", "options"] {
        let invalid = check_file(&json!({ "type": kind }), Some("image/png")).unwrap_err();
        assert_eq!(only_kind(&invalid), ViolationKind::WrongType);
    }
}

#[test]
fn a_picture_of_a_format_that_is_not_read_is_named_with_one_that_is() {
    let picture = json!({ "type": "file", "mime_type": ["image/jpeg", "image/tiff"] });
    let text = check_file(&picture, Some("image/heic")).unwrap_err().to_string();
    assert!(text.contains("got a file of type image/heic: export it as JPEG"), "{text}");
    let text = check_file(&picture, Some("text/plain")).unwrap_err().to_string();
    assert!(!text.contains("export"), "{text}");
}

#[test]
fn texts_are_texts() {
    for (samples, given, expected) in [
        (json!(["a cat"]), json!("a dog "), json!("a dog ")),
        (json!(["7"]), json!(7), json!("7")),
        (json!(["2.0"]), json!(2.0), json!("2.0")),
        (json!(["yes"]), json!(true), json!("true")),
        (json!(null), json!(7), json!("7")),
        (json!([7]), json!(7), json!(7)),
    ] {
        let descriptor = json!({ "type": "string", "samples": samples });
        assert_eq!(sent(&descriptor, given.clone()), Ok(expected), "{samples} {given}");
    }
    assert_eq!(sent(&json!({ "type": "string" }), json!({})), Err(ViolationKind::WrongType));
}

#[test]
fn a_type_that_is_not_known_takes_everything() {
    for (descriptor, given, expected) in [
        (json!({ "type": "number", "samples": ["1"] }), json!(30), json!("30")),
        (json!({ "samples": ["1"] }), json!(30.0), json!("30")),
        (json!({ "type": "number", "samples": [1] }), json!("30"), json!("30")),
        (json!({ "type": "list", "samples": ["a"] }), json!([1, "b"]), json!([1, "b"])),
        (json!({ "type": "flag", "samples": ["a"] }), json!(true), json!(true)),
        (json!({}), json!({ "a": 1 }), json!({ "a": 1 })),
    ] {
        assert_eq!(sent(&descriptor, given.clone()), Ok(expected), "{descriptor} {given}");
    }
}
