//! Publication of models: the form of a model, and the validation of names, formats and samples.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::check::{check_input, json_number};
use super::format::{Descriptor, FIELDS, Format, Kind, NumConfig, Sample};
use super::{NewModel, NewVersion, short_hash};
use crate::accounts::{Account, OPERATOR};
use crate::clock::Moment;
use crate::ledger::Money;
use crate::{Error, Result};

const MAX_PARAMETERS: usize = 100;
/// The path `/model/list` is the search of the catalog.
const RESERVED: &str = "list";
const MAX_NAME_LENGTH: usize = 100;
const MAX_DESCRIPTION_LENGTH: usize = 10_000;
const MAX_TITLE_LENGTH: usize = 200;
const MAX_HELP_LENGTH: usize = 2_000;

/// Visibility of a model, and permission to run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Everyone.
    Public,
    /// Its owner, and the members of the organization that owns it.
    Private,
}

/// A model to be published.
///
/// ```
/// use inferstore_service::ModelSpec;
///
/// let spec = ModelSpec::from_json(r#"{
///     "id": "edge-map", "name": "edge_map", "description": "Draws edges.", "price": "0.05",
///     "visibility": "public",
///     "input_format": {"input": {"type": "file", "mime_type": ["image/*"], "required": true, "position": 0}},
///     "output_format": {"output": {"type": "file", "mime_type": ["image/png"], "position": 0}}
/// }"#)?;
/// assert_eq!(spec.price.to_string(), "0.05");
/// # Ok::<(), inferstore_service::Error>(())
/// ```
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelSpec {
    /// Identifier in URLs: lower-case letters, digits and single hyphens.
    pub id: String,
    /// Technical name.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Price of one task; in JSON a string, so that it is exact.
    pub price: Money,
    /// Visibility of the model.
    pub visibility: Visibility,
    /// True if the filter `playground` includes the model.
    #[serde(default)]
    pub is_playground: bool,
    /// Number of likes, for the sort order `likes`; the API has no call that changes the number.
    #[serde(default)]
    pub likes: u32,
    /// Number of downloads, for the sort order `downloads`; the API has no call that changes the number.
    #[serde(default)]
    pub downloads: u32,
    /// Further facts for people and catalogs.
    #[serde(default)]
    pub metadata: Metadata,
    /// Inputs: a JSON object from parameter name to descriptor.
    pub input_format: Box<RawValue>,
    /// Outputs, in the same form.
    pub output_format: Box<RawValue>,
}

/// Facts about a model, for people and catalogs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metadata {
    /// Name as people write it.
    pub pretty_name: String,
    /// Type of work, such as `image-to-image`.
    pub task: String,
    /// License of the model.
    pub license: String,
    /// Libraries that the model uses.
    pub library: Vec<String>,
    /// Languages that the model supports.
    pub language: Vec<String>,
}

#[derive(Serialize)]
struct FullMetadata<'a> {
    id: String,
    model_id: &'a str,
    #[serde(flatten)]
    metadata: &'a Metadata,
}

impl ModelSpec {
    /// Parses a model from JSON. Fails if the text is no JSON, or a field is missing or unknown; the error locates it.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|cause| Error::new("reading a model to be published", cause))
    }

    pub(crate) fn to_model(&self, owner: &Account, now: Moment) -> Result<NewModel> {
        let formats = self.checked().map_err(|why| Error::new(self.publishing(), why))?;
        self.with_formats(formats, owner, now)
    }

    pub(crate) fn publishing(&self) -> String {
        format!("publishing the model {:?}", self.id)
    }

    pub(crate) fn with_formats(
        &self,
        (inputs, outputs): (Format, Format),
        owner: &Account,
        now: Moment,
    ) -> Result<NewModel> {
        let metadata =
            FullMetadata { id: short_hash(&self.id), model_id: &self.id, metadata: &self.metadata };
        Ok(NewModel {
            id: self.id.clone(),
            name: self.name.clone(),
            owner: owner.id,
            description: self.description.clone(),
            is_official: owner.username == OPERATOR,
            is_verified: false,
            is_public: self.visibility == Visibility::Public,
            is_playground: self.is_playground,
            price: self.price,
            metadata: to_raw_value(&metadata).map_err(|cause| Error::new(self.publishing(), cause))?,
            likes: self.likes.into(),
            downloads: self.downloads.into(),
            created_at: now,
            updated_at: now,
            version: NewVersion::new(&inputs, &outputs)?,
        })
    }

    pub(crate) fn checked(&self) -> Result<(Format, Format), String> {
        check_model_id(&self.id)?;
        check_texts(Some(&self.name), Some(&self.description))?;
        if self.price < Money::ZERO {
            return Err("a price is not below zero".to_owned());
        }
        checked_formats(self.input_format.get(), self.output_format.get())
    }
}

