//! Expected results of a consumer's program in each mode. `tests/contract/README.md` defines both.

use serde_json::Value;

pub(crate) const MODES: [(&str, &str); 9] = [
    ("plain", "runs"),
    ("word", "new word"),
    ("field", "new field"),
    ("nulls", "nulls"),
    ("inner", "inner nulls"),
    ("created", "201"),
    ("html502", "HTML 502"),
    ("http429", "429"),
    ("digits", "digits"),
];

const WORD: &str = "unheard_of";
const AMOUNT: &str = "128.507300000000000001";
const PRICE: f64 = 0.123_456_789_012_345_68;

pub(crate) fn unexpected(mode: &str, seen: &Value) -> Option<String> {
    let code = match mode {
        "html502" => Some(502),
        "http429" => Some(429),
        _ => None,
    };
    let wrong: Vec<String> = match code {
        Some(code) => wrong_members(seen, &[("code", &move |value| value.as_u64() == Some(code))]),
        None => wrong_members(seen, &life(mode)),
    };
    if wrong.is_empty() { None } else { Some(format!("the client returned {}", wrong.join(", "))) }
}

type Check = dyn Fn(&Value) -> bool;

fn wrong_members(seen: &Value, checks: &[(&str, &Check)]) -> Vec<String> {
    let wrong = checks.iter().filter(|(member, holds)| !holds(&seen[*member]));
    wrong.map(|(member, _)| format!("{member}: {}", seen[*member])).collect()
}

fn life(mode: &str) -> Vec<(&'static str, &'static Check)> {
    let mut checks: Vec<(&str, &Check)> = vec![
        ("refused", &|value| value.as_u64() == Some(401)),
        ("status", &|value| value == "success"),
        ("output", &|value| value.as_str().is_some_and(|output| !output.is_empty())),
        ("after_cancel", &|value| value == "canceled" || value == "success"),
        ("deleted", &|value| value.as_u64() == Some(2)),
    ];
    if matches!(mode, "nulls" | "inner") {
        for member in ["balance", "price", "visibility", "type", "history", "total_files"] {
            checks.push((member, &Value::is_null));
        }
    } else {
        checks.push(("history", &is_positive));
        checks.push(("total_files", &is_positive));
        match mode {
            "digits" => {
                checks.push(("balance", &|value| value == AMOUNT));
                checks.push(("price", &|value| number(value) == Some(PRICE)));
            }
            _ => {
                checks.push(("balance", &|value| value.is_string() && number(value).is_some()));
                checks.push(("price", &|value| number(value).is_some()));
            }
        }
        if mode == "word" {
            checks.push(("visibility", &|value| value == WORD));
            checks.push(("type", &|value| value == WORD));
        } else {
            checks.push(("visibility", &|value| value == "public"));
            checks.push(("type", &|value| value == "file"));
        }
    }
    checks.push(if mode == "nulls" { ("files", &Value::is_null) } else { ("files", &is_positive) });
    checks
}

fn is_positive(value: &Value) -> bool {
    value.as_u64().is_some_and(|count| count > 0)
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen() -> Value {
        json!({
            "refused": 401, "balance": "4.50", "price": 0.05, "visibility": "public", "type": "file",
            "status": "success", "output": "#102030", "history": 1, "after_cancel": "canceled", "files": 2,
            "total_files": 2, "deleted": 2,
        })
    }

    #[test]
    fn a_whole_life_is_as_expected() {
        for mode in ["plain", "field", "created"] {
            assert_eq!(unexpected(mode, &seen()), None);
        }
    }

    #[test]
    fn lost_digits_and_words_are_unexpected() {
        let mut seen = seen();
        seen["balance"] = json!(128.5073);
        seen["price"] = json!(0.123_456_79);
        let found = unexpected("digits", &seen);
        assert_eq!(found.as_deref(), Some("the client returned balance: 128.5073, price: 0.12345679"));
        assert!(unexpected("plain", &seen).is_some_and(|found| found.contains("balance")));
        let found = unexpected("word", &seen);
        assert!(found.is_some_and(|found| found.contains("visibility: \"public\"")));
    }

    #[test]
    fn a_lost_code_is_unexpected() {
        assert_eq!(unexpected("http429", &json!({"code": 429})), None);
        assert_eq!(
            unexpected("html502", &json!({"code": null})).as_deref(),
            Some("the client returned code: null")
        );
    }
}
