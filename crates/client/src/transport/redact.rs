//! Redaction of foreign text: text of a service, a store, a model or a parser passes [`Redactor::foreign`]
//! before it reaches an error, an event or a log.

use std::borrow::Cow;

use reqwest::Url;
use zeroize::Zeroizing;

const MASK: &str = "…";

/// Longest message of a service, in characters.
pub(crate) const MAX_MESSAGE: usize = 1_000;

/// Limit on the redacted text, in bytes: many times the shown part.
pub(crate) const MAX_INPUT: usize = 64 * 1024;

/// Names whose value is a credential, in a query (`name=value`) or in JSON (`"name":"value"`), in lower case.
const CREDENTIAL_NAMES: [&str; 6] =
    ["x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-api-key", "policy", "authorization"];

/// Fields of an upload form whose values are no secrets.
const PUBLIC_FIELDS: [&str; 4] = ["key", "bucket", "content-type", "success_action_status"];

/// Shorter values of a presigned target are no secrets, and masking them would garble the message.
const MIN_SECRET: usize = 8;

/// Masks known secrets, and everything that looks like a presigned credential.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// Longest first, so that no part of a secret remains.
    secrets: Vec<Zeroizing<String>>,
}

impl Redactor {
    pub(crate) fn new(key: &str) -> Self {
        Self::default().with_key(key)
    }

    pub(crate) fn with_key(&self, key: &str) -> Self {
        let mut redactor = self.clone();
        redactor.add([key.to_owned()]);
        redactor
    }

    pub(crate) fn with_target(&self, url: &Url, fields: &[(String, String)]) -> Self {
        let encoded = url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let encoded = encoded.map(|(_, value)| value.to_owned());
        let decoded = url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned()));
        let secret_fields =
            fields.iter().filter(|(name, _)| !PUBLIC_FIELDS.contains(&name.to_ascii_lowercase().as_str()));
        let named = decoded.chain(secret_fields.cloned()).flat_map(|(name, value)| {
            // A credential is an account and a scope; messages may quote the account alone.
            let is_credential = name.to_ascii_lowercase().ends_with("credential");
            let account = is_credential.then(|| value.split('/').next().unwrap_or_default().to_owned());
            std::iter::once(value).chain(account)
        });
        let mut redactor = self.clone();
        redactor.add(encoded.chain(named).filter(|value| value.len() >= MIN_SECRET));
        redactor
    }

    fn add(&mut self, secrets: impl IntoIterator<Item = String>) {
        for secret in secrets {
            // Quotes and backslashes in a secret are escaped within JSON.
            let secret = Zeroizing::new(secret);
            let in_json = Zeroizing::new(serde_json::to_string(&*secret).unwrap_or_default());
            let in_json = Zeroizing::new(in_json.trim_matches('"').to_owned());
            self.secrets.extend([secret, in_json]);
        }
        self.secrets.retain(|secret| !secret.is_empty());
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        self.secrets.dedup();
    }

    /// Returns foreign text that is safe to show: masked, on one line, printable, at most `limit` characters.
    pub(crate) fn foreign(&self, text: &str, limit: usize) -> String {
        // Control characters go first: they could split a secret. The cut is last: half a secret is not recognized.
        cut(&self.mask(&printable(beginning(text))), limit)
    }

    pub(crate) fn mask(&self, text: &str) -> String {
        let known =
            self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), MASK));
        mask_credentials(&mask_urls(&known))
    }

    pub(crate) fn foreign_json(&self, value: serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => Value::String(self.foreign(&text, MAX_MESSAGE)),
            Value::Array(items) => items.into_iter().map(|item| self.foreign_json(item)).collect(),
            Value::Object(members) => {
                let redacted = members.into_iter().map(|(name, value)| {
                    let is_credential = CREDENTIAL_NAMES.contains(&name.to_ascii_lowercase().as_str());
                    let value = if is_credential { MASK.into() } else { self.foreign_json(value) };
                    (self.foreign(&name, MAX_MESSAGE), value)
                });
                redacted.collect()
            }
            other => other,
        }
    }
}

