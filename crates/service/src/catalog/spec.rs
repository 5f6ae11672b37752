//! Models to be published: their form, and the checks of names, formats and samples.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::check::{check_input, json_number};
use super::format::{Descriptor, Format, Kind, NumConfig};
use super::{NewModel, NewVersion, short_hash};
use crate::accounts::{Account, OPERATOR};
use crate::clock::Moment;
use crate::ledger::Money;
use crate::{Error, Result};

/// How many parameters a model may have on either side.
const MAX_PARAMETERS: usize = 100;
/// `/model/list` is how the catalog is searched.
const RESERVED: &str = "list";
/// How long an identifier or the name of a parameter may be.
const MAX_NAME_LENGTH: usize = 100;
/// How long a description may be.
const MAX_DESCRIPTION_LENGTH: usize = 10_000;

/// Who sees a model and may run it.
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
    /// What the model is called in addresses: lower-case letters, digits and single hyphens.
    pub id: String,
    /// Its technical name.
    pub name: String,
    /// What it does, for people.
    pub description: String,
    /// What one inference costs; in JSON a string, so that it is exact.
    pub price: Money,
    /// Who sees it.
    pub visibility: Visibility,
    /// Whether the filter `playground` finds it.
    #[serde(default)]
    pub is_playground: bool,
    /// How many likes it has, for the sort `likes`; the API has no call that changes them.
    #[serde(default)]
    pub likes: u32,
    /// How often it was downloaded, for the sort `downloads`; the API has no call that changes it.
    #[serde(default)]
    pub downloads: u32,
    /// Further facts.
    #[serde(default)]
    pub metadata: Metadata,
    /// What goes in: a JSON object from parameter name to descriptor.
    pub input_format: Box<RawValue>,
    /// What comes out, in the same way.
    pub output_format: Box<RawValue>,
}

/// Facts about a model, for people and catalogs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metadata {
    /// Its name as people write it.
    pub pretty_name: String,
    /// The kind of work, such as `image-to-image`.
    pub task: String,
    /// The licence of the model.
    pub license: String,
    /// What it is built on.
    pub library: Vec<String>,
    /// Which languages it knows.
    pub language: Vec<String>,
}

/// `model_metadata` as the API writes it.
#[derive(Serialize)]
struct FullMetadata<'a> {
    id: String,
    model_id: &'a str,
    #[serde(flatten)]
    metadata: &'a Metadata,
}

impl ModelSpec {
    /// Reads a model from JSON; the price is a string.
    ///
    /// # Errors
    /// When it is no JSON, a field is missing, or one is unknown: it says which and where.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|cause| Error::new("reading a model to be published", cause))
    }

    /// The model that an account publishes, if it can be. It is official when the operator publishes it.
    pub(crate) fn to_model(&self, owner: &Account, now: Moment) -> Result<NewModel> {
        let doing = || format!("publishing the model {:?}", self.id);
        let (inputs, outputs) = self.checked().map_err(|why| Error::new(doing(), why))?;
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
            metadata: to_raw_value(&metadata).map_err(|cause| Error::new(doing(), cause))?,
            likes: self.likes.into(),
            downloads: self.downloads.into(),
            created_at: now,
            updated_at: now,
            version: NewVersion::new(&inputs, &outputs)?,
        })
    }

    /// The formats, if everything about the model can be published.
    pub(crate) fn checked(&self) -> Result<(Format, Format), String> {
        if !is_slug(&self.id) {
            return Err(format!(
                "{:?} is no identifier of a model: it has lower-case letters, digits and single hyphens, \
                 such as edge-map",
                self.id
            ));
        }
        if self.id == RESERVED {
            return Err(format!("{RESERVED:?} is a path of its own; take another identifier"));
        }
        if self.name.trim().is_empty() || self.name.len() > MAX_NAME_LENGTH {
            return Err(format!("a model needs a name of at most {MAX_NAME_LENGTH} bytes"));
        }
        if self.description.len() > MAX_DESCRIPTION_LENGTH {
            return Err(format!("a description has at most {MAX_DESCRIPTION_LENGTH} bytes"));
        }
        if self.price < Money::ZERO {
            return Err("a price is not below zero".to_owned());
        }
        checked_formats(self.input_format.get(), self.output_format.get())
    }
}

/// The formats of a version, if they can be published: every descriptor says something that inputs can be
/// held against, and the model's own samples pass.
pub(crate) fn checked_formats(inputs: &str, outputs: &str) -> Result<(Format, Format), String> {
    let read = |which: &str, text: &str| -> Result<Format, String> {
        let format = read_format(text).map_err(|why| format!("the {which}: {why}"))?;
        if format.parameters().count() > MAX_PARAMETERS {
            return Err(format!("the {which}: more than {MAX_PARAMETERS} parameters"));
        }
        for (name, descriptor) in format.parameters() {
            check_descriptor(name, descriptor).map_err(|why| format!("the {which}: {name:?} {why}"))?;
            if let Some(sample) = descriptor.samples.iter().find(|sample| sample.text().is_none()) {
                let raw = sample.raw();
                let is_number = json_number(raw).is_some();
                let hint = if is_number { format!("; write {raw} as \"{raw}\"") } else { String::new() };
                return Err(format!("the {which}: {name:?} has a sample that is not a string{hint}"));
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

/// Reads a format, or says at which parameter it is wrong. The position that the parser adds is left out: it counts
/// from where the format begins, which is somewhere within a file.
fn read_format(text: &str) -> Result<Format, String> {
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
        return Err("is no name of a parameter: it has letters, digits, _ and -");
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

fn is_range(range: &NumConfig) -> bool {
    // Absent is fine; present and unreadable is not.
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

/// Whether the samples of every input pass as what they are samples of.
fn check_samples(inputs: &Format) -> Result<(), String> {
    for (name, descriptor) in inputs.parameters() {
        for sample in &descriptor.samples {
            check_input(descriptor, sample.raw())
                .map_err(|why| format!("the input format: a sample is refused: {name} {why}"))?;
        }
    }
    Ok(())
}

/// Lower-case letters, digits and single hyphens, with no hyphen at an end.
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
        ] {
            let refused = checked_formats(inputs, output).map(|_| ());
            assert!(refused.as_ref().is_err_and(|why| why.contains(complaint)), "{inputs}: {refused:?}");
            // A line would be one of the format, and not of the file that it is in.
            assert!(refused.as_ref().is_err_and(|why| !why.contains(" line ")), "{inputs}: {refused:?}");
        }
        assert!(checked_formats("{}", "{}").is_err(), "a model without outputs");
        assert!(checked_formats("{}", output).is_ok());
    }
}
