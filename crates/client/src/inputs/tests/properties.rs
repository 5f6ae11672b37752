//! Properties of the check for arbitrary declarations and inputs.

use std::collections::{BTreeMap, BTreeSet};

use inferstore_api::Decimal;
use inferstore_api::types::{Descriptor, DescriptorType};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::file;
use crate::inputs::Input;
use crate::inputs::check::check;
use crate::transport::error::ViolationKind;

/// Few names, so that given and declared names often match.
const NAMES: [&str; 6] = ["angle", "input", "input_image", "model", "template", "Änderung"];

const WORDS: [&str; 15] = [
    "v_shape",
    "V_shape",
    "true",
    "1",
    "1.0",
    " 2 ",
    "0.50",
    "+.5",
    "1e2",
    "-0",
    "1e400",
    "1e-400",
    "NaN",
    "",
    "https://files.test/a.png?sig=1",
];

fn decimal() -> impl Strategy<Value = String> {
    prop_oneof![
        (-100_i64..200).prop_map(|number| number.to_string()),
        (-100_i64..200, 0_u32..100).prop_map(|(whole, part)| format!("{whole}.{part:02}")),
        (any::<i128>(), -400_i32..400).prop_map(|(digits, exponent)| format!("{digits}e{exponent}")),
        "[-+]?[0-9]{1,40}(\\.[0-9]{0,40})?([eE][-+]?[0-9]{1,9})?",
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(|number| number.to_string()),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-100_i64..200).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000_i32..1000).prop_map(|hundredths| json!(f64::from(hundredths) / 100.0)),
        any::<f64>().prop_map(Value::from),
        decimal().prop_map(Value::from),
        select(&WORDS[..]).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn bound() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => Just(Value::Null),
        2 => (-10_i64..100).prop_map(Value::from),
        2 => (0_i32..1000).prop_map(|hundredths| json!(f64::from(hundredths) / 100.0)),
        1 => decimal().prop_filter("a decimal", |text| text.parse::<Decimal>().is_ok()).prop_map(Value::from),
    ]
}

/// Twice the types with the most rules.
fn descriptor() -> impl Strategy<Value = Descriptor> {
    descriptor_of(&["", "file", "int", "int", "float", "float", "options", "string", "else"])
}

fn descriptor_of(types: &'static [&'static str]) -> impl Strategy<Value = Descriptor> {
    let samples = prop_oneof![
        Just(json!(null)),
        vec(select(&WORDS[..]), 0..4).prop_map(|samples| json!(samples)),
        vec(-5_i64..20, 1..4).prop_map(|samples| json!(samples)),
        vec(value(), 0..4).prop_map(Value::from),
    ];
    let mime = prop_oneof![
        Just(json!(null)),
        vec(select(&["image/*", "video/mp4", "odd"][..]), 0..3).prop_map(|list| json!(list))
    ];
    let order = (any::<Option<bool>>(), proptest::option::of(-3_i64..3));
    let range = (bound(), bound(), bound());
    (select(types), samples, mime, order, range).prop_map(
        |(kind, samples, mime, (required, position), (min, max, step))| {
            let kind = Some(kind).filter(|kind| !kind.is_empty()).map(DescriptorType::from);
            let mut descriptor: Descriptor = serde_json::from_value(json!({
                "samples": samples, "mime_type": mime, "required": required, "position": position,
                "num_config": { "min": min, "max": max, "step": step },
            }))
            .unwrap();
            descriptor.type_ = kind;
            descriptor
        },
    )
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        9 => value().prop_map(Input::Value),
        1 => proptest::option::of(select(&["image/png", "video/mp4", "nonsense"][..]))
            .prop_map(file),
    ]
}

fn declared(count: std::ops::Range<usize>) -> impl Strategy<Value = BTreeMap<String, Descriptor>> {
    btree_map(select(&NAMES[..]).prop_map(str::to_owned), descriptor(), count)
}

fn given() -> impl Strategy<Value = Vec<(String, Input)>> {
    let name = prop_oneof![9 => select(&NAMES[..]).prop_map(str::to_owned), 1 => any::<String>()];
    vec((name, input()), 0..5)
}

/// One parameter and a value, which match more often than several at once.
fn pair() -> impl Strategy<Value = (Descriptor, Input)> {
    (descriptor(), input())
}

fn check_one(descriptor: &Descriptor, input: &Input) -> Option<Map<String, Value>> {
    let declared = BTreeMap::from([("p".to_owned(), descriptor.clone())]);
    check(&declared, &BTreeMap::from([("p".to_owned(), input.clone())])).ok()
}

