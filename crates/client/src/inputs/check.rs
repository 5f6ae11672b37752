//! Checks inputs against what a model declares, and brings each to the spelling it must have on the
//! wire. Nothing here knows the network: files are checked by their MIME type and then left to be
//! replaced by URLs.

mod digits;
mod expected;
mod number;
mod option;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use inferstore_api::Sample;
use inferstore_api::types::{Descriptor, DescriptorType};
use reqwest::Url;
use serde_json::{Map, Value};

use self::number::{Kind, Numeric};
use super::violation::{InvalidInputs, Problem, Violation};
use super::{names, shown};
use crate::mime;

/// What is given for one parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Candidate {
    /// A value that is sent. Null is as good as nothing given.
    Value(Value),
    /// A file that is to be uploaded.
    File {
        /// Its MIME type, if it is known. A file that nobody can tell is not refused for its type.
        mime: Option<String>,
    },
}

/// Inputs that fit the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Checked {
    /// The values as they are sent.
    pub(crate) values: Map<String, Value>,
    /// The parameters whose value is the URL of a file that is still to be uploaded, in the order of
    /// the model's parameters.
    pub(crate) files: Vec<String>,
}

impl Checked {
    fn add(&mut self, name: &str, fitting: Fitting) {
        match fitting {
            Fitting::Value(value) => {
                self.values.insert(name.to_owned(), value);
            }
            Fitting::File => self.files.push(name.to_owned()),
        }
    }
}

/// What becomes of a candidate that fits.
enum Fitting {
    Value(Value),
    File,
}

/// Checks inputs against a model's declared schema and brings each to the spelling it must have on
/// the wire.
///
/// A model that declares nothing takes everything as it is: the schema may be missing from the
/// answer, and then only the service can say.
pub(crate) fn check(
    declared: &BTreeMap<String, Descriptor>,
    inputs: &BTreeMap<String, Candidate>,
) -> Result<Checked, InvalidInputs> {
    let mut checked = Checked::default();
    let mut violations = Vec::new();
    if declared.is_empty() {
        for (name, candidate) in inputs {
            checked.add(name, unchecked(candidate));
        }
        return Ok(checked);
    }
    let parameters = in_order(declared);
    for (name, descriptor) in &parameters {
        let Some(candidate) = inputs.get(*name).filter(|candidate| candidate.is_given()) else {
            // Where the model does not say whether it needs a parameter, the service will.
            if descriptor.required == Some(true) {
                let expected = expected::expectation(descriptor);
                violations.push(Violation::new(name, None, Problem::Missing { expected }));
            }
            continue;
        };
        match fit(descriptor, candidate) {
            Ok(fitting) => checked.add(name, fitting),
            Err(problems) => violations.extend(
                problems.into_iter().map(|problem| Violation::new(name, Some(candidate.shown()), problem)),
            ),
        }
    }
    for (name, candidate) in inputs {
        if candidate.is_given() && !declared.contains_key(name) {
            let names = parameters.iter().map(|(name, _)| *name);
            let did_you_mean = names::nearest(name, names).map(str::to_owned);
            violations.push(Violation::new(name, Some(candidate.shown()), Problem::Unknown { did_you_mean }));
        }
    }
    if violations.is_empty() {
        return Ok(checked);
    }
    let parameters = parameters.into_iter().map(|(name, _)| name.to_owned()).collect();
    Err(InvalidInputs::new(violations, parameters))
}

/// The parameters by their position, then by name; those without a position come last.
fn in_order(declared: &BTreeMap<String, Descriptor>) -> Vec<(&str, &Descriptor)> {
    let mut parameters: Vec<_> =
        declared.iter().map(|(name, descriptor)| (name.as_str(), descriptor)).collect();
    // The sort is stable, and the map is in the order of names.
    parameters.sort_by_key(|(_, descriptor)| descriptor.position.unwrap_or(i64::MAX));
    parameters
}

fn unchecked(candidate: &Candidate) -> Fitting {
    match candidate {
        Candidate::Value(value) => Fitting::Value(value.clone()),
        Candidate::File { .. } => Fitting::File,
    }
}

fn fit(descriptor: &Descriptor, candidate: &Candidate) -> Result<Fitting, Vec<Problem>> {
    match candidate {
        Candidate::Value(value) => fit_value(descriptor, value).map(Fitting::Value),
        Candidate::File { mime } => {
            fit_file(descriptor, mime.as_deref()).map(|()| Fitting::File).map_err(|problem| vec![problem])
        }
    }
}

