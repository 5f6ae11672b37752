//! Text of validation messages: values and names in a safe form, lists, and "did you mean …?".

use serde_json::Value;

use crate::transport::redact::cut;

/// Messages show this many characters of a value or a name.
const MAX_TEXT: usize = 80;

/// Messages list this many items.
const MAX_LISTED: usize = 20;

/// Minimum similarity of a suggestion. Lower values suggest names that share a few letters by chance.
const MIN_SIMILARITY: f64 = 0.8;

/// Similarity of a word and a name that contains it, such as `image` and `input_image`.
const CONTAINED_SIMILARITY: f64 = 0.9;

/// Shorter words are contained in too many names.
const MIN_CONTAINED: usize = 3;

/// Longer words are not compared: no name is so long, and the time grows with both lengths.
const MAX_COMPARED: usize = 200;

/// Shows a value. The content of a list or an object is left out.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => plain(&value.to_string()),
    }
}

/// Shows foreign text in quotes: bounded, with control characters escaped, and with secrets masked.
pub(super) fn quoted(text: &str) -> String {
    // The one place where messages of this module take foreign text in.
    format!("{:?}", cut(&mask_url_secrets(text), MAX_TEXT))
}

/// Shows foreign text, such as a name, without the quotes.
pub(super) fn plain(text: &str) -> String {
    quoted(text).trim_matches('"').to_owned()
}

/// Shows a list, separated by commas.
pub(super) fn listed<'a>(texts: impl IntoIterator<Item = &'a str>, shown: fn(&str) -> String) -> String {
    let mut texts = texts.into_iter();
    let mut list = texts.by_ref().take(MAX_LISTED).map(shown).collect::<Vec<_>>().join(", ");
    match texts.count() {
        0 => {}
        more => list.push_str(&format!(" and {more} more")),
    }
    list
}

/// Masks user information, query and fragment of a URL: each may be a credential. The text need not
/// be a valid URL.
fn mask_url_secrets(text: &str) -> String {
    let query = text.find(['?', '#']).filter(|&at| text.contains("://") || text[at..].contains('='));
    let kept = query.map_or(text, |at| &text[..=at]);
    let mut pieces = kept.split("://");
    let mut masked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        masked.push_str("://");
        let host_end = piece.find(|c: char| c.is_whitespace() || matches!(c, '/' | '\\'));
        match piece[..host_end.unwrap_or(piece.len())].rfind('@') {
            Some(at) => masked.extend(["…", &piece[at..]]),
            None => masked.push_str(piece),
        }
    }
    if query.is_some() {
        masked.push('…');
    }
    masked
}

/// Returns the name that is most similar to the word, if one is similar enough; the first of equals.
pub(super) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normalized(word)?;
    let mut best: Option<(f64, &str)> = None;
    for name in names {
        let Some(normalized) = normalized(name) else { continue };
        let similarity = similarity(&word, &normalized);
        if similarity >= MIN_SIMILARITY && best.is_none_or(|(highest, _)| similarity > highest) {
            best = Some((similarity, name));
        }
    }
    best.map(|(_, name)| name)
}

/// The word without what is mistyped most: case, surrounding space, and `-` or a space for `_`.
fn normalized(word: &str) -> Option<String> {
    let word = word.trim();
    let is_comparable = !word.is_empty() && word.len() <= MAX_COMPARED;
    is_comparable.then(|| word.to_lowercase().replace(['-', ' '], "_"))
}

fn similarity(word: &str, name: &str) -> f64 {
    let contains = |long: &str, short: &str| short.chars().count() >= MIN_CONTAINED && long.contains(short);
    let similarity = strsim::jaro_winkler(word, name);
    if word != name && (contains(name, word) || contains(word, name)) {
        return similarity.max(CONTAINED_SIMILARITY);
    }
    similarity
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_values_are_shown_as_they_are() {
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
    fn no_secret_of_a_url_is_shown() {
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
    fn foreign_text_is_short_and_has_no_control_characters() {
        let long = quoted(&"ä\n".repeat(1000));
        assert!(long.ends_with("…\"") && !long.contains('\n'));
        assert!(quoted(&"x".repeat(1000)).chars().count() <= MAX_TEXT + 3);
        assert_eq!(plain("a\nb"), "a\\nb");
        for control in ['\u{1b}', '\0', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}'] {
            assert!(!plain(&format!("a{control}b")).contains(control), "{control:?}");
        }
        let many: Vec<String> = (0..25).map(|number| number.to_string()).collect();
        assert!(listed(many.iter().map(String::as_str), plain).ends_with("18, 19 and 5 more"));
        assert_eq!(listed(["0", "1"], quoted), "\"0\", \"1\"");
    }

    #[test]
    fn a_mistyped_name_is_recognized() {
        let names = ["input_image", "template", "angle", "confidence"];
        for (word, name) in [
            ("templat", "template"),
            ("Template", "template"),
            ("angel", "angle"),
            ("Input-Image", "input_image"),
            ("input image", "input_image"),
            ("image", "input_image"),
            ("confidense", "confidence"),
            (" angle ", "angle"),
        ] {
            assert_eq!(nearest(word, names), Some(name), "{word}");
        }
    }

    #[test]
    fn a_word_unlike_all_names_gets_no_suggestion() {
        let long = "template".repeat(100);
        for word in ["", " ", "x", "seed", "prompt", long.as_str()] {
            assert_eq!(nearest(word, ["input_image", "template", "angle"]), None, "{word}");
        }
    }

    #[test]
    fn the_same_word_in_another_case_wins_over_a_longer_one() {
        assert_eq!(nearest("V_Shape", ["v_shape_wide", "v_shape"]), Some("v_shape"));
    }

    #[test]
    fn a_long_option_is_recognized_by_its_beginning() {
        let options = [
            "Short-range model (best for faces within 2 meters)",
            "Full-range model (best for faces within 5 meters)",
        ];
        assert_eq!(nearest("full-range", options), Some(options[1]));
        assert_eq!(nearest("Short range model", options), Some(options[0]));
    }
}