fn kind(descriptor: &Descriptor) -> &str {
    descriptor.type_.as_ref().map_or("", |kind| kind.as_str())
}

fn decimal_of(value: &Value) -> Option<Decimal> {
    match value {
        Value::Number(number) => number.to_string().parse().ok(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

proptest! {
    #[test]
    fn every_input_is_either_sent_or_named_in_a_violation(declared in declared(1..6), given in given()) {
        let inputs: BTreeMap<_, _> = given.into_iter().collect();
        let names: BTreeSet<&str> = inputs
            .iter()
            .filter(|(_, input)| **input != Input::Value(Value::Null))
            .map(|(name, _)| name.as_str())
            .collect();
        match check(&declared, &inputs) {
            Ok(checked) => {
                let is_value = |name: &&str| matches!(inputs[*name], Input::Value(_));
                let sent = checked.keys().map(String::as_str).collect::<BTreeSet<_>>();
                prop_assert_eq!(sent, names.into_iter().filter(is_value).collect::<BTreeSet<_>>());
            }
            Err(invalid) => {
                prop_assert!(!invalid.violations.is_empty());
                prop_assert_eq!(invalid.parameters.len(), declared.len());
                for violation in &invalid.violations {
                    let field = violation.field.as_str();
                    prop_assert!(declared.contains_key(field) || names.contains(field));
                    prop_assert_eq!(violation.kind == ViolationKind::Missing, !names.contains(field));
                    prop_assert!(!violation.message.contains(char::is_control));
                    prop_assert_eq!(violation.to_string().lines().count(), 1);
                }
                let named = invalid.violations.iter().map(|violation| violation.field.as_str()).collect::<BTreeSet<_>>();
                prop_assert!(names.iter().all(|name| declared.contains_key(*name) || named.contains(name)));
            }
        }
    }

    #[test]
    fn a_model_that_declares_nothing_changes_nothing(given in given()) {
        let inputs: BTreeMap<_, _> = given.into_iter().collect();
        let checked = check(&BTreeMap::new(), &inputs).unwrap();
        let expected: Map<_, _> = inputs
            .iter()
            .filter_map(|(name, input)| match input {
                Input::Value(value) => Some((name.clone(), value.clone())),
                Input::File(_) => None,
            })
            .collect();
        prop_assert_eq!(checked, expected);
    }

    #[test]
    fn checked_inputs_fit_again_and_stay_the_same((descriptor, input) in pair()) {
        if let Some(checked) = check_one(&descriptor, &input) {
            let again = checked.get("p").cloned().map_or(input, Input::Value);
            prop_assert_eq!(check_one(&descriptor, &again), Some(checked));
        }
    }

    #[test]
    fn no_spelling_changes_a_value((descriptor, given) in (descriptor(), value())) {
        let checked = check_one(&descriptor, &Input::Value(given.clone()));
        let Some(sent) = checked.and_then(|mut checked| checked.remove("p")) else { return Ok(()) };
        match decimal_of(&given) {
            Some(number) => prop_assert_eq!(decimal_of(&sent), Some(number)),
            None if given.is_boolean() => {
                prop_assert_eq!(sent.as_str().map_or(sent.to_string(), str::to_owned), given.to_string());
            }
            None if kind(&descriptor) == "options" => {
                prop_assert_eq!(sent.as_str().map_or(sent.to_string(), str::to_owned), given.as_str().unwrap());
            }
            None => prop_assert_eq!(sent, given),
        }
    }

    #[test]
    fn every_number_that_is_accepted_is_in_range(
        descriptor in descriptor_of(&["int", "float"]),
        given in scalar(),
    ) {
        let checked = check_one(&descriptor, &Input::Value(given));
        let Some(sent) = checked.and_then(|mut checked| checked.remove("p")) else { return Ok(()) };
        let number = decimal_of(&sent).unwrap();
        let range = descriptor.num_config.unwrap_or_default();
        if let (Some(min), Some(max)) = (&range.min, &range.max) && min > max {
            return Ok(());
        }
        prop_assert!(range.min.is_none_or(|min| number >= min));
        prop_assert!(range.max.is_none_or(|max| number <= max));
    }

    #[test]
    fn the_order_of_the_inputs_does_not_matter(declared in declared(0..6), given in given()) {
        let once: BTreeMap<_, _> = given.into_iter().collect();
        let (mut forward, mut backward) = (BTreeMap::new(), BTreeMap::new());
        forward.extend(once.clone());
        backward.extend(once.into_iter().rev());
        let check = |inputs| check(&declared, inputs);
        prop_assert_eq!(check(&forward), check(&backward));
    }
}
