//! Validation of inputs against the declaration of a model, before the price is reserved. This is the service's own
//! reading of the typing rule: the samples decide how a number is sent.

use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use super::entries::{Entries, quote_name};
use super::format::{Descriptor, Format, Kind, NumConfig, Sample};

/// Number of digits that every exact decimal of 96 bits holds.
const MAX_DIGITS: usize = 28;

/// Inputs of a task. The values stay as spelled in the request, so that no number loses a digit before validation.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Inputs(Entries<Box<RawValue>>);

impl Inputs {
    /// Returns names and values in canonical form, equal for all spellings of the same JSON: sorted by name, without
    /// escapes, exponents and needless zeros. Lists and objects, which no model accepts, stay as spelled.
    pub(crate) fn canonical(&self) -> Vec<String> {
        let mut sorted: Vec<_> = self.0.0.iter().collect();
        sorted.sort_unstable_by_key(|(name, _)| name);
        sorted.into_iter().flat_map(|(name, value)| [name.clone(), canonical(value.get())]).collect()
    }
}

fn canonical(value: &str) -> String {
    if let Some(text) = text(value) {
        return format!("\"{text}");
    }
    match json_number(value) {
        Some(number) => plain(number),
        None => value.to_owned(),
    }
}

fn plain(number: Decimal) -> String {
    if number.is_zero() { "0".to_owned() } else { number.normalize().to_string() }
}

const MAX_VIOLATIONS: usize = 20;
/// Maximum length of a file URL in bytes, as in common servers and proxies.
const MAX_URL: usize = 8 * 1024;
/// Maximum number of fraction digits, as in the API document.
const MAX_FRACTION_DIGITS: usize = 18;

/// Validates inputs. Returns one sentence for each violation, which names the input, in the declared order.
///
/// - A required input must be present; an undeclared input must not. `null` counts as absent.
/// - A number is sent as a string if the parameter has samples (which are strings), and either way otherwise. The
///   number has no exponent in a string, has only digits and a sign for `int`, and lies in the declared range.
/// - A file is an http or https URL, an option is one of the declared values, a string is a string.
pub(crate) fn check_inputs(declared: &Format, inputs: &Inputs) -> Result<(), Vec<String>> {
    let mut violations = Vec::new();
    for (name, descriptor) in declared.parameters() {
        let complaint = match inputs.0.get(name).map(|value| value.get()) {
            None | Some("null") if descriptor.is_required() => Some("is required".to_owned()),
            None | Some("null") => None,
            Some(value) => check_input(descriptor, value).err(),
        };
        violations.extend(complaint.map(|complaint| format!("{} {complaint}", quote_name(name))));
    }
    for (name, _) in &inputs.0.0 {
        if declared.get(name).is_none() {
            let known: Vec<&str> = declared.parameters().map(|(name, _)| name).collect();
            violations.push(format!(
                "{} is not an input of this model, whose inputs are {}",
                quote_name(name),
                known.join(", ")
            ));
        }
    }
    if violations.is_empty() {
        return Ok(());
    }
    let more = violations.len().saturating_sub(MAX_VIOLATIONS);
    violations.truncate(MAX_VIOLATIONS);
    if more > 0 {
        violations.push(format!("and {more} more like these"));
    }
    Err(violations)
}

/// Validates an output like an input, but a number may be a string or not, and a float outside of one has any digits.
pub(crate) fn check_output(descriptor: &Descriptor, value: &str) -> Result<(), String> {
    match descriptor.kind {
        Kind::Float if is_bare_number(value) && json_number(value).is_none() => {
            // JSON parsers refuse a larger number.
            let is_finite = value.parse().is_ok_and(f64::is_finite);
            if is_finite { Ok(()) } else { Err("must be a number that 64 bits can hold".to_owned()) }
        }
        Kind::Int | Kind::Float => check_number(descriptor, value, false),
        _ => check_input(descriptor, value),
    }
}

pub(super) fn check_input(descriptor: &Descriptor, value: &str) -> Result<(), String> {
    match descriptor.kind {
        Kind::Int | Kind::Float => check_number(descriptor, value, !descriptor.samples.is_empty()),
        Kind::File => {
            let url = text(value).ok_or("must be the URL of a file, as a string")?;
            if url.len() > MAX_URL {
                return Err(format!("must be a URL of at most {MAX_URL} bytes"));
            }
            if is_http_url(&url) { Ok(()) } else { Err("must be an http or https URL of a file".to_owned()) }
        }
        Kind::Options => {
            let words: Vec<String> = descriptor.samples.iter().filter_map(Sample::text).collect();
            match text(value) {
                Some(word) if words.contains(&word) => Ok(()),
                _ => Err(format!("must be one of {words:?}")),
            }
        }
        Kind::String => text(value).map(|_| ()).ok_or_else(|| "must be a string".to_owned()),
    }
}

