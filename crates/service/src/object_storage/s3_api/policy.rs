//! Policy of a form: its fields, the size of its file, and its expiration.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) fn write(bucket: &str, fields: &[(&str, String)], size: u64, expiration: Timestamp) -> String {
    let mut conditions = vec![json!(["eq", "$bucket", bucket])];
    conditions.extend(fields.iter().map(|(name, value)| json!(["eq", format!("${name}"), value])));
    conditions.push(json!(["content-length-range", size, size]));
    let conditions = Value::Array(conditions).to_string();
    // In policies, `$` starts a variable. Operands must begin with a plain `$`; every other `$` is escaped.
    let conditions = conditions.replace('$', "\\u0024").replace("[\"eq\",\"\\u0024", "[\"eq\",\"$");
    STANDARD.encode(format!("{{\"expiration\":\"{expiration:.3}\",\"conditions\":{conditions}}}"))
}

pub(crate) fn expiration(policy: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Document {
        expiration: String,
    }

    let text = STANDARD.decode(policy).ok()?;
    serde_json::from_slice::<Document>(&text).ok()?.expiration.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dollar_begins_nothing_but_the_name_of_a_field() -> Result<(), Box<dyn std::error::Error>> {
        let key = "samples/costs $5 \"$key\" ${filename}.txt".to_owned();
        let text = STANDARD.decode(write("b", &[("key", key)], 1, Timestamp::UNIX_EPOCH))?;
        let text = String::from_utf8(text)?;
        assert_eq!(text.matches('$').count(), 2, "{text}");
        assert!(text.contains(r#"["eq","$key","samples/costs \u00245"#), "{text}");
        Ok(())
    }

    #[test]
    fn a_policy_says_when_it_expires() {
        assert_eq!(expiration(&write("b", &[], 1, Timestamp::UNIX_EPOCH)), Some(Timestamp::UNIX_EPOCH));
        assert_eq!(expiration("e30="), None);
    }
}
