//! Local validation, without I/O: checks inputs against the declared parameters of a model, and writes each value in
//! the JSON type that the model takes. Refuses only what the declaration makes certain; the service decides the rest.

use std::collections::BTreeMap;

use inferstore_api::Sample;
use inferstore_api::types::{Descriptor, DescriptorType};
use reqwest::Url;
use serde_json::{Map, Value};

use super::number::{JsonType, Numeric, Range};
use super::{Input, is_http};
use crate::files::mime;
use crate::files::source::File;
use crate::transport::error::{InvalidInputs, Violation, ViolationKind};
use crate::transport::redact::{cut, mask_urls};

/// Maximum length of a value or name in a message, in characters.
const MAX_TEXT: usize = 80;

const MAX_LISTED: usize = 20;

/// Minimum similarity of a suggestion. Lower values suggest names that share a few letters by chance.
const MIN_SIMILARITY: f64 = 0.8;

/// Similarity of a word and a name that contains it, such as `image` and `input_image`.
const CONTAINED_SIMILARITY: f64 = 0.9;

/// Minimum length of a contained word; too many names contain shorter ones.
const MIN_CONTAINED: usize = 3;

/// Maximum length of a compared word, because the time grows with both lengths.
const MAX_COMPARED: usize = 200;

const URL: &str = "a URL that starts with http:// or https://";

/// Returns the declared parameters by position. Those without a position come last, by name.
pub fn by_position(format: Option<&BTreeMap<String, Descriptor>>) -> Vec<(&String, &Descriptor)> {
    let mut parameters: Vec<_> = format.into_iter().flatten().collect();
    parameters.sort_by_key(|(_, descriptor)| descriptor.position.unwrap_or(i64::MAX));
    parameters
}

/// Checks inputs, and returns the values to send, without files. Null counts as absent, and a file of unknown MIME
/// type passes. A model that declares nothing accepts everything: its schema may be missing from the response.
/// Otherwise undeclared inputs are rejected, because a mistyped name would be a paid run without the input.
pub(crate) fn check(
    declared: &BTreeMap<String, Descriptor>,
    inputs: &BTreeMap<String, Input>,
) -> Result<Map<String, Value>, InvalidInputs> {
    let mut values = Map::new();
    let mut violations = Vec::new();
    let parameters = by_position(Some(declared));
    for (name, descriptor) in &parameters {
        let Some(input) = inputs.get(*name).filter(|input| is_given(input)) else {
            // If `required` is absent, the service decides.
            if descriptor.required == Some(true) {
                let message = format!("required but not given, expected {}", expected(descriptor));
                violations.push(violation(name, ViolationKind::Missing, &message));
            }
            continue;
        };
        let fitted = match input {
            // The value is known after the upload.
            Input::File(file) => fit_file(name, descriptor, file),
            Input::Value(value) => fit_value(name, descriptor, value).map(|value| {
                values.insert((*name).clone(), value);
            }),
        };
        violations.extend(fitted.err());
    }
    let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    let is_sent = |input: &Input| declared.is_empty() || is_given(input);
    for (name, input) in inputs.iter().filter(|(name, input)| !declared.contains_key(*name) && is_sent(input))
    {
        if !declared.is_empty() {
            violations.push(undeclared_name(name, &names));
        } else if let Input::Value(value) = input {
            values.insert(name.clone(), value.clone());
        }
    }
    if violations.is_empty() {
        return Ok(values);
    }
    Err(InvalidInputs::new(violations, names.into_iter().map(str::to_owned).collect()))
}

fn is_given(input: &Input) -> bool {
    !matches!(input, Input::Value(Value::Null))
}

fn violation(name: &str, kind: ViolationKind, problem: &str) -> Violation {
    Violation::new(name, kind, format!("{}: {problem}", plain(name)))
}

fn undeclared_name(name: &str, names: &[&str]) -> Violation {
    let explanation = match nearest(name, names.iter().copied()) {
        Some(nearest) => format!("did you mean {}?", quoted(nearest)),
        None => format!("expected one of {}", listed(names.iter().copied(), plain)),
    };
    let problem = format!("the model declares no such parameter, {explanation}");
    violation(name, ViolationKind::Undeclared, &problem)
}

