//! Local validation: checks inputs against the declared parameters of a model and writes each value
//! in the JSON type that the model takes. No I/O.
//!
//! Only what the declaration makes certain is refused; everything else is sent, and the service
//! decides.

use std::collections::BTreeMap;

use inferstore_api::Sample;
use inferstore_api::types::{Descriptor, DescriptorType};
use reqwest::Url;
use serde_json::{Map, Value};

use super::file_input::is_http;
use super::message;
use super::number::{self, Form, Numeric, Range};
use crate::files::mime;
use crate::transport::violation::{InvalidInputs, Violation, ViolationKind};

/// What is given for one parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Candidate {
    /// A value to send. Null counts as not given.
    Value(Value),
    /// A file to upload.
    File {
        /// Its MIME type, if it is known. A file of unknown type is not refused for its type.
        mime: Option<String>,
    },
}

/// What to do with inputs that the model does not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undeclared {
    /// Refuse them: a mistyped name would be a paid run without the input.
    Refuse,
    /// Send them, with a warning.
    Send,
}

/// Inputs that fit the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Checked {
    /// The values as they are sent.
    pub(crate) values: Map<String, Value>,
    /// The parameters whose value is the URL of a file that is still to be uploaded, in the order of
    /// the model's parameters.
    pub(crate) files: Vec<String>,
    /// What is sent although it looks wrong, one line each.
    pub(crate) warnings: Vec<String>,
}

impl Checked {
    fn add(&mut self, name: &str, candidate: Candidate) {
        match candidate {
            Candidate::Value(value) => drop(self.values.insert(name.to_owned(), value)),
            Candidate::File { .. } => self.files.push(name.to_owned()),
        }
    }

    fn warn(&mut self, name: &str, warning: &str) {
        self.warnings.push(format!("{}: {warning}, it is sent as it is", message::plain(name)));
    }
}

/// Why a candidate does not fit.
struct Problem(ViolationKind, String);

impl Problem {
    fn of(self, name: &str) -> Violation {
        Violation::new(name, self.0, format!("{}: {}", message::plain(name), self.1))
    }
}

/// Checks inputs against the declared parameters.
///
/// A model that declares nothing takes everything as it is: its schema may be missing from the
/// response.
pub(crate) fn check(
    declared: &BTreeMap<String, Descriptor>,
    inputs: &BTreeMap<String, Candidate>,
    undeclared: Undeclared,
) -> Result<Checked, InvalidInputs> {
    let mut checked = Checked::default();
    let mut violations = Vec::new();
    let parameters = in_order(declared);
    for (name, descriptor) in &parameters {
        let Some(candidate) = inputs.get(*name).filter(|candidate| candidate.is_given()) else {
            // Without `required` it is the service that knows whether the parameter is required.
            if descriptor.required == Some(true) {
                let message = format!("required but not given, expected {}", expected(descriptor));
                violations.push(Problem(ViolationKind::Missing, message).of(name));
            }
            continue;
        };
        match fit(descriptor, candidate) {
            Ok(fitting) => {
                if let Some(warning) = step_warning(descriptor, &fitting) {
                    checked.warn(name, &warning);
                }
                checked.add(name, fitting);
            }
            Err(problem) => violations.push(problem.of(name)),
        }
    }
    let names: Vec<&str> = parameters.iter().map(|(name, _)| *name).collect();
    for (name, candidate) in inputs.iter().filter(|(name, _)| !declared.contains_key(*name)) {
        if declared.is_empty() {
            checked.add(name, candidate.clone());
        } else if candidate.is_given() && undeclared == Undeclared::Refuse {
            violations.push(undeclared_name(name, &names).of(name));
        } else if candidate.is_given() {
            checked.warn(name, "the model declares no such parameter");
            checked.add(name, candidate.clone());
        }
    }
    if violations.is_empty() {
        return Ok(checked);
    }
    Err(InvalidInputs::new(violations, names.into_iter().map(str::to_owned).collect()))
}

/// The parameters by position, then by name; those without a position come last.
fn in_order(declared: &BTreeMap<String, Descriptor>) -> Vec<(&str, &Descriptor)> {
    let mut parameters: Vec<_> =
        declared.iter().map(|(name, descriptor)| (name.as_str(), descriptor)).collect();
    // The sort is stable, and the map is in the order of names.
    parameters.sort_by_key(|(_, descriptor)| descriptor.position.unwrap_or(i64::MAX));
    parameters
}

