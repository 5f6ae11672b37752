//! Building inputs, and reading and writing them as JSON.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::{Value, json};

use crate::files::source::File;
use crate::{Error, Input, Inputs, is_http};

fn set(value: impl Serialize) -> Option<Value> {
    match Inputs::new().set("x", value).into_fields().ok()?.remove("x")? {
        Input::Value(value) => Some(value),
        Input::File(_) => None,
    }
}

fn json_error(inputs: Inputs) -> String {
    match inputs.into_fields() {
        Err(Error::InvalidArgument(message)) => message,
        other => panic!("no error about JSON: {other:?}"),
    }
}

struct NoJson;

impl Serialize for NoJson {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("no\u{1b} JSON"))
    }
}

#[test]
fn a_number_is_sent_with_the_digits_that_it_was_written_with() {
    assert_eq!(set(0.1_f32), Some(json!(0.1)));
    assert_eq!(set([0.1_f32, 2.5e-7, 16_777_216.0]), Some(json!([0.1, 2.5e-7, 16_777_216.0])));
    for number in [0.1, 1.0 / 3.0, 2.2250738585072014e-308, f64::MAX, 9_007_199_254_740_993.0] {
        assert_eq!(set(number), Some(json!(number)));
    }
    assert_eq!(set(u64::MAX), Some(json!(u64::MAX)));
    assert_eq!(set(u128::MAX), None, "no JSON value holds it");
}

#[test]
fn a_value_that_is_no_json_is_reported_when_the_inputs_are_used() {
    let broken = Inputs::new().set("a", NoJson).set("b", 1);
    assert_eq!(broken.get("a"), None);
    assert_eq!(json_error(broken.clone()), "a cannot be written as JSON: no\\u{1b} JSON");
    assert!(broken.set("a", 2).into_fields().is_ok(), "it was overwritten");
}

#[test]
fn text_that_starts_with_http_is_a_url_and_other_text_is_a_path() {
    for url in ["https://files.test/a.png", "http://files.test", "HTTPS://files.test/a"] {
        assert_eq!(Input::from(url), Input::Value(json!(url)));
        let inputs = Inputs::new().file("x", url);
        assert_eq!(inputs, Inputs::new().set("x", url), "a URL is a value");
    }
}

#[test]
fn text_is_never_read_as_a_path_of_this_machine() {
    for text in
        ["photo.jpg", "/etc/passwd", "/tmp/https://x", "http:/x", "ftp://files.test/a", "file:///a", ""]
    {
        for inputs in [Inputs::new().file("x", text), Inputs::new().file("x", text.to_owned())] {
            assert_eq!(inputs.get("x"), None);
            let Err(Error::InvalidArgument(message)) = inputs.into_fields() else { panic!("{text}") };
            let expected = format!("x: {text:?} is not a URL");
            assert!(message.starts_with(&expected) && message.contains("a Path or a File"), "{message}");
        }
    }
}

#[test]
fn a_file_is_given_in_every_usual_form() {
    let buffer = PathBuf::from("a.png");
    let expected = Inputs::new().file("x", Input::File(File::path("a.png")));
    for inputs in [
        Inputs::new().file("x", File::path("a.png")),
        Inputs::new().file("x", Path::new("a.png")),
        Inputs::new().file("x", &buffer),
        Inputs::new().file("x", buffer),
        Inputs::new().file("x", File::path("a.png")),
    ] {
        assert_eq!(inputs, expected);
    }
    assert_ne!(Inputs::new().file("x", File::bytes("a.png", "1")), expected);
}

#[test]
fn the_last_value_of_a_name_is_the_one_that_is_sent() {
    let inputs: Inputs = [("b", 1), ("a", 0), ("b", 2)].into_iter().collect();
    assert_eq!(inputs.get("b"), Some(&Input::Value(json!(2))));
    assert_eq!(inputs.file("b", File::path("b.png")).get("b"), Some(&Input::File(File::path("b.png"))));
}

#[test]
fn json_is_read_without_a_change() {
    let json = json!({ "a": "photo.jpg", "b": [1, { "c": null }], "d": 0.5 });
    let inputs = Inputs::from_serialize(&json).unwrap();
    assert_eq!(serde_json::from_value::<Inputs>(json.clone()).unwrap(), inputs);
    assert_eq!(Inputs::from(json.as_object().cloned().unwrap()), inputs);
    assert_eq!(inputs.get("a"), Some(&Input::Value(json!("photo.jpg"))), "JSON names no file");
    assert_eq!(inputs.get("b"), Some(&Input::Value(json["b"].clone())));
    assert!(serde_json::from_str::<Inputs>("7").is_err());
}

#[test]
fn inputs_must_be_an_object() {
    for value in [json!(7), json!("photo.jpg"), json!(null), json!([1])] {
        let error = Inputs::from_serialize(&value).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    }
    let Err(Error::InvalidArgument(message)) = Inputs::from_serialize(&NoJson) else { panic!("no error") };
    assert_eq!(message, "the inputs cannot be written as JSON: no\\u{1b} JSON");
}

#[test]
fn a_url_is_one_in_any_case() {
    assert!(is_http("https://host/a.png") && is_http("HTTP://host/a.png"));
    assert!(!is_http("a.png") && !is_http("ftp://host/a.png") && !is_http("https"));
}