fn fit_file(name: &str, descriptor: &Descriptor, file: &File) -> Result<(), Violation> {
    use DescriptorType::{Float, Int, Options};
    // Text may be a URL, and an unknown type may be a file type.
    if matches!(kind_of(descriptor), Int | Float | Options) {
        return Err(mismatch(name, ViolationKind::WrongType, descriptor, "a file"));
    }
    let accepted = descriptor.mime_type.as_deref().unwrap_or_default();
    let largest = descriptor.max_pixels.and_then(|most| u64::try_from(most).ok());
    if let Some((pixels, most)) = file.pixels.zip(largest).filter(|(pixels, most)| pixels > most) {
        return Err(violation(name, ViolationKind::TooManyPixels, &too_many_pixels(pixels, most)));
    }
    match file.mime.as_deref() {
        Some(mime) if mime::is_known(mime) && !mime::is_accepted(mime, accepted) => {
            let is_picture = mime.starts_with("image/") && mime::is_accepted("image/jpeg", accepted);
            let tip = if is_picture { ": export it as JPEG" } else { "" };
            let got = format!("a file of type {}{tip}", plain(mime));
            Err(mismatch(name, ViolationKind::MimeType, descriptor, &got))
        }
        _ => Ok(()),
    }
}

/// Rounds the size up and the limit down, so that the size shown exceeds the limit shown.
fn too_many_pixels(pixels: u64, most: u64) -> String {
    let unit = if most < 100_000 { 1 } else { 100_000 };
    let [pixels, most] = [pixels.div_ceil(unit), most / unit].map(|units| (units * unit) as f64 / 1e6);
    format!(
        "This picture has {pixels} megapixels; this model takes at most {most}. Make it smaller, and run the model again."
    )
}

fn fit_value(name: &str, descriptor: &Descriptor, value: &Value) -> Result<Value, Violation> {
    use DescriptorType::{File, Float, Int, Options, Other, String};
    let samples = samples(descriptor);
    let refused = |kind| Err(mismatch(name, kind, descriptor, &value_shown(value)));
    match (kind_of(descriptor), value) {
        // For an unknown type, only the typing rule applies.
        (Other(_), Value::Number(_)) if JsonType::of(samples) == Some(JsonType::Text) => {
            Ok(Numeric::of(value)
                .map_or_else(|| value.clone(), |number| number.spelled(Some(JsonType::Text), false)))
        }
        (Other(_), _) => Ok(value.clone()),
        (_, Value::Null | Value::Array(_) | Value::Object(_)) => refused(ViolationKind::WrongType),
        (kind @ (Int | Float), _) => match Numeric::of(value) {
            Some(number) if kind == Int && !number.value.is_integer() => refused(ViolationKind::WrongType),
            Some(number) if !Range::of(descriptor).contains(&number.value) => {
                refused(ViolationKind::OutOfRange)
            }
            Some(number) => Ok(number.spelled(JsonType::of(samples), kind == Int)),
            None => refused(ViolationKind::WrongType),
        },
        (Options, _) => match find_option(samples, value) {
            Some(option) => Ok(option_value(option).unwrap_or_else(|| value.clone())),
            None if samples.is_empty() => Ok(value.clone()),
            None => {
                let nearest = nearest(&text_of(value), samples.iter().map(Sample::as_str));
                let hint = nearest.map(|option| format!(", did you mean {}?", quoted(option)));
                let got = value_shown(value) + &hint.unwrap_or_default();
                Err(mismatch(name, ViolationKind::NotAnOption, descriptor, &got))
            }
        },
        (File, Value::String(text)) if is_web_url(text) => Ok(value.clone()),
        (File, Value::String(_)) => refused(ViolationKind::NotAUrl),
        (File, _) => refused(ViolationKind::WrongType),
        // Without samples, the type alone says that the value is sent as text.
        (String, Value::Bool(_) | Value::Number(_)) if samples.iter().all(Sample::is_string) => {
            Ok(Value::from(value.to_string()))
        }
        _ => Ok(value.clone()),
    }
}

/// Compares texts exactly, as the service does (a nearly right word may be near two options), and numbers by value.
fn find_option<'a>(options: &'a [Sample], given: &Value) -> Option<&'a Sample> {
    let text = text_of(given);
    let same_text = || options.iter().filter(|option| option.as_str() == text);
    same_text()
        .find(|option| option.is_string() == given.is_string())
        .or_else(|| same_text().next())
        .or_else(|| options.iter().find(|option| given.is_number() && has_value(option, given)))
}

/// Returns the option as JSON, if JSON can hold it exactly.
fn option_value(option: &Sample) -> Option<Value> {
    let value = serde_json::to_value(option).ok()?;
    (text_of(&value) == option.as_str() || has_value(option, &value)).then_some(value)
}