fn check_number(descriptor: &Descriptor, value: &str, must_be_string: bool) -> Result<(), String> {
    let noun = if descriptor.kind == Kind::Int { "a whole number" } else { "a number" };
    let number = match text(value) {
        Some(text) => plain_number(&text, descriptor.kind),
        None if must_be_string || !is_bare_number(value) => {
            return Err(format!("must be {noun} sent as a string, such as \"{}\"", example(descriptor)));
        }
        None if descriptor.kind == Kind::Int => plain_number(value, Kind::Int),
        None => json_number(value),
    };
    let number = number.ok_or_else(|| match descriptor.kind {
        _ if is_long(value) => format!("must be {noun} of at most {MAX_DIGITS} digits"),
        Kind::Int => format!("must be {noun} in plain digits, such as {}", example(descriptor)),
        _ => format!(
            "must be {noun} in plain digits, such as {}, at most {MAX_FRACTION_DIGITS} of them behind the point",
            example(descriptor)
        ),
    })?;
    descriptor.num_config.as_ref().map_or(Ok(()), |range| check_range(range, number))
}

/// Returns true if a number has more digits before its point than every exact decimal.
fn is_long(value: &str) -> bool {
    let digits = value.trim_start_matches(['"', '-']).bytes().take_while(u8::is_ascii_digit).count();
    digits > MAX_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit() || b"\"-.".contains(&byte))
}

fn example(descriptor: &Descriptor) -> String {
    let usual = if descriptor.kind == Kind::Int { "30" } else { "0.5" };
    let range = descriptor.num_config.as_ref();
    let bounds = range.into_iter().flat_map(|range| [&range.min, &range.max]).filter_map(limit);
    let is_allowed = |text: &String| {
        plain_number(text, descriptor.kind)
            .is_some_and(|number| range.is_none_or(|range| check_range(range, number).is_ok()))
    };
    let sample = descriptor.samples.iter().find_map(Sample::text);
    let candidates = sample.into_iter().chain([usual.to_owned()]);
    let allowed = candidates.chain(bounds.map(plain)).find(is_allowed);
    allowed.unwrap_or_else(|| usual.to_owned())
}

/// Validates the range alone. In the API document, `step` is only a number, and so no reason for a refusal.
fn check_range(range: &NumConfig, number: Decimal) -> Result<(), String> {
    if let Some(min) = limit(&range.min).filter(|min| number < *min) {
        return Err(format!("must be at least {}", plain(min)));
    }
    if let Some(max) = limit(&range.max).filter(|max| number > *max) {
        return Err(format!("must be at most {}", plain(max)));
    }
    Ok(())
}

fn limit(bound: &Option<Box<RawValue>>) -> Option<Decimal> {
    bound.as_ref().and_then(|raw| json_number(raw.get()))
}

fn plain_number(text: &str, kind: Kind) -> Option<Decimal> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = |part: &str| are_digits(part) && (part == "0" || !part.starts_with('0'));
    let is_plain = match digits.split_once('.') {
        None => is_whole(digits),
        Some((whole, fraction)) => {
            let is_fraction = are_digits(fraction) && fraction.len() <= MAX_FRACTION_DIGITS;
            kind != Kind::Int && is_whole(whole) && is_fraction
        }
    };
    let number = Decimal::from_str_exact(text).ok().filter(|_| is_plain)?;
    let is_negative_zero = number.is_zero() && text.starts_with('-');
    (!is_negative_zero).then_some(number)
}

pub(super) fn json_number(text: &str) -> Option<Decimal> {
    Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text)).ok()
}

fn text(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}

fn is_bare_number(value: &str) -> bool {
    value.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// Returns true for an absolute URL with a host. The URL parser alone would accept a missing slash and a line break.
fn is_http_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        && !host.is_empty()
        && !url.chars().any(|letter| letter.is_whitespace() || letter.is_control())
        && Url::parse(url).is_ok()
}

#[cfg(test)]
mod tests;
