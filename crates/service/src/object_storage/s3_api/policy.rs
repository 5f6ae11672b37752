//! The policy of a form: what its fields must be and how large its file, written and held against an
//! upload.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Code, S3Error};

/// Fields that need no condition: what is signed with, and the policy itself.
const EXEMPT: [&str; 2] = ["policy", "x-amz-signature"];

/// Writes a policy that allows exactly these fields and a file of exactly this size.
pub(crate) fn write(bucket: &str, fields: &[(&str, &str)], size: u64, expiration: Timestamp) -> String {
    let mut conditions = vec![json!(["eq", "$bucket", bucket])];
    conditions.extend(fields.iter().map(|(name, value)| json!(["eq", format!("${name}"), value])));
    conditions.push(json!(["content-length-range", size, size]));
    let conditions = Value::Array(conditions).to_string();
    // Policies know `$` as a variable. The operands must begin with a bare one; every other one is
    // written in a way that is the same text and can be taken for nothing else.
    let conditions = conditions.replace('$', "\\u0024").replace("[\"eq\",\"\\u0024", "[\"eq\",\"$");
    STANDARD.encode(format!("{{\"expiration\":\"{expiration:.3}\",\"conditions\":{conditions}}}"))
}

#[derive(Deserialize)]
struct Document {
    expiration: String,
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Condition {
    Text(String, String, String),
    Range(String, u64, u64),
}

/// How large the file of a form may be, bounds included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeRange {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

/// Holds the fields of a form (their names in lower case) against a policy whose signature is right.
pub(crate) fn check(
    policy: &str,
    bucket: &str,
    fields: &[(String, String)],
    now: Timestamp,
) -> Result<SizeRange, S3Error> {
    let malformed = || S3Error::new(Code::InvalidPolicyDocument, "Invalid Policy: it cannot be read.");
    let denied =
        |why: String| S3Error::new(Code::AccessDenied, format!("Invalid according to Policy: {why}"));
    let text = STANDARD.decode(policy).map_err(|_| malformed())?;
    let document: Document = serde_json::from_slice(&text).map_err(|_| malformed())?;
    let expiration: Timestamp = document.expiration.parse().map_err(|_| malformed())?;
    if expiration <= now {
        return Err(denied("Policy expired.".to_owned()));
    }
    let mut range = None;
    let mut named = vec!["bucket".to_owned()];
    for condition in document.conditions {
        match condition {
            Condition::Text(how, operand, expected) if how == "eq" => {
                let name = operand.strip_prefix('$').ok_or_else(malformed)?.to_ascii_lowercase();
                // The bucket is what the address says; a field may repeat it.
                let sent = match (name.as_str(), field(fields, &name)) {
                    ("bucket", None) => Some(bucket),
                    (_, sent) => sent,
                };
                let is_there = name != "bucket" || bucket == expected;
                if !is_there || sent != Some(expected.as_str()) {
                    return Err(denied(format!("Policy Condition failed: [\"eq\", \"${name}\"]")));
                }
                named.push(name);
            }
            Condition::Range(how, min, max) if how == "content-length-range" => {
                // Of several, every one holds.
                let known = range.unwrap_or(SizeRange { min, max });
                range = Some(SizeRange { min: min.max(known.min), max: max.min(known.max) });
            }
            Condition::Text(..) | Condition::Range(..) => return Err(malformed()),
        }
    }
    for (name, _) in fields {
        if !named.contains(name) && !EXEMPT.contains(&name.as_str()) && !name.starts_with("x-ignore-") {
            return Err(denied(format!("Extra input fields: {name}")));
        }
    }
    range.ok_or_else(malformed)
}

/// The value of a field.
pub(crate) fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "samples/costs $5 \"$key\" ${filename}.txt";