fn has_value(option: &Sample, number: &Value) -> bool {
    Numeric::of(number).is_some_and(|number| option.as_str().parse().as_ref() == Ok(&number.value))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn mismatch(name: &str, kind: ViolationKind, descriptor: &Descriptor, got: &str) -> Violation {
    violation(name, kind, &format!("expected {}, got {got}", expected(descriptor)))
}

/// Describes the accepted values, as the object of "expected …".
fn expected(descriptor: &Descriptor) -> String {
    let bounds = || Range::of(descriptor).bounds();
    let options = || samples(descriptor).iter().map(Sample::as_str);
    match (kind_of(descriptor), descriptor.mime_type.as_deref().unwrap_or_default()) {
        (DescriptorType::File, []) => format!("a file to upload, or {URL}"),
        (DescriptorType::File | DescriptorType::String | DescriptorType::Other(_), types @ [_, ..]) => {
            let types = listed(types.iter().map(String::as_str), plain);
            format!("a file to upload ({types}), or {URL}")
        }
        (DescriptorType::Int, _) => format!("a whole number{}", bounds()),
        (DescriptorType::Float, _) => format!("a number{}", bounds()),
        (DescriptorType::Options, _) if samples(descriptor).is_empty() => "one of its options".to_owned(),
        (DescriptorType::Options, _) => format!("one of {}", listed(options(), quoted)),
        (DescriptorType::String, []) => "text".to_owned(),
        _ => "a value".to_owned(),
    }
}

/// Returns the declared type; an `Other` with a known name counts as the known type.
fn kind_of(descriptor: &Descriptor) -> DescriptorType {
    DescriptorType::from(descriptor.type_.as_ref().map_or("", DescriptorType::as_str))
}

fn samples(descriptor: &Descriptor) -> &[Sample] {
    descriptor.samples.as_deref().unwrap_or_default()
}

/// Returns true for an absolute web URL. The parser also accepts `https:///host` and surrounding white space.
fn is_web_url(text: &str) -> bool {
    let after_scheme = text.split_once("://").map_or("", |(_, rest)| rest);
    let is_clean = !text.ends_with(char::is_whitespace) && !text.contains(char::is_control);
    is_http(text)
        && is_clean
        && !after_scheme.starts_with(['/', '\\'])
        && Url::parse(text).is_ok_and(|url| url.has_host())
}

pub(super) fn value_shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => plain(&value.to_string()),
    }
}

/// Quotes foreign text: bounded, control characters escaped, secrets redacted.
fn quoted(text: &str) -> String {
    // An invalid URL may still end in a query.
    let query = text.find(['?', '#']).filter(|&at| text.contains("://") || text[at..].contains('='));
    let masked = match query {
        Some(at) => format!("{}…", mask_urls(&text[..=at])),
        None => mask_urls(text),
    };
    format!("{:?}", cut(&masked, MAX_TEXT))
}

pub(super) fn plain(text: &str) -> String {
    quoted(text).trim_matches('"').to_owned()
}

fn listed<'a>(texts: impl IntoIterator<Item = &'a str>, shown: fn(&str) -> String) -> String {
    let mut texts = texts.into_iter();
    let mut list = texts.by_ref().take(MAX_LISTED).map(shown).collect::<Vec<_>>().join(", ");
    match texts.count() {
        0 => {}
        more => list.push_str(&format!(" and {more} more")),
    }
    list
}

/// Returns the most similar name above the minimum similarity; the first of equals.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normalized(word)?;
    let compared = names.into_iter().filter_map(|name| Some((similarity(&word, &normalized(name)?), name)));
    let best = compared.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
    (best.0 >= MIN_SIMILARITY).then_some(best.1)
}

/// Normalizes case, surrounding space, and `-` or a space for `_`: the most frequent typing errors.
fn normalized(word: &str) -> Option<String> {
    let word = word.trim();
    let is_comparable = !word.is_empty() && word.len() <= MAX_COMPARED;
    is_comparable.then(|| word.to_lowercase().replace(['-', ' '], "_"))
}

fn similarity(word: &str, name: &str) -> f64 {
    let contains = |long: &str, short: &str| short.chars().count() >= MIN_CONTAINED && long.contains(short);
    // In a short word, two letters in the wrong order leave little that is alike.
    let is_slip = word.chars().count() >= MIN_CONTAINED && strsim::osa_distance(word, name) == 1;
    let similarity = strsim::jaro_winkler(word, name).max(if is_slip { MIN_SIMILARITY } else { 0.0 });
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
            assert_eq!(value_shown(&given), shown);
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