/// Returns the first whole words of a text, up to `MAX_INPUT`: half a secret is not recognized.
fn beginning(text: &str) -> &str {
    let Some(bytes) = text.as_bytes().get(..MAX_INPUT) else { return text };
    let is_word_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'"';
    &text[..bytes.iter().rposition(is_word_end).unwrap_or_default()]
}

/// Returns the text on one line, without unprintable characters: a line break would begin a new line of a log.
pub fn printable(text: &str) -> String {
    let is_dropped = |c: char| is_unprintable(c) || c == '\u{feff}';
    let spaced: String = text
        .chars()
        .filter_map(|c| if c.is_whitespace() { Some(' ') } else { (!is_dropped(c)).then_some(c) })
        .collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true for control characters and bidirectional marks, which could disguise a text or steer a terminal.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the message of a JSON parser without the line and the column.
pub fn json_problem(error: &serde_json::Error) -> String {
    let problem = error.to_string();
    problem.rsplit_once(" at line ").map_or(&*problem, |(problem, _)| problem).to_owned()
}

pub(crate) fn printable_id(id: &str) -> String {
    cut(&printable(id), 200)
}

pub(crate) fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns `an HTML page` with its title in place of an HTML page, as proxies send; any other text unchanged.
pub(crate) fn without_markup(text: &str) -> Cow<'_, str> {
    // Indices in the lower-case copy are valid in the text: only ASCII letters change.
    let lower = text.to_ascii_lowercase();
    let is_page = ["<!doctype html", "<html"].iter().any(|start| lower.trim_start().starts_with(start));
    if !is_page {
        return Cow::Borrowed(text);
    }
    let title = lower.find("<title>").map(|start| start + "<title>".len()).and_then(|start| {
        let length = lower[start..].find("</title>")?;
        Some(text[start..start + length].trim())
    });
    match title.filter(|title| !title.is_empty()) {
        Some(title) => Cow::Owned(format!("an HTML page, \"{title}\"")),
        None => Cow::Borrowed("an HTML page"),
    }
}

/// Masks user information, query and fragment of every URL: each may grant access.
pub(crate) fn mask_urls(text: &str) -> String {
    let is_host_end = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '\\' | '"');
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '\\' | '`');
    let mut masked = String::with_capacity(text.len());
    let mut copied = 0;
    // Ends of the last URL and of its address: URLs within its path end there too.
    let mut end = 0;
    let mut address_end = 0;
    while let Some(scheme) = text[copied..].find("://") {
        let mut start = copied + scheme + "://".len();
        masked.push_str(&text[copied..start]);
        let host = text[start..].split(is_host_end).next().unwrap_or_default();
        if let Some(user_end) = host.rfind('@') {
            masked.push_str(MASK);
            start += user_end;
        }
        if start >= end {
            end = text[start..].find(is_end).map_or(text.len(), |length| start + length);
            address_end = text[start..end].find(['?', '#']).map_or(end, |query| start + query + 1);
        }
        let address = &text[start..address_end];
        let nested = address.find("://");
        masked.push_str(&address[..nested.unwrap_or(address.len())]);
        if nested.is_none() && address_end < end {
            masked.push_str(MASK);
        }
        copied = nested.map_or(end, |length| start + length);
    }
    masked.push_str(&text[copied..]);
    masked
}

fn mask_credentials(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut masked = String::with_capacity(text.len());
    let mut copied = 0;
    for name_end in name_ends(&lower) {
        let Some(start) = value_start(&lower, name_end) else { continue };
        // A name within a masked value may have a value of its own.
        if start >= copied {
            masked.push_str(&text[copied..start]);
            masked.push_str(MASK);
            // The value of this header has several words, such as `Bearer` and a token.
            let is_header = lower[..name_end].ends_with("authorization");
            let is_end = |c| {
                matches!(c, '"' | '\'' | '\\' | '<' | '\n' | '\r') || (!is_header && matches!(c, '&' | ' '))
            };
            copied = lower[start..].find(is_end).map_or(lower.len(), |length| start + length);
        }
    }
    masked.push_str(&text[copied..]);
    masked
}

