//! Building inputs, and reading and writing them as JSON.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::{Map, Value, json};

use crate::files::source::File;
use crate::{Error, FileInput, Input, Inputs};

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

#[derive(Serialize)]
struct Own {
    strength: f32,
    image: FileInput,
    mask: Option<FileInput>,
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
    assert_eq!((broken.len(), broken.get("a")), (1, None));
    assert_eq!(json_error(broken.clone()), "a cannot be written as JSON: no\\u{1b} JSON");
    assert!(serde_json::to_string(&broken).is_err());
    assert!(broken.clone().set("a", 2).into_fields().is_ok(), "it was overwritten");
    let mut removed = broken;
    assert_eq!(removed.remove("a"), None);
    assert!(removed.into_fields().is_ok());
}

#[test]
fn text_that_starts_with_http_is_a_url_and_other_text_is_a_path() {
    for url in ["https://files.test/a.png", "http://files.test", "HTTPS://files.test/a"] {
        assert_eq!(FileInput::from(url), FileInput::url(url));
        let inputs = Inputs::new().file("x", url);
        assert_eq!(inputs, Inputs::new().set("x", url), "a URL is a value");
    }
    for path in ["photo.jpg", "/tmp/https://x", "http:/x", "httpä://x", "ftp://files.test/a", "", "hä"] {
        assert_eq!(FileInput::from(path), FileInput::path(path));
        assert_eq!(Inputs::new().file("x", path).get("x"), Some(&Input::File(File::path(path))));
    }
}

#[test]
fn a_file_is_given_in_every_usual_form() {
    let buffer = PathBuf::from("a.png");
    let text = String::from("a.png");
    let expected = Inputs::new().file("x", FileInput::path("a.png"));
    for inputs in [
        Inputs::new().file("x", "a.png"),
        Inputs::new().file("x", text.as_str()),
        Inputs::new().file("x", &text),
        Inputs::new().file("x", Path::new("a.png")),
        Inputs::new().file("x", &buffer),
        Inputs::new().file("x", buffer),
        Inputs::new().file("x", text),
        Inputs::new().file("x", File::path("a.png")),
        Inputs::new().set("x", FileInput::path("a.png")),
        [("x", FileInput::path("a.png"))].into_iter().collect(),
    ] {
        assert_eq!(inputs, expected);
    }
    assert_ne!(Inputs::new().file("x", File::bytes("a.png", "1")), expected);
}

#[test]
fn inputs_are_built_in_place_and_read_back() {
    let mut inputs = Inputs::new();
    assert!(inputs.is_empty());
    inputs.insert("b", 1).insert("a", "x").insert("b", 2);
    inputs.extend(vec![("c".to_owned(), json!([1]))]);
    let names: Vec<_> = inputs.iter().map(|(name, _)| name).collect();
    assert_eq!((names, inputs.len()), (vec!["a", "b", "c"], 3));
    assert_eq!(inputs.get("b"), Some(&Input::Value(json!(2))));
    assert_eq!(inputs.remove("b"), Some(Input::Value(json!(2))));
    assert_eq!(inputs.get("b"), None);
}

#[test]
fn json_is_read_and_written_without_a_change() {
    let json = json!({ "a": "photo.jpg", "b": [1, { "c": null }], "d": 0.5 });
    let inputs = Inputs::try_from(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&inputs).unwrap(), json);
    assert_eq!(serde_json::from_value::<Inputs>(json.clone()).unwrap(), inputs);
    assert_eq!(Inputs::from(json.as_object().cloned().unwrap()), inputs);
    assert_eq!(Inputs::from_serialize(&json).unwrap(), inputs);
    assert_eq!(inputs.get("a"), Some(&Input::Value(json!("photo.jpg"))), "JSON names no file");
    assert!(Inputs::try_from(json!([1])).is_err());
    assert!(serde_json::from_str::<Inputs>("7").is_err());
}

#[test]
fn inputs_with_a_file_are_not_written_as_json() {
    let error = serde_json::to_string(&Inputs::new().file("x", "a.png")).unwrap_err();
    let message = "a file that is not uploaded cannot be written as JSON; upload it and use its URL";
    assert_eq!(error.to_string(), message);
    assert!(serde_json::to_string(&FileInput::path("a.png")).is_err());
    assert_eq!(serde_json::to_value(FileInput::url("https://x/a")).unwrap(), json!("https://x/a"));
    let read: FileInput = serde_json::from_value(json!("/etc/passwd")).unwrap();
    assert_eq!(read, FileInput::url("/etc/passwd"), "JSON is never read as a path");
}

#[test]
fn files_in_a_type_of_ones_own_become_files_of_the_inputs() {
    let own = Own { strength: 0.3, image: "a.png".into(), mask: Some(File::bytes("m.png", "1").into()) };
    let inputs = Inputs::from_serialize(&own).unwrap();
    let expected =
        Inputs::new().set("strength", 0.3).file("image", "a.png").file("mask", File::bytes("m.png", "1"));
    assert_eq!(inputs, expected);
    assert_eq!(Inputs::from_serialize(&inputs).unwrap(), expected);
    let without = Own { mask: None, image: "https://x/a".into(), ..own };
    let json = json!({ "strength": 0.3, "image": "https://x/a", "mask": null });
    assert_eq!(Inputs::from_serialize(&without).unwrap(), Inputs::try_from(json).unwrap());
}

#[test]
fn a_file_within_a_list_is_refused() {
    let error = json_error(Inputs::new().set("x", [FileInput::path("a.png")]));
    assert_eq!(error, "x cannot be written as JSON: a file must be the whole value of an input");
    assert!(Inputs::from_serialize(&json!({ "x": 1 })).is_ok());
    let nested: Map<_, _> = [("x".to_owned(), json!({ "$inferstore::file": 0 }))].into_iter().collect();
    let inputs = Inputs::from_serialize(&nested).unwrap();
    assert_eq!(inputs, Inputs::from(nested), "JSON refers to no file");
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