fn undeclared_name(name: &str, names: &[&str]) -> Problem {
    let explanation = match message::nearest(name, names.iter().copied()) {
        Some(nearest) => format!("did you mean {}?", message::quoted(nearest)),
        None => format!("expected one of {}", message::listed(names.iter().copied(), message::plain)),
    };
    Problem(ViolationKind::Undeclared, format!("the model declares no such parameter, {explanation}"))
}

fn fit(descriptor: &Descriptor, candidate: &Candidate) -> Result<Candidate, Problem> {
    match candidate {
        Candidate::Value(value) => fit_value(descriptor, value).map(Candidate::Value),
        Candidate::File { mime } => fit_file(descriptor, mime.as_deref()).map_or(Ok(candidate.clone()), Err),
    }
}

fn fit_file(descriptor: &Descriptor, mime: Option<&str>) -> Option<Problem> {
    match kind_of(descriptor) {
        DescriptorType::Int | DescriptorType::Float | DescriptorType::Options => {
            return Some(wrong_type(descriptor, "a file"));
        }
        // Text may be a URL, and an unknown type may be one of files.
        _ => {}
    }
    let mime = mime?;
    let accepted = descriptor.mime_type.as_deref().unwrap_or_default();
    if mime::is_accepted(mime, accepted) {
        return None;
    }
    let accepted = message::listed(accepted.iter().map(String::as_str), message::plain);
    let message = format!("expected a file of type {accepted}, got {}", message::plain(mime));
    Some(Problem(ViolationKind::MimeType, message))
}

fn fit_value(descriptor: &Descriptor, value: &Value) -> Result<Value, Problem> {
    let samples = samples(descriptor);
    match (kind_of(descriptor), value) {
        (DescriptorType::Other(_), Value::Number(_)) if Form::of(samples) == Some(Form::Text) => {
            Ok(Numeric::of(value)
                .map_or_else(|| value.clone(), |number| number.spelled(Some(Form::Text), false)))
        }
        (DescriptorType::Other(_), _) => Ok(value.clone()),
        (_, Value::Null | Value::Array(_) | Value::Object(_)) => {
            Err(wrong_type(descriptor, &message::value(value)))
        }
        (DescriptorType::Int, _) => fit_number(descriptor, value, true),
        (DescriptorType::Float, _) => fit_number(descriptor, value, false),
        (DescriptorType::Options, _) => fit_option(samples, value),
        (DescriptorType::File, Value::String(text)) if is_web_url(text) => Ok(value.clone()),
        (DescriptorType::File, Value::String(text)) => {
            let expected = "a URL that starts with http:// or https://, or a file to upload";
            let message = format!("expected {expected}, got {}", message::quoted(text));
            Err(Problem(ViolationKind::NotAUrl, message))
        }
        (DescriptorType::File, _) => Err(wrong_type(descriptor, &message::value(value))),
        (DescriptorType::String, Value::String(_)) => Ok(value.clone()),
        // Without samples the type alone says that it is sent as text.
        (DescriptorType::String, _) if samples.iter().all(Sample::is_string) => {
            Ok(Value::String(value.to_string()))
        }
        (DescriptorType::String, _) => Ok(value.clone()),
        // A type that this version does not know.
        _ => Ok(value.clone()),
    }
}

fn fit_number(descriptor: &Descriptor, value: &Value, integer: bool) -> Result<Value, Problem> {
    let number = Numeric::of(value).filter(|number| !integer || number.is_integer());
    let Some(number) = number else { return Err(wrong_type(descriptor, &message::value(value))) };
    match Range::of(descriptor).exceeded_by(&number.value) {
        Some(bound) => {
            let message = format!("{} is {bound}", message::value(value));
            Err(Problem(ViolationKind::OutOfRange, message))
        }
        None => Ok(number.spelled(Form::of(samples(descriptor)), integer)),
    }
}

