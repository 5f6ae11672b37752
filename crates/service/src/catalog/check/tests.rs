//! Tests of the typing rule and of the other validations of inputs.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn complaints(declared: &Value, inputs: &str) -> Result<Vec<String>, serde_json::Error> {
    let declared: Format = serde_json::from_str(&declared.to_string())?;
    let inputs: Inputs = serde_json::from_str(inputs)?;
    Ok(check_inputs(&declared, &inputs).err().unwrap_or_default())
}

fn takes(declared: Value, value: &str) -> bool {
    let mut declared = declared;
    declared["position"] = json!(0);
    complaints(&json!({ "it": declared }), &format!("{{\"it\": {value}}}"))
        .is_ok_and(|found| found.is_empty())
}

#[test]
fn a_number_is_sent_as_a_string_where_there_are_samples() {
    let strings = json!(["30"]);
    let none = json!([]);
    for (kind, samples, value, is_taken) in [
        ("int", &strings, r#""30""#, true),
        ("int", &strings, "30", false),
        ("int", &none, "30", true),
        ("int", &none, r#""30""#, true),
        ("float", &strings, r#""0.5""#, true),
        ("float", &strings, "0.5", false),
        ("float", &strings, r#""5e-1""#, false),
        ("float", &none, "0.5", true),
        ("float", &none, "5e-1", true),
        ("float", &none, r#""0.5""#, true),
    ] {
        let declared = json!({ "type": kind, "samples": samples });
        assert_eq!(takes(declared, value), is_taken, "{kind} {samples} {value}");
    }
}

#[test]
fn a_bound_is_named_in_plain_digits_however_the_model_spells_it() -> Result<(), serde_json::Error> {
    for (bound, value, complaint) in [
        (r#""max": 1e3"#, "1001", "x must be at most 1000"),
        (r#""max": 1000.0"#, "1001", "x must be at most 1000"),
        (r#""max": 0.50"#, "1", "x must be at most 0.5"),
        (r#""min": -0.0"#, "-1", "x must be at least 0"),
    ] {
        let declared = format!(r#"{{"x": {{"type": "float", "position": 0, "num_config": {{{bound}}}}}}}"#);
        let declared: Format = serde_json::from_str(&declared)?;
        let inputs: Inputs = serde_json::from_str(&format!(r#"{{"x": {value}}}"#))?;
        assert_eq!(check_inputs(&declared, &inputs).err().unwrap_or_default(), [complaint], "{bound}");
    }
    Ok(())
}

#[test]
fn a_number_with_too_many_digits_is_refused_with_their_limit() -> Result<(), serde_json::Error> {
    for (kind, noun) in [("int", "a whole number"), ("float", "a number")] {
        for number in ["1".repeat(30), format!("\"{}\"", "1".repeat(30))] {
            let declared = json!({ "x": { "type": kind, "position": 0 } });
            let found = complaints(&declared, &format!(r#"{{"x": {number}}}"#))?;
            assert_eq!(found, [format!("x must be {noun} of at most 28 digits")], "{number}");
        }
    }
    let declared = json!({ "x": { "type": "float", "position": 0 } });
    let found = complaints(&declared, &format!(r#"{{"x": "0.{}"}}"#, "3".repeat(30)))?;
    assert!(
        found.first().is_some_and(|found| found.ends_with("at most 18 of them behind the point")),
        "{found:?}"
    );
    Ok(())
}

#[test]
fn the_example_of_a_refused_number_is_one_that_the_model_takes() -> Result<(), serde_json::Error> {
    for (declared, example) in [
        (json!({ "type": "int", "samples": ["1"], "num_config": { "max": 3 } }), "1"),
        (json!({ "type": "int", "samples": ["30"] }), "30"),
        (json!({ "type": "int" }), "30"),
        (json!({ "type": "int", "num_config": { "max": 3 } }), "3"),
        (json!({ "type": "int", "num_config": { "min": 100, "max": 200 } }), "100"),
        (json!({ "type": "float", "samples": ["a"], "num_config": { "min": 0.75 } }), "0.75"),
        (json!({ "type": "float", "num_config": { "max": 1 } }), "0.5"),
        (json!({ "type": "int", "num_config": { "min": 1000.0 } }), "1000"),
    ] {
        let mut inputs = declared.clone();
        inputs["position"] = json!(0);
        let found = complaints(&json!({ "it": inputs }), r#"{"it": "x"}"#)?;
        assert!(found[0].contains(&format!("such as {example}")), "{declared}: {found:?}");
        assert!(takes(declared, &format!("{example:?}")), "{example}");
    }
    Ok(())
}

#[test]
fn a_number_is_a_plain_number_and_nothing_else() {
    let texts = json!({ "type": "float", "samples": ["1"] });
    for value in
        ["", " 1", "1 ", "+1", ".5", "5.", "1e3", "inf", "NaN", "-inf", "0x1f", "1_000", "1,5", "one"]
    {
        assert!(!takes(texts.clone(), &json!(value).to_string()), "{value:?}");
    }
    for kind in ["int", "float"] {
        for value in ["true", "null", "[30]", "{}", "[[30]]", "\"\""] {
            let taken = takes(json!({ "type": kind }), value);
            assert_eq!(taken, value == "null", "{kind} {value}: only null counts as not given");
        }
    }
    for (value, is_whole) in [("\"30\"", true), ("\"-3\"", true), ("\"30.0\"", false), ("\"3e1\"", false)] {
        assert_eq!(takes(json!({ "type": "int", "samples": ["1"] }), value), is_whole, "{value}");
    }
    for (value, is_whole) in [("30", true), ("30.0", false), ("3e1", false), ("30.5", false)] {
        assert_eq!(takes(json!({ "type": "int" }), value), is_whole, "{value}");
    }
}

#[test]
fn a_number_lies_in_its_range_and_a_step_is_a_hint() {
    let declared =
        json!({ "type": "float", "samples": ["0.5"], "num_config": { "min": 0.05, "max": 1, "step": 0.1 } });
    for (value, is_taken) in [
        ("0.05", true),
        ("0.15", true),
        ("0.350", true),
        ("0.3", true),
        ("0.15000000000000001", true),
        ("1.000000000000000000", true),
        ("0.04", false),
        ("0.049999999999999999", false),
        ("1.05", false),
        ("1.000000000000000001", false),
        ("-0.05", false),
    ] {
        assert_eq!(takes(declared.clone(), &json!(value).to_string()), is_taken, "{value}");
    }
}

#[test]
fn a_file_is_the_url_of_one() {
    let file = json!({ "type": "file", "mime_type": ["image/*"], "position": 0, "samples": ["https://files.example/a.png"] });
    for value in ["https://files.example/a%20b.png?x=1", "HTTP://127.0.0.1:9000/b/ü.png"] {
        assert!(takes(file.clone(), &json!(value).to_string()), "{value}");
    }
    let longest = format!("https://files.example/{}", "a".repeat(8 * 1024 - 22));
    assert!(takes(file.clone(), &json!(longest).to_string()));
    let too_long = complaints(&json!({ "it": file }), &json!({ "it": format!("{longest}a") }).to_string());
    assert_eq!(too_long.unwrap_or_default(), ["it must be a URL of at most 8192 bytes"]);
    let others = [
        "",
        "a.png",
        "/tmp/a.png",
        "file:///a.png",
        "ftp://a/b",
        "https://",
        "https:///a",
        "http://a b/",
        "http://[::1/a",
        "http://a%/b",
        "http://\\a",
        "http://a:99999/",
    ];
    for value in
        others.map(|value| json!(value)).into_iter().chain([json!(1), json!({}), json!(["https://a/b"])])
    {
        assert!(!takes(file.clone(), &value.to_string()), "{value}");
    }
}

#[test]
fn every_violation_is_reported_at_once_by_name() -> Result<(), serde_json::Error> {
    let declared = json!({
        "angle": {
            "type": "int", "required": true, "position": 2, "samples": ["30"],
            "num_config": { "min": 1, "max": 90, "step": 1 },
        },
        "image": { "type": "file", "required": true, "position": 0 },
        "method": { "type": "options", "required": true, "position": 1, "samples": ["Poisson", "Mixed Gradient"] },
        "note": { "type": "string", "required": false, "position": 3 },
    });
    assert_eq!(
        complaints(&declared, r#"{"angle": "91", "method": "poisson", "note": 5, "size": 1}"#)?,
        [
            "image is required",
            r#"method must be one of ["Poisson", "Mixed Gradient"]"#,
            "angle must be at most 90",
            "note must be a string",
            "size is not an input of this model, whose inputs are image, method, angle, note",
        ]
    );
    let right = r#"{"image": "http://a/b", "method": "Poisson", "angle": "90"}"#;
    assert_eq!(complaints(&declared, right)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_name_that_is_given_twice_is_refused() {
    assert!(serde_json::from_str::<Inputs>(r#"{"a": "1", "\u0061": "2"}"#).is_err());
}

#[test]
fn complaints_stay_short_whatever_is_sent() -> Result<(), serde_json::Error> {
    let many: Vec<String> = (0..500).map(|number| format!("\"{number}\n{}\": 1", "x".repeat(500))).collect();
    let many = format!("{{{}}}", many.join(",").replace('\n', "\\n"));
    let refusal = complaints(&json!({}), &many)?.join("; ");
    assert!(refusal.len() < 5_000 && !refusal.contains('\n'), "{refusal}");
    Ok(())
}

mod properties {
    use super::*;

    proptest! {
        #[test]
        fn a_number_is_taken_in_its_range_and_refused_outside(
            min in -1_000_i32..1_000, width in 0_i32..500, number in -2_000_i32..2_000, places in 0_u32..4,
        ) {
            let written = |units: i32| rust_decimal::Decimal::new(units.into(), places).to_string();
            let max = min + width;
            let declared = json!({
                "type": "float", "samples": ["1"],
                "num_config": { "min": format!("{min}e-{places}").parse::<serde_json::Number>().ok(),
                                "max": written(max).parse::<serde_json::Number>().ok() },
            });
            let sent = format!("\"{}\"", written(number));
            prop_assert_eq!(takes(declared, &sent), (min..=max).contains(&number), "{}", sent);
        }

        #[test]
        fn a_whole_number_is_a_string_where_there_are_samples(number in any::<i64>()) {
            let declared = json!({ "type": "int", "samples": ["1"] });
            prop_assert!(!takes(declared.clone(), &number.to_string()));
            let text = format!("\"{number}\"");
            prop_assert!(takes(declared, &text));
        }

        #[test]
        fn no_value_makes_the_check_fail(value in "[-+0-9.eE\\[\\]{}\",a-z ]{0,40}", kind in 0_usize..5) {
            let kinds = ["file", "int", "float", "options", "string"];
            let _ = takes(json!({ "type": kinds.get(kind), "samples": ["1"] }), &value);
            let _ = takes(json!({ "type": kinds.get(kind) }), &json!(value).to_string());
        }
    }
}

#[test]
fn an_output_is_what_was_declared() -> Result<(), serde_json::Error> {
    let number = json!({ "type": "int", "samples": ["1"], "num_config": { "max": 9 } });
    let score = json!({ "type": "float" });
    let word = json!({ "type": "options", "samples": ["cat", "dog"] });
    for (declared, value, is_taken) in [
        (&number, "7", true),
        (&number, "\"7\"", true),
        (&number, "7.0", false),
        (&number, "\"many\"", false),
        (&number, "10", false),
        (&number, "null", false),
        (&score, "0.25", true),
        (&score, "\"0.25\"", true),
        (&score, "3.5e-40", true),
        // No 64-bit JSON parser accepts this number.
        (&score, "1e999", false),
        (&score, "-1e999", false),
        (&score, "\"NaN\"", false),
        (&score, "[0.25]", false),
        (&word, "\"cat\"", true),
        (&word, "\"horse\"", false),
        (&word, "1", false),
        (&json!({ "type": "string" }), "\"any text\"", true),
        (&json!({ "type": "string" }), "5", false),
    ] {
        let mut declared = declared.clone();
        declared["position"] = json!(0);
        let descriptor: Descriptor = serde_json::from_value(declared)?;
        assert_eq!(check_output(&descriptor, value).is_ok(), is_taken, "{descriptor:?} {value}");
    }
    Ok(())
}
