//! Presigned answers, as the client reads them: the endpoint on the first line, then the fields.

use inferstore::fuzzed::{UploadTarget, upload_target};
use serde_json::{Value, json};

use crate::first_line;

/// Nothing makes the reader panic or show what grants access. What it takes goes to an address of the web;
/// the fields of a form are those that were written, in their order and with their texts.
pub fn upload_targets(data: &[u8]) {
    let (endpoint, fields) = first_line(data);
    let (endpoint, fields) = (String::from_utf8_lossy(endpoint), String::from_utf8_lossy(fields));
    let answer = json!({ "endpoint": endpoint, "fields": fields, "download_url": "https://files.test/a" });
    let answer = serde_json::from_value(answer).expect("all of it is there");
    match upload_target(answer) {
        Ok(target) => {
            assert!(target.url.starts_with("http://") || target.url.starts_with("https://"), "{target:?}");
            assert_eq!(target.fields.is_none(), endpoint.contains("X-Amz-Algorithm"), "{target:?}");
            are_as_written(&fields, &target);
        }
        Err(problem) => {
            // Words of ours and a position, whatever was there: nothing of it, for it may be a secret.
            let words = |byte: u8| byte.is_ascii_alphanumeric() || b" ()-,".contains(&byte);
            assert!(problem.bytes().all(words) && problem.len() < 120, "{problem}");
        }
    }
}

fn are_as_written(text: &str, target: &UploadTarget) {
    let Some(fields) = &target.fields else { return };
    // An object keeps the last of equal names, and no order.
    let Ok(Value::Object(written)) = serde_json::from_str(text) else {
        assert!(text.trim().is_empty() && fields.is_empty(), "{target:?}");
        return;
    };
    let named = |name: &String| fields.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value);
    for (name, value) in &written {
        match value {
            Value::String(text) => assert_eq!(named(name), Some(text)),
            // One that is null is left out, but there may be another of that name.
            Value::Null => {}
            other => assert_eq!(named(name), Some(&other.to_string())),
        }
    }
    assert!(fields.iter().all(|(name, _)| written.contains_key(name)));
    let places = fields.iter().map(|(name, _)| json!(name).to_string());
    let mut from = 0;
    for name in places.filter(|name| text.matches(name.as_str()).count() == 1) {
        let place = text.find(&name).unwrap_or_default();
        assert!(place >= from, "{name} has lost its place");
        from = place;
    }
}