fn fit_file(descriptor: &Descriptor, mime: Option<&str>) -> Result<(), Problem> {
    match kind_of(descriptor) {
        DescriptorType::Int | DescriptorType::Float | DescriptorType::Options | DescriptorType::String => {
            return Err(Problem::WrongType { expected: expected::expectation(descriptor), found: "a file" });
        }
        // A type that is not known yet may well be one of files.
        _ => {}
    }
    let accepted = descriptor.mime_type.as_deref().unwrap_or_default();
    match mime {
        Some(mime) if !mime::is_accepted(mime, accepted) => {
            Err(Problem::MimeMismatch { mime: mime.to_owned(), accepted: accepted.to_vec() })
        }
        _ => Ok(()),
    }
}

fn fit_value(descriptor: &Descriptor, value: &Value) -> Result<Value, Vec<Problem>> {
    let wrong_type =
        || Problem::WrongType { expected: expected::expectation(descriptor), found: found(value) };
    let kind = kind_of(descriptor);
    let fitting = match (kind, value) {
        (kind, _) if !DescriptorType::KNOWN.contains(&kind) => Ok(loosely(descriptor, value)),
        (_, Value::Null | Value::Array(_) | Value::Object(_)) => Err(wrong_type()),
        (DescriptorType::Int | DescriptorType::Float, Value::Bool(_)) => Err(wrong_type()),
        (DescriptorType::Int, _) => return number::fit(descriptor, Kind::Whole, value),
        (DescriptorType::Float, _) => return number::fit(descriptor, Kind::Fraction, value),
        (DescriptorType::Options, _) => option::fit(samples(descriptor), value),
        (DescriptorType::File, Value::String(text)) if is_web_url(text) => Ok(value.clone()),
        (DescriptorType::File, Value::String(_)) => Err(Problem::NotAUrl),
        (DescriptorType::File, _) => Err(wrong_type()),
        (DescriptorType::String, Value::String(_)) => Ok(value.clone()),
        // Without samples the type alone says that it is sent as a text.
        (DescriptorType::String, _) if samples(descriptor).iter().all(Sample::is_string) => {
            Ok(Value::String(value.to_string()))
        }
        _ => Ok(value.clone()),
    };
    fitting.map_err(|problem| vec![problem])
}

/// A value for a parameter of a type that is not known: only the typing rule holds.
fn loosely(descriptor: &Descriptor, value: &Value) -> Value {
    match (Shape::of(descriptor), value) {
        (Some(Shape::Text), Value::Number(_)) => Numeric::of(value)
            .map_or_else(|| value.clone(), |number| number.spelled(Kind::Fraction, Some(Shape::Text))),
        _ => value.clone(),
    }
}

/// The declared type, of which a word that is known stands for itself however it was made.
fn kind_of(descriptor: &Descriptor) -> DescriptorType {
    DescriptorType::from(descriptor.type_.as_ref().map_or("", DescriptorType::as_str))
}

fn samples(descriptor: &Descriptor) -> &[Sample] {
    descriptor.samples.as_deref().unwrap_or_default()
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Whether the text is an absolute URL over http or https, with a host. The parser alone is more
/// forgiving than whoever will fetch it: it reads `https:host`, `https:///host` and URLs in spaces.
fn is_web_url(text: &str) -> bool {
    let after_scheme = text.split_once("://").and_then(|(scheme, rest)| {
        ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)).then_some(rest)
    });
    after_scheme.is_some_and(|rest| !rest.starts_with(['/', '\\']))
        && !text.ends_with(char::is_whitespace)
        && !text.contains(char::is_control)
        && Url::parse(text).is_ok_and(|url| url.has_host())
}

impl Candidate {
    fn is_given(&self) -> bool {
        !matches!(self, Self::Value(Value::Null))
    }

    fn shown(&self) -> String {
        match self {
            Self::Value(value) => shown::value(value),
            Self::File { mime: Some(mime) } => format!("a file of type {}", shown::name(mime)),
            Self::File { mime: None } => "a file".to_owned(),
        }
    }
}

/// How the samples of a parameter show that a number is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Number,
}

impl Shape {
    /// `None` where there are no samples, or where they do not agree.
    fn of(descriptor: &Descriptor) -> Option<Self> {
        let samples = samples(descriptor);
        if samples.is_empty() {
            None
        } else if samples.iter().all(Sample::is_string) {
            Some(Self::Text)
        } else if samples.iter().all(number::is_bare) {
            Some(Self::Number)
        } else {
            None
        }
    }
}
