//! Masks what grants access in text that did not come from us, before anyone can see it.

/// What a masked value reads as.
const MASK: &str = "…";

/// Names whose value is a credential, in a query (`name=value`) or in JSON (`"name":"value"`), in
/// lower case.
const NAMES: [&str; 6] =
    ["x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-api-key", "policy", "authorization"];

/// The text with the key and every presigned credential masked.
pub(crate) fn redact(text: &str, key: &str) -> String {
    let text = if key.is_empty() { text.to_owned() } else { text.replace(key, MASK) };
    let lower = text.to_ascii_lowercase();
    let mut masked = String::with_capacity(text.len());
    let mut copied = 0;
    let mut at = 0;
    while let Some((name_end, _)) = next_name(&lower, at) {
        at = name_end;
        if let Some((start, end)) = value_after(&lower, name_end) {
            masked.push_str(&text[copied..start]);
            masked.push_str(MASK);
            (copied, at) = (end, end);
        }
    }
    masked.push_str(&text[copied..]);
    masked
}

/// The end of the first name at or after `from`.
fn next_name(lower: &str, from: usize) -> Option<(usize, &'static str)> {
    NAMES
        .iter()
        .filter_map(|name| lower[from..].find(name).map(|at| (from + at + name.len(), *name)))
        .min_by_key(|(end, name)| end - name.len())
}

/// The value that follows a name, without its quotes: after `=`, or after quotes (which may be
/// escaped, in JSON within JSON) and a colon.
fn value_after(lower: &str, name_end: usize) -> Option<(usize, usize)> {
    let rest = &lower[name_end..];
    let opening = rest.find(|c: char| !matches!(c, '\\' | '"' | '\'' | ':' | '=' | ' '))?;
    if !rest[..opening].contains(['=', ':']) {
        return None;
    }
    let start = name_end + opening;
    let length =
        lower[start..].find(['&', '"', '\'', '\\', '<', '\n', '\r', ' ']).unwrap_or(lower.len() - start);
    Some((start, start + length))
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn credentials_are_masked_in_urls_in_json_and_in_json_within_json() {
        for text in [
            "https://b.example/a?X-Amz-Date=1&X-Amz-Signature=SECRET&x=1",
            r#"{"x-amz-signature":"SECRET","key":"a"}"#,
            r#"{"fields":"{\"policy\":\"SECRET\",\"key\":\"a\"}"}"#,
            "x-api-key: SECRET\r\n",
            "the key KEY is wrong",
            "POLICY = SECRET",
        ] {
            let masked = redact(text, "KEY");
            assert!(!masked.contains("SECRET") && !masked.contains("KEY "), "{masked}");
            assert!(masked.contains('…'), "{masked}");
        }
    }

    #[test]
    fn everything_else_stays() {
        for text in ["", "policy", "a policy of ours", "ключ policy", "{\"message\":\"no\"}"] {
            assert_eq!(redact(text, ""), text);
        }
    }
}