fn name_ends(lower: &str) -> impl Iterator<Item = usize> {
    let name_at = |at: usize| CREDENTIAL_NAMES.iter().find(|name| lower[at..].starts_with(**name));
    lower.char_indices().filter_map(move |(at, _)| Some(at + name_at(at)?.len()))
}

/// Returns the start of a name's value, without quotes: after `=`, or after quotes (also escaped) and a colon.
fn value_start(lower: &str, name_end: usize) -> Option<usize> {
    let rest = &lower[name_end..];
    let opening = rest.find(|c: char| !matches!(c, '\\' | '"' | '\'' | ':' | '=' | ' '))?;
    rest[..opening].contains(['=', ':']).then_some(name_end + opening)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(text: &str, key: &str) -> String {
        Redactor::new(key).foreign(text, MAX_MESSAGE)
    }

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
            let masked = foreign(text, "KEY");
            assert!(!masked.contains("SECRET") && !masked.contains("KEY "), "{masked}");
            assert!(masked.contains('…'), "{masked}");
        }
    }

    #[test]
    fn the_user_and_the_query_of_every_url_are_masked() {
        for (text, masked) in [
            (
                "cannot fetch https://a.example/x.png?sig=SECRET&se=1: 403",
                "cannot fetch https://a.example/x.png?… 403",
            ),
            ("see <https://a.example/#SECRET>", "see <https://a.example/#…>"),
            ("{\"url\":\"http://a/b?Signature=SECRET\"}", "{\"url\":\"http://a/b?…\"}"),
            ("two: x://a?b and y://c?d", "two: x://a?… and y://c?…"),
            (
                "cannot reach http://me:SECRET@proxy.example:1/x@y",
                "cannot reach http://…@proxy.example:1/x@y",
            ),
            ("https://a.example/of/https://SECRET@b.example?x", "https://a.example/of/https://…@b.example?…"),
            ("https://a.example/? and https://a.example/b", "https://a.example/? and https://a.example/b"),
        ] {
            assert_eq!(foreign(text, ""), masked);
        }
    }

    #[test]
    fn a_header_of_credentials_is_masked_to_its_end() {
        assert_eq!(foreign("Authorization: Bearer SECRET, and more", ""), "Authorization: …");
        assert_eq!(
            foreign("{\"authorization\":\"Basic SECRET\",\"a\":1}", ""),
            "{\"authorization\":\"…\",\"a\":1}"
        );
    }

    #[test]
    fn a_key_with_quotes_is_masked_within_json_too() {
        let text = serde_json::json!({ "message": "bad key a\"b\\c" }).to_string();
        assert_eq!(foreign(&text, "a\"b\\c"), r#"{"message":"bad key …"}"#);
    }

    #[test]
    fn text_without_secrets_is_unchanged() {
        for text in ["", "policy", "a policy of ours", "ключ policy", "{\"message\":\"no\"}"] {
            assert_eq!(foreign(text, ""), text);
        }
    }

    #[test]
    fn a_secret_with_control_characters_in_it_is_masked() {
        assert_eq!(foreign("the key SEC\u{1b}RET", "SECRET"), "the key …");
    }

    #[test]
    fn escape_sequences_line_ends_and_direction_marks_are_removed() {
        let text = "a\u{1b}[31mred\u{7}\r\nb\u{202e}c\u{9b}2Jd\u{2028}e\0f";
        assert_eq!(foreign(text, ""), "a[31mred bc2Jd ef");
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_after_masking() {
        let redactor = Redactor::new("SECRET");
        assert_eq!(redactor.foreign("äöü", 3), "äöü");
        assert_eq!(redactor.foreign("äöü", 2), "äö…");
        assert_eq!(redactor.foreign("xxxSECRET", 5), "xxx…");
    }

    #[test]
    fn a_megabyte_of_urls_is_masked_as_fast_as_it_is_read() {
        // A search to the end of the text at each URL would take hours.
        for (url, masked) in [
            ("a://", "a://"),
            ("http://a.example/b,", "http://a.example/b,"),
            ("a://u@b/c", "a://…@b/c"),
            ("a://<@", "a://…@"),
        ] {
            let count = 1_000_000 / url.len();
            assert!(mask_urls(&url.repeat(count)) == masked.repeat(count), "{url}");
        }
    }

    #[test]
    fn an_endless_text_is_cut_and_shows_no_half_secret() {
        let redactor = Redactor::new("SECRET");
        // The query becomes one character, which moves the following text within the limit.
        let query = "x".repeat(MAX_INPUT - "https://a.example/? SEC".len());
        let text = format!("https://a.example/?{query} SECRET and more");
        assert_eq!(redactor.foreign(&text, 100), "https://a.example/?…");
        assert_eq!(redactor.foreign(&"x".repeat(MAX_INPUT + 1), 100), "");
    }

    #[test]
    fn the_details_of_a_model_are_redacted_member_by_member() {
        let detail =
            serde_json::json!({"error": "KEY\u{1b}[2J", "policy": "p", "at": [1, "X-Amz-Signature=s"]});
        let expected = serde_json::json!({"error": "…[2J", "policy": "…", "at": [1, "X-Amz-Signature=…"]});
        assert_eq!(Redactor::new("KEY").foreign_json(detail), expected);
    }

    #[test]
    fn secrets_of_a_presigned_target_are_masked() {
        let mask = |url: &str, fields: &[(&str, &str)], text: &str| {
            let fields: Vec<_> =
                fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            let redactor = Redactor::new("KEY");
            Url::parse(url)
                .map_or_else(|_| text.to_owned(), |url| redactor.with_target(&url, &fields).mask(text))
        };
        let url = "https://b.example/k?X-Amz-Credential=ACCOUNT-1%2Fscope&X-Amz-Signature=SIGNATURE";
        assert_eq!(mask(url, &[], "SIGNATURE of ACCOUNT-1 for ACCOUNT-1/scope"), "… of … for …");
        let fields = [("key", "samples/a.png"), ("policy", "POLICY=="), ("acl", "private-acl")];
        let masked = mask("https://b.example/", &fields, "POLICY== forbids private-acl samples/a.png");
        assert_eq!(masked, "… forbids … samples/a.png");
    }

    mod properties {
        use proptest::prelude::*;
        use proptest::sample::select;

        use super::*;

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
            fn no_key_and_no_credential_remains_in_any_surrounding_text(
                before in around(), after in around(),
                name in select(&CREDENTIAL_NAMES[..]),
                (open, close) in select(&[("=", "&"), (":\"", "\""), ("\":\"", "\""), ("\\\":\\\"", "\\\""), (": ", "\n")][..]),
            ) {
                let text = format!("{before}{name}{open}{SECRET}{close}{after}");
                prop_assert!(!foreign(&text, "").contains(SECRET), "{}", text);
                let key = foreign(&format!("{before}{SECRET}{after}"), SECRET);
                prop_assert!(!key.contains(SECRET), "{}", key);
            }

            #[test]
            fn redacting_twice_is_redacting_once_and_nothing_moves_a_cursor(text in any::<String>(), limit in 1_usize..50) {
                let redactor = Redactor::new("the-key");
                let once = redactor.foreign(&text, limit);
                prop_assert!(!once.contains(char::is_control) && once.chars().count() <= limit + 1);
                prop_assert_eq!(redactor.mask(&once), once);
            }
        }
    }
}