/// Checks the identifier of a new model. The error says what is wrong.
pub fn check_model_id(id: &str) -> Result<(), String> {
    if !is_slug(id) {
        return Err(format!(
            "{id:?} is no identifier of a model: it has lower-case letters, digits and single hyphens, at most \
             {MAX_NAME_LENGTH} in all, such as edge-map"
        ));
    }
    if id == RESERVED {
        return Err(format!("{RESERVED:?} is a path of its own; take another identifier"));
    }
    Ok(())
}

pub(crate) fn check_texts(name: Option<&str>, description: Option<&str>) -> Result<(), String> {
    if name.is_some_and(|name| name.contains(char::is_control)) {
        return Err("the name of a model has no control characters".to_owned());
    }
    if name.is_some_and(|name| name.trim().is_empty() || name.len() > MAX_NAME_LENGTH) {
        return Err(format!("a model needs a name of at most {MAX_NAME_LENGTH} bytes"));
    }
    if description.is_some_and(|description| description.len() > MAX_DESCRIPTION_LENGTH) {
        return Err(format!("a description has at most {MAX_DESCRIPTION_LENGTH} bytes"));
    }
    Ok(())
}

pub(crate) fn checked_formats(inputs: &str, outputs: &str) -> Result<(Format, Format), String> {
    let read = |which: &str, text: &str| -> Result<Format, String> {
        let format = read_format(text).map_err(|why| format!("the {which}: {why}"))?;
        if format.parameters().count() > MAX_PARAMETERS {
            return Err(format!("the {which}: more than {MAX_PARAMETERS} parameters"));
        }
        for (name, descriptor) in format.parameters() {
            check_descriptor(name, descriptor).map_err(|why| format!("the {which}: {name:?} {why}"))?;
            let samples = descriptor.samples.iter().map(|sample| ("sample", sample));
            let mut values = samples.chain(descriptor.default.iter().map(|value| ("default", value)));
            if let Some((noun, value)) = values.find(|(_, value)| value.text().is_none()) {
                let raw = value.raw();
                let is_number = json_number(raw).is_some();
                let hint = if is_number { format!("; write {raw} as \"{raw}\"") } else { String::new() };
                return Err(format!("the {which}: {name:?} has a {noun} that is not a string{hint}"));
            }
        }
        Ok(format)
    };
    let (inputs, outputs) = (read("input format", inputs)?, read("output format", outputs)?);
    if outputs.parameters().next().is_none() {
        return Err("the output format: a model has at least one output".to_owned());
    }
    check_samples(&inputs)?;
    Ok((inputs, outputs))
}

/// Parses a format. The error names the parameter, without the parser's position within the format.
fn read_format(text: &str) -> Result<Format, String> {
    if let Ok(format) = serde_json::from_str::<BTreeMap<String, BTreeMap<String, IgnoredAny>>>(text) {
        let mut fields =
            format.iter().flat_map(|(name, fields)| fields.keys().map(move |field| (name, field)));
        if let Some((name, field)) = fields.find(|(_, field)| !FIELDS.contains(&field.as_str())) {
            let known = FIELDS.join("`, `");
            return Err(format!("{name}: unknown field `{field}`, expected one of `{known}`"));
        }
    }
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(|error| {
        let cause = error.inner().to_string();
        let cause = cause.rsplit_once(" at line ").map_or(&*cause, |(cause, _)| cause);
        match error.path().to_string().as_str() {
            "." => cause.to_owned(),
            place => format!("{place}: {cause}"),
        }
    })
}