    fn judge(change: impl FnOnce(&mut Vec<(String, String)>)) -> Result<SizeRange, String> {
        let written = [("key", KEY), ("Content-Type", "text/plain")];
        let policy = write("b", &written, 7, Timestamp::MAX);
        let lower = |(name, value): (&str, &str)| (name.to_ascii_lowercase(), value.to_owned());
        let mut fields: Vec<_> = written.into_iter().map(lower).collect();
        change(&mut fields);
        check(&policy, "b", &fields, Timestamp::UNIX_EPOCH).map_err(|refusal| refusal.code_name())
    }

    #[test]
    fn what_was_asked_for_is_allowed_with_dollars_and_quotes_in_the_name() {
        assert_eq!(judge(|_| {}), Ok(SizeRange { min: 7, max: 7 }));
        assert_eq!(judge(|fields| fields.push(("policy".into(), "x".into()))).map(|range| range.max), Ok(7));
    }

    #[test]
    fn another_value_a_missing_field_and_a_further_field_are_refused() {
        let denied = Err("AccessDenied".to_owned());
        assert_eq!(judge(|fields| fields.retain(|(name, _)| name != "key")), denied);
        assert_eq!(judge(|fields| fields.retain(|(name, _)| name == "key")), denied);
        assert_eq!(judge(|fields| fields.push(("acl".into(), "public-read".into()))), denied);
        assert_eq!(judge(|fields| fields.iter_mut().for_each(|field| field.1.push('x'))), denied);
    }

    #[test]
    fn a_dollar_begins_nothing_but_the_name_of_a_field() -> Result<(), Box<dyn std::error::Error>> {
        let text = STANDARD.decode(write("b", &[("key", KEY)], 1, Timestamp::UNIX_EPOCH))?;
        let text = String::from_utf8(text)?;
        assert_eq!(text.matches('$').count(), 2, "{text}");
        assert!(text.contains(r#"["eq","$key","samples/costs \u00245"#), "{text}");
        Ok(())
    }

    #[test]
    fn of_several_sizes_a_file_has_to_keep_to_all() {
        let conditions = r#"["content-length-range",1,900],["content-length-range",5,90]"#;
        let policy = format!(r#"{{"expiration":"2027-01-01T00:00:00Z","conditions":[{conditions}]}}"#);
        let range = check(&STANDARD.encode(policy), "b", &[], Timestamp::UNIX_EPOCH);
        assert_eq!(range.ok(), Some(SizeRange { min: 5, max: 90 }));
    }

    #[test]
    fn an_expired_policy_is_refused() {
        let policy = write("b", &[], 1, Timestamp::UNIX_EPOCH);
        let refused = check(&policy, "b", &[], Timestamp::UNIX_EPOCH).map_err(|it| it.code_name());
        assert_eq!(refused, Err("AccessDenied".to_owned()));
        let refused = check("e30=", "b", &[], Timestamp::UNIX_EPOCH).map_err(|it| it.code_name());
        assert_eq!(refused, Err("InvalidPolicyDocument".to_owned()));
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn a_policy_allows_what_it_was_written_for_and_nothing_else(
                key in "\\PC{1,40}|[$\"\\\\{}\\[\\],a-z]{1,40}", mime in "\\PC{1,20}", size in any::<u64>(),
                other in "\\PC{1,40}", bucket in "[a-z-]{1,20}",
            ) {
                let policy = write(&bucket, &[("key", &key), ("Content-Type", &mime)], size, Timestamp::MAX);
                let sent = |key: &str, mime: &str| vec![("key".to_owned(), key.to_owned()), ("content-type".to_owned(), mime.to_owned())];
                let judged = |bucket: &str, fields: &[(String, String)]| check(&policy, bucket, fields, Timestamp::UNIX_EPOCH).ok();
                let exact = Some(SizeRange { min: size, max: size });
                prop_assert_eq!(judged(&bucket, &sent(&key, &mime)), exact);
                prop_assert_eq!(judged(&bucket, &sent(&other, &mime)).is_some(), other == key);
                prop_assert_eq!(judged(&bucket, &sent(&key, &other)).is_some(), other == mime);
                prop_assert_eq!(judged(&format!("{bucket}x"), &sent(&key, &mime)), None);
            }
        }
    }
}
