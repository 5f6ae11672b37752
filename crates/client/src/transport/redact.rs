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
    for name_end in name_ends(&lower) {
        let Some(start) = value_start(&lower, name_end) else { continue };
        // A name within a value that is masked already may have one of its own behind it.
        if start >= copied {
            masked.push_str(&text[copied..start]);
            masked.push_str(MASK);
            copied = value_end(&lower, start);
        }
    }
    masked.push_str(&text[copied..]);
    masked
}

/// Where names end, in their order.
fn name_ends(lower: &str) -> impl Iterator<Item = usize> {
    let name_at = |at: usize| NAMES.iter().find(|name| lower[at..].starts_with(**name));
    lower.char_indices().filter_map(move |(at, _)| Some(at + name_at(at)?.len()))
}

/// Where the value begins that follows a name, without its quotes: after `=`, or after quotes (which may be
/// escaped, in JSON within JSON) and a colon.
fn value_start(lower: &str, name_end: usize) -> Option<usize> {
    let rest = &lower[name_end..];
    let opening = rest.find(|c: char| !matches!(c, '\\' | '"' | '\'' | ':' | '=' | ' '))?;
    rest[..opening].contains(['=', ':']).then_some(name_end + opening)
}

fn value_end(lower: &str, start: usize) -> usize {
    let length = lower[start..].find(['&', '"', '\'', '\\', '<', '\n', '\r', ' ']);
    length.map_or(lower.len(), |length| start + length)
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
            "policy=x-amz-signature:\"SECRET\"",
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

    mod properties {
        use proptest::prelude::*;
        use proptest::sample::select;

        use super::redact;

        /// A value that stands nowhere else.
        const SECRET: &str = "c2VjcmV0LXNpZ25hdHVyZQ";

        fn around() -> impl Strategy<Value = String> {
            let piece = prop_oneof![
                select(
                    &["policy", "x-api-key", "X-Amz-Signature", "=", ":", "\"", "\\", "&", " ", "é", "\n"][..]
                )
                .prop_map(str::to_owned),
                "[a-z ]{0,8}",
                any::<char>().prop_map(String::from),
            ];
            proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
        }

        proptest! {
            #[test]
            fn no_key_and_no_credential_is_left_whatever_stands_around_it(
                before in around(), after in around(),
                name in select(&super::super::NAMES[..]),
                (open, close) in select(&[("=", "&"), (":\"", "\""), ("\":\"", "\""), ("\\\":\\\"", "\\\""), (": ", "\n")][..]),
            ) {
                let text = format!("{before}{name}{open}{SECRET}{close}{after}");
                prop_assert!(!redact(&text, "").contains(SECRET), "{text}");
                let key = redact(&format!("{before}{SECRET}{after}"), SECRET);
                prop_assert!(!key.contains(SECRET), "{key}");
            }

            #[test]
            fn what_is_masked_stays_as_it_is(text in around()) {
                let once = redact(&text, "the-key");
                prop_assert_eq!(redact(&once, "the-key"), once);
            }
        }
    }
}