fn check_descriptor(name: &str, descriptor: &Descriptor) -> Result<(), &'static str> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.is_empty() || name.len() > MAX_NAME_LENGTH || !name.chars().all(plain) {
        return Err("is no name of a parameter: it has letters, digits, _ and -, at most 100 in all");
    }
    if descriptor.mime_type.is_some() && descriptor.kind != Kind::File {
        return Err("has a mime_type and is no file");
    }
    let is_pattern = |pattern: &String| pattern.split('/').filter(|part| !part.is_empty()).count() == 2;
    if !descriptor.mime_type.iter().flatten().all(is_pattern) {
        return Err("has a mime_type that is no pattern such as image/png or image/*");
    }
    if descriptor.kind == Kind::Options && descriptor.samples.is_empty() {
        return Err("is an option without words: its samples are all of them");
    }
    check_words(descriptor)?;
    match &descriptor.num_config {
        Some(_) if !matches!(descriptor.kind, Kind::Int | Kind::Float) => {
            Err("has a num_config and is no number")
        }
        Some(range) if !is_range(range) => {
            Err("has a num_config that is none: numbers, min not above max, step above zero")
        }
        _ => Ok(()),
    }
}

fn check_words(descriptor: &Descriptor) -> Result<(), &'static str> {
    let is_line = |text: &String| {
        !text.trim().is_empty() && text.len() <= MAX_TITLE_LENGTH && !text.contains(char::is_control)
    };
    if !descriptor.title.iter().all(is_line) {
        return Err("has a title that is none: 1 to 200 bytes without control characters");
    }
    if !descriptor.labels.values().all(is_line) {
        return Err("has a label that is none: 1 to 200 bytes without control characters");
    }
    let is_control = |letter: char| letter.is_control() && letter != '\n';
    let is_help = |text: &String| text.len() <= MAX_HELP_LENGTH && !text.contains(is_control);
    if !descriptor.description.iter().all(is_help) {
        return Err(
            "has a description that is too long or has control characters: at most 2,000 bytes of text",
        );
    }
    if !descriptor.labels.is_empty() && descriptor.kind != Kind::Options {
        return Err("has labels and is no option");
    }
    let words: Vec<String> = descriptor.samples.iter().filter_map(Sample::text).collect();
    if !descriptor.labels.keys().all(|word| words.contains(word)) {
        return Err("has a label for a word that is not among its samples");
    }
    match descriptor.max_pixels {
        Some(_) if descriptor.kind != Kind::File => Err("has max_pixels and is no file"),
        Some(0) => Err("has max_pixels of 0, which no picture has"),
        _ if descriptor.kind == Kind::File && descriptor.default.is_some() => {
            Err("has a default and is a file: give a sample instead")
        }
        _ => Ok(()),
    }
}

fn is_range(range: &NumConfig) -> bool {
    // An absent bound is valid; an unreadable one is not.
    let read = |bound: &Option<Box<RawValue>>| match bound {
        None => Some(None),
        Some(raw) => json_number(raw.get()).map(Some),
    };
    let (Some(min), Some(max), Some(step)) = (read(&range.min), read(&range.max), read(&range.step)) else {
        return false;
    };
    let ordered = min.zip(max).is_none_or(|(min, max)| min <= max);
    ordered && step.is_none_or(|step| step > Decimal::ZERO)
}

fn check_samples(inputs: &Format) -> Result<(), String> {
    for (name, descriptor) in inputs.parameters() {
        if let Some(default) = &descriptor.default {
            check_input(descriptor, default.raw())
                .map_err(|why| format!("the input format: the default of {name} is refused: it {why}"))?;
        }
        for sample in &descriptor.samples {
            check_input(descriptor, sample.raw())
                .map_err(|why| format!("the input format: a sample is refused: {name} {why}"))?;
        }
    }
    Ok(())
}

