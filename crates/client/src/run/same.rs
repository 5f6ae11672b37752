//! Whether two pieces of JSON say the same: numbers by value, and objects without regard to order or
//! to members that are null.

use inferstore_api::Decimal;
use serde_json::{Number, Value};

/// Whether a stored input is the one that was sent.
pub(crate) fn same_json(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => one.keys().chain(other.keys()).all(|name| {
            same_json(one.get(name).unwrap_or(&Value::Null), other.get(name).unwrap_or(&Value::Null))
        }),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_json(one, other))
        }
        (Value::Number(one), Value::Number(other)) => same_number(one, other),
        _ => one == other,
    }
}

/// By their digits: as floats, a seed of 2^53 and the one after it would be the same.
fn same_number(one: &Number, other: &Number) -> bool {
    let value = |number: &Number| number.to_string().parse::<Decimal>().ok();
    one == other || value(one).is_some_and(|one| value(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::same_json;

    #[test]
    fn spelling_order_and_nulls_do_not_matter_and_everything_else_does() {
        let sent = json!({"a": 1, "b": ["x", {"c": 0.5}]});
        for stored in [
            json!({"b": ["x", {"c": 0.5, "d": null}], "a": 1.0}),
            json!({"a": 1, "b": ["x", {"c": 5e-1}], "e": null}),
        ] {
            assert!(same_json(&sent, &stored), "{stored}");
        }
        for stored in [
            json!({"a": "1", "b": ["x", {"c": 0.5}]}),
            json!({"a": 1, "b": ["x"]}),
            json!({"a": 1.0000000000000002, "b": ["x", {"c": 0.5}]}),
            json!({"a": 1}),
            json!(null),
        ] {
            assert!(!same_json(&sent, &stored), "{stored}");
        }
    }

    #[test]
    fn whole_numbers_that_no_float_tells_apart_are_two() {
        let (one, other) =
            (json!({"seed": 9_007_199_254_740_993_u64}), json!({"seed": 9_007_199_254_740_992_u64}));
        assert!(same_json(&one, &one) && !same_json(&one, &other));
        assert!(same_json(&other, &json!({"seed": 9_007_199_254_740_992.0})));
    }

    mod properties {
        use proptest::collection::{btree_map, vec};
        use proptest::prelude::*;
        use serde_json::Value;

        use super::super::same_json;

        fn json() -> impl Strategy<Value = Value> {
            let scalar = prop_oneof![
                Just(Value::Null),
                any::<bool>().prop_map(Value::from),
                (-2_i64..3).prop_map(Value::from),
                any::<i64>().prop_map(Value::from),
                (-2_i32..3).prop_map(|number| Value::from(f64::from(number))),
                any::<f64>().prop_map(Value::from),
                "[a-c]?".prop_map(Value::from),
            ];
            scalar.prop_recursive(3, 12, 3, |inner| {
                prop_oneof![
                    vec(inner.clone(), 0..3).prop_map(Value::from),
                    btree_map("[a-c]", inner, 0..3)
                        .prop_map(|members| Value::Object(members.into_iter().collect())),
                ]
            })
        }

        proptest! {
            #[test]
            fn an_input_is_the_same_as_itself_written_and_read_and_in_both_directions(one in json(), other in json()) {
                prop_assert!(same_json(&one, &one));
                prop_assert_eq!(same_json(&one, &other), same_json(&other, &one));
                let read: Value = serde_json::from_str(&one.to_string()).unwrap_or_default();
                prop_assert!(same_json(&one, &read), "{one} was read as {read}");
            }

            #[test]
            fn a_member_that_is_null_says_nothing_and_any_other_something(mut one in json(), name in "[d-f]", value in json()) {
                let before = one.clone();
                if let Value::Object(members) = &mut one {
                    let says_nothing = value.is_null();
                    members.insert(name, value);
                    prop_assert_eq!(same_json(&before, &one), says_nothing);
                }
            }
        }
    }
}