/// Finds the option. Words are compared exactly, as the service does: one that is nearly right may be
/// nearly right for two options. Only a number finds the option that has its value, such as "1.0".
fn fit_option(options: &[Sample], given: &Value) -> Result<Value, Problem> {
    let text = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
    let same_text = || options.iter().filter(|option| option.as_str() == text);
    let number = if given.is_number() { Numeric::of(given) } else { None };
    let has_its_value = |option: &&Sample| {
        number.as_ref().is_some_and(|number| option.as_str().parse() == Ok(number.value.clone()))
    };
    let option = same_text()
        .find(|option| option.is_string() == given.is_string())
        .or_else(|| same_text().next())
        .or_else(|| options.iter().find(has_its_value));
    if let Some(option) = option {
        return Ok(option_value(option).unwrap_or_else(|| given.clone()));
    }
    let words = || options.iter().map(Sample::as_str);
    if options.is_empty() {
        return Ok(given.clone());
    }
    let suggestion = message::nearest(&text, words())
        .map_or_else(String::new, |option| format!(", did you mean {}?", message::quoted(option)));
    let options = message::listed(words(), message::quoted);
    let given = message::value(given);
    Err(Problem(ViolationKind::NotAnOption, format!("{given} is not one of {options}{suggestion}")))
}

/// The option as JSON, unless JSON numbers cannot hold it.
fn option_value(option: &Sample) -> Option<Value> {
    if option.is_string() {
        return Some(Value::from(option.as_str()));
    }
    match option.as_str() {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        number => number::exact(number),
    }
}

/// A step may be no more than the step of a slider: a value between two steps is sent, with a warning.
fn step_warning(descriptor: &Descriptor, fitting: &Candidate) -> Option<String> {
    let Candidate::Value(value) = fitting else { return None };
    if !matches!(kind_of(descriptor), DescriptorType::Int | DescriptorType::Float) {
        return None;
    }
    let steps = Range::of(descriptor).step_missed_by(&Numeric::of(value)?.value)?;
    Some(format!("{} is not {steps}", message::value(value)))
}

fn wrong_type(descriptor: &Descriptor, got: &str) -> Problem {
    Problem(ViolationKind::WrongType, format!("expected {}, got {got}", expected(descriptor)))
}

/// What a parameter takes, as the object of "expected …".
fn expected(descriptor: &Descriptor) -> String {
    let bounds = || Range::of(descriptor).bounds();
    let list = |types: &[String]| message::listed(types.iter().map(String::as_str), message::plain);
    match kind_of(descriptor) {
        DescriptorType::File => match descriptor.mime_type.as_deref() {
            None | Some([]) => "a file to upload, or its URL".to_owned(),
            Some(types) => format!("a file to upload ({}), or its URL", list(types)),
        },
        DescriptorType::Int => format!("a whole number{}", bounds()),
        DescriptorType::Float => format!("a number{}", bounds()),
        DescriptorType::Options if samples(descriptor).is_empty() => "one of its options".to_owned(),
        DescriptorType::Options => {
            let options = samples(descriptor).iter().map(Sample::as_str);
            format!("one of {}", message::listed(options, message::quoted))
        }
        DescriptorType::String => "text".to_owned(),
        _ => "a value".to_owned(),
    }
}

/// The declared type; a known type counts as itself even if it was made as `Other`.
fn kind_of(descriptor: &Descriptor) -> DescriptorType {
    DescriptorType::from(descriptor.type_.as_ref().map_or("", DescriptorType::as_str))
}

fn samples(descriptor: &Descriptor) -> &[Sample] {
    descriptor.samples.as_deref().unwrap_or_default()
}

/// Whether the text is an absolute URL over http or https. The parser also takes URLs within space,
/// which other readers refuse.
fn is_web_url(text: &str) -> bool {
    let is_trimmed = !text.ends_with(char::is_whitespace) && !text.contains(char::is_control);
    // The parser takes the first segment of the path for a missing host.
    let has_host = text.split_once("://").is_some_and(|(_, rest)| !rest.starts_with(['/', '\\']));
    is_http(text) && is_trimmed && has_host && Url::parse(text).is_ok_and(|url| url.has_host())
}

impl Candidate {
    fn is_given(&self) -> bool {
        !matches!(self, Self::Value(Value::Null))
    }
}