fn is_slug(id: &str) -> bool {
    let letters = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    id.len() <= MAX_NAME_LENGTH && id.split('-').all(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_slugs() {
        for id in ["a", "edge-map", "yolo-v8", "3d"] {
            assert!(is_slug(id), "{id}");
        }
        for id in ["", "-a", "a-", "a--b", "Edge", "a_b", "a/b", "ä", "a b", &"a".repeat(101)] {
            assert!(!is_slug(id), "{id}");
        }
    }

    #[test]
    fn a_name_that_a_terminal_would_obey_is_refused() {
        let refused = check_texts(Some("\u{1b}[31mred"), None);
        assert_eq!(refused, Err("the name of a model has no control characters".to_owned()));
        assert_eq!(check_texts(Some("Rot \u{e9}"), None), Ok(()));
    }

    #[test]
    fn formats_that_inputs_cannot_be_held_against_are_refused() {
        let output = r#"{"output": {"type": "string", "position": 0}}"#;
        for (inputs, complaint) in [
            (
                "{\n\"a\": {\"type\": \"picture\", \"position\": 0}}",
                "the input format: a.type: unknown variant `picture`",
            ),
            (r#"{"a": {"type": "int"}}"#, "the input format: a: missing field `position`"),
            (r#"{"a b": {"type": "int", "position": 0}}"#, "no name"),
            (r#"{"a": {"type": "options", "position": 0}}"#, "without words"),
            (r#"{"a": {"type": "int", "position": 0, "mime_type": ["a/b"]}}"#, "no file"),
            (r#"{"a": {"type": "file", "position": 0, "mime_type": ["png"]}}"#, "no pattern"),
            (r#"{"a": {"type": "int", "position": 0, "num_config": {"min": 5, "max": 1}}}"#, "min not above"),
            (r#"{"a": {"type": "int", "position": 0, "num_config": {"step": 0}}}"#, "step above"),
            (r#"{"a": {"type": "int", "position": 0, "samples": ["x"]}}"#, "a sample is refused"),
            (
                r#"{"a": {"type": "int", "position": 0, "samples": ["6", 4]}}"#,
                "not a string; write 4 as \"4\"",
            ),
            (
                r#"{"a": {"type": "int", "position": 0, "samples": [null]}}"#,
                "\"a\" has a sample that is not a string",
            ),
            (
                r#"{"a": {"type": "int", "position": 0, "samples": ["9"], "num_config": {"max": 3}}}"#,
                "at most 3",
            ),
            (r#"{"a": {"type": "int", "position": 0, "title": "a\nb"}}"#, "title that is none"),
            (r#"{"a": {"type": "int", "position": 0, "description": "\u001b[2J"}}"#, "control characters"),
            (
                r#"{"a": {"type": "int", "position": 0, "default": 4}}"#,
                "a default that is not a string; write 4 as",
            ),
            (
                r#"{"a": {"type": "int", "position": 0, "default": "x"}}"#,
                "the default of a is refused: it must be",
            ),
            (r#"{"a": {"type": "file", "position": 0, "default": "https://a.example/b"}}"#, "give a sample"),
            (r#"{"a": {"type": "int", "position": 0, "labels": {"a": "b"}}}"#, "is no option"),
            (
                r#"{"a": {"type": "options", "position": 0, "samples": ["a"], "labels": {"b": "B"}}}"#,
                "not among its samples",
            ),
            (r#"{"a": {"type": "int", "position": 0, "max_pixels": 5}}"#, "is no file"),
            (r#"{"a": {"type": "file", "position": 0, "max_pixels": 0}}"#, "which no picture has"),
            (r#"{"a": {"type": "file", "position": 0, "max_size": 5}}"#, "unknown field `max_size`"),
        ] {
            let refused = checked_formats(inputs, output).map(|_| ());
            assert!(refused.as_ref().is_err_and(|why| why.contains(complaint)), "{inputs}: {refused:?}");
            assert!(refused.as_ref().is_err_and(|why| !why.contains(" line ")), "{inputs}: {refused:?}");
        }
        assert!(checked_formats("{}", "{}").is_err(), "a model without outputs");
        let words = r#"{"a": {"type": "options", "position": 0, "samples": ["x", "y"], "title": "A",
            "description": "One\nof two.", "default": "y", "labels": {"x": "X"}}}"#;
        assert!(checked_formats(words, output).is_ok());
        let later = r#"{"a": {"type": "string", "position": 0, "max_length": 5}}"#;
        assert!(Format::kept(later).is_ok(), "a process of a later version has published it");
        assert!(checked_formats("{}", output).is_ok());
    }
}
