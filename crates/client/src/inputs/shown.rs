//! How what was given is shown in a message: short, on one line, and without what may be a secret.

use serde_json::Value;

use crate::transport::text::cut;

/// Long enough to recognise a value by.
const LONGEST: usize = 80;

/// Lists go no further than this.
const MOST_LISTED: usize = 20;

/// A value as it may stand in a message. What is in a list or an object stays out of it.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::String(string) => quoted(string),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => cut(&value.to_string(), LONGEST),
    }
}

/// A text in quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", cut(&without_secrets(text), LONGEST))
}

/// A name without quotes.
pub(super) fn name(name: &str) -> String {
    cut(&without_secrets(name), LONGEST).escape_debug().to_string()
}

/// Several texts, separated by commas.
pub(super) fn listed<'a>(texts: &'a [String], shown: impl Fn(&'a str) -> String) -> String {
    let mut list = texts.iter().take(MOST_LISTED).map(|text| shown(text)).collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = texts.len().checked_sub(MOST_LISTED) {
        list.push_str(&format!(" and {more} more"));
    }
    list
}

/// The query of a URL may be a signature, its fragment a token, and what stands before its host a
/// password. A text need not be a valid URL to hold one.
fn without_secrets(text: &str) -> String {
    let cut = text.find(['?', '#']).filter(|&at| text.contains("://") || text[at..].contains('='));
    let kept = cut.map_or(text, |at| &text[..=at]);
    let mut shown = String::with_capacity(kept.len());
    for (index, piece) in kept.split("://").enumerate() {
        if index == 0 {
            shown.push_str(piece);
            continue;
        }
        shown.push_str("://");
        let host_end =
            piece.find(|c: char| c.is_whitespace() || matches!(c, '/' | '\\')).unwrap_or(piece.len());
        match piece[..host_end].rfind('@') {
            Some(at) => {
                shown.push('…');
                shown.push_str(&piece[at..]);
            }
            None => shown.push_str(piece),
        }
    }
    if cut.is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{LONGEST, listed, name, quoted, value};

    #[test]
    fn shows_short_values_as_they_are() {
        for (given, shown) in [
            (json!(30), "30"),
            (json!("30"), "\"30\""),
            (json!(0.5), "0.5"),
            (json!(true), "true"),
            (json!("what? no # sign"), "\"what? no # sign\""),
            (json!("https://files.test/a@b.png"), "\"https://files.test/a@b.png\""),
            (json!(["https://files.test/a?sig=planted"]), "a list of 1"),
            (json!({ "url": "planted" }), "an object"),
        ] {
            assert_eq!(value(&given), shown);
        }
    }

    #[test]
    fn shows_no_secret_of_a_url() {
        for (given, shown) in [
            ("https://files.test/a.png?sig=planted", "\"https://files.test/a.png?…\""),
            ("https://files.test/a.png?planted", "\"https://files.test/a.png?…\""),
            ("https://files.test/a.png#planted", "\"https://files.test/a.png#…\""),
            ("https://me:planted@files.test/a.png", "\"https://…@files.test/a.png\""),
            ("ftp://planted@files.test?x@y", "\"ftp://…@files.test?…\""),
            ("a.png?X-Amz-Signature=planted", "\"a.png?…\""),
            ("a?u=planted://b?planted", "\"a?…\""),
            ("see x://y z://planted@b/c", "\"see x://y z://…@b/c\""),
        ] {
            assert_eq!(quoted(given), shown);
        }
    }

    #[test]
    fn stays_short_and_on_one_line() {
        let long = quoted(&"ä\n".repeat(1000));
        assert!(long.ends_with("…\"") && !long.contains('\n'));
        assert!(quoted(&"x".repeat(1000)).chars().count() <= LONGEST + 3);
        assert_eq!(name("a\nb"), "a\\nb");
        let many: Vec<String> = (0..25).map(|number| number.to_string()).collect();
        assert!(listed(&many, name).ends_with("18, 19 and 5 more"));
        assert_eq!(listed(&many[..2], quoted), "\"0\", \"1\"");
    }
}
