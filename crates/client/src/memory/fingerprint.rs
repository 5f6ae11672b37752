//! Fingerprints of inputs: equal for JSON that means the same, with numbers compared by value and
//! objects without regard to order or to members that are null.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;

use inferstore_api::Decimal;
use serde_json::Value;

/// A fingerprint, comparable within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(u64, u64);

/// The fingerprint of inputs.
pub(crate) fn fingerprint(value: &Value) -> Fingerprint {
    // Keyed, so that no one can prepare two inputs with one fingerprint.
    static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
    let [first, second] = KEYS.get_or_init(|| [RandomState::new(), RandomState::new()]);
    let hash_with = |key: &RandomState| {
        let mut hasher = key.build_hasher();
        hash(value, &mut hasher);
        hasher.finish()
    };
    Fingerprint(hash_with(first), hash_with(second))
}

fn hash(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(flag) => (1_u8, flag).hash(hasher),
        // By value: as floats, 2^53 and the number after it would be equal.
        Value::Number(number) => match number.to_string().parse::<Decimal>() {
            Ok(decimal) => (2_u8, decimal).hash(hasher),
            Err(_) => (3_u8, number.to_string()).hash(hasher),
        },
        Value::String(text) => (4_u8, text).hash(hasher),
        Value::Array(items) => {
            (5_u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash(item, hasher));
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().filter(|(_, value)| !value.is_null()).collect();
            members.sort_by_key(|(name, _)| *name);
            (6_u8, members.len()).hash(hasher);
            for (name, value) in members {
                name.hash(hasher);
                hash(value, hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn same(one: &Value, other: &Value) -> bool {
        fingerprint(one) == fingerprint(other)
    }

    #[test]
    fn spelling_order_and_nulls_do_not_matter_and_everything_else_does() {
        let sent = json!({"a": 1, "b": ["x", {"c": 0.5}]});
        for stored in [
            json!({"b": ["x", {"c": 0.5, "d": null}], "a": 1.0}),
            json!({"a": 1, "b": ["x", {"c": 5e-1}], "e": null}),
        ] {
            assert!(same(&sent, &stored), "{stored}");
        }
        for stored in [
            json!({"a": "1", "b": ["x", {"c": 0.5}]}),
            json!({"a": 1, "b": ["x"]}),
            json!({"a": 1.0000000000000002, "b": ["x", {"c": 0.5}]}),
            json!({"a": 1}),
            json!(null),
        ] {
            assert!(!same(&sent, &stored), "{stored}");
        }
    }

    #[test]
    fn whole_numbers_that_are_equal_as_floats_are_different() {
        let one = json!({"seed": 9_007_199_254_740_993_u64});
        let other = json!({"seed": 9_007_199_254_740_992_u64});
        assert!(same(&one, &one) && !same(&one, &other));
        assert!(same(&other, &json!({"seed": 9_007_199_254_740_992.0})));
    }

    mod properties {
        use proptest::collection::{btree_map, vec};
        use proptest::prelude::*;

        use super::*;

        fn json() -> impl Strategy<Value = Value> {
            let scalar = prop_oneof![
                Just(Value::Null),
                any::<bool>().prop_map(Value::from),
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
            fn an_input_is_equal_to_itself_written_and_read(one in json()) {
                let read: Value = serde_json::from_str(&one.to_string()).unwrap_or_default();
                prop_assert!(same(&one, &read), "{} was read as {}", one, read);
            }

            #[test]
            fn a_member_that_is_null_changes_nothing_and_any_other_does(mut one in json(), name in "[d-f]", value in json()) {
                let before = one.clone();
                if let Value::Object(members) = &mut one {
                    let is_null = value.is_null();
                    members.insert(name, value);
                    prop_assert_eq!(same(&before, &one), is_null);
                }
            }
        }
    }
}
