//! The shape of the document: OpenAPI's own JSON Schema with a patch, and the meaning of its errors to an author.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind as Kind};
use jsonschema::paths::Location;
use openapi_impact::snake_case;
use serde_json::{Map, Value};

use super::{Check, did_you_mean, members, texts};
use crate::document::{Pointer, one_line};

const SCHEMA: &str = include_str!("openapi/schema-3.0.yaml");
const RESTRICTIONS: &str = include_str!("openapi/restrictions.yaml");

/// Pattern of properties with which the schema permits the extensions of other tools.
const EXTENSIONS: &str = "^x-";

const COMMENT: &str = "is empty: `#` begins a comment in YAML, so put the reference in quotes";

const SHOWN_TEXT: usize = 60;

const REFERENCE: &str = "/definitions/Reference/";

pub(super) fn schema() -> Result<Value> {
    let mut schema: Value = serde_saphyr::from_str(SCHEMA).context("the schema of OpenAPI is not YAML")?;
    merge(&mut schema, serde_saphyr::from_str(RESTRICTIONS).context("restrictions.yaml is not YAML")?);
    without_extensions(&mut schema);
    Ok(schema)
}

/// A merge patch as in RFC 7396.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else { return *target = patch };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().and_then(|map| map.remove(&key));
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// Makes every extension an error, so that `unknown_keyword` can tell foreign ones from misspelt ones of ours.
fn without_extensions(schema: &mut Value) {
    if let Some(patterns) = schema.get_mut("patternProperties").and_then(Value::as_object_mut) {
        patterns.remove(EXTENSIONS);
    }
    match schema {
        Value::Object(map) => map.values_mut().for_each(without_extensions),
        Value::Array(items) => items.iter_mut().for_each(without_extensions),
        _ => {}
    }
}

impl Check<'_> {
    pub(super) fn shape(&mut self, schema: &Value) -> Result<()> {
        let validator = jsonschema::validator_for(schema).map_err(|error| error.to_owned());
        let validator = validator.context("restrictions.yaml makes no JSON Schema")?;
        let mut shape = Shape { schema, missing: BTreeMap::new(), mistakes: Vec::new() };
        for error in validator.iter_errors(self.root) {
            shape.explain(&error);
        }
        for (pointer, (name, missing)) in shape.missing {
            let list: Vec<String> = missing.iter().map(|keyword| format!("no `{keyword}`")).collect();
            shape.mistakes.push((pointer, format!("the {name} has {}", list.join(" and "))));
        }
        for (pointer, message) in shape.mistakes {
            self.wrong(pointer, message);
        }
        Ok(())
    }
}

struct Shape<'a> {
    schema: &'a Value,
    /// Name of the value at each place, and the keywords that the value lacks.
    missing: BTreeMap<Pointer, (String, Vec<String>)>,
    mistakes: Vec<(Pointer, String)>,
}

impl Shape<'_> {
    fn explain(&mut self, error: &ValidationError<'_>) {
        let pointer = pointer(error.instance_path());
        let instance = error.instance();
        let message = match error.kind() {
            // References are checked on their own, but one that YAML took for a comment.
            Kind::OneOfNotValid { .. } if instance.get("$ref").is_some_and(Value::is_null) => {
                return self.mistakes.push((pointer.at("$ref"), COMMENT.to_owned()));
            }
            Kind::OneOfNotValid { .. } if instance.get("$ref").is_some() => return,
            Kind::OneOfNotValid { context } => return self.explain_choice(pointer, instance, context),
            Kind::Required { property } => {
                let (_, missing) = self.missing.entry(pointer).or_insert_with(|| (name(error), Vec::new()));
                return missing.extend(property.as_str().map(str::to_owned));
            }
            Kind::AdditionalProperties { unexpected } => {
                for keyword in unexpected {
                    self.unknown_keyword(keyword, error, pointer.at(keyword));
                }
                return;
            }
            Kind::Type { .. } => wrong_type(&type_name(error), instance),
            Kind::Enum { options } => {
                // Another type is an error of its own.
                let Some(word) = instance.as_str() else { return };
                let list = texts(options).collect::<Vec<_>>().join(", ");
                format!("must be one of {list}, not {word}{}", did_you_mean(word, texts(options)))
            }
            Kind::Minimum { limit } => format!("must be at least {limit}, not {instance}"),
            Kind::MinItems { .. } | Kind::MinProperties { .. } | Kind::Pattern { .. } => {
                "must not be empty".to_owned()
            }
            _ => one_line(&error.to_string()),
        };
        self.mistakes.push((pointer, message));
    }

    /// Explains the branch that fits best. The branch of a reference is none when there is no reference.
    fn explain_choice(&mut self, pointer: Pointer, instance: &Value, context: &[Vec<ValidationError<'_>>]) {
        let is_reference = |branch: &[ValidationError<'_>]| {
            branch.iter().any(|error| error.schema_path().as_str().starts_with(REFERENCE))
        };
        let branches: Vec<_> = context.iter().filter(|branch| !is_reference(branch)).collect();
        let types = branches.iter().map(|branch| match &branch[..] {
            [error] if matches!(error.kind(), Kind::Type { .. }) => {
                Some(type_name(error)).filter(|_| pointer == self::pointer(error.instance_path()))
            }
            _ => None,
        });
        if let Some(types) = types.collect::<Option<Vec<String>>>() {
            return self.mistakes.push((pointer, wrong_type(&types.join(" or "), instance)));
        }
        for error in branches.into_iter().min_by_key(|branch| branch.len()).into_iter().flatten() {
            self.explain(error);
        }
    }

    /// Extensions of other tools are welcome, as long as they do not look like one of ours, misspelt or
    /// misplaced: `x-secret` with a letter missing would put a secret into a log.
    fn unknown_keyword(&mut self, keyword: &str, error: &ValidationError<'_>, pointer: Pointer) {
        let parent = error.schema_path().as_str().rsplit_once('/').map_or("", |(parent, _)| parent);
        let known = self.schema.pointer(parent).map_or(&Value::Null, |schema| &schema["properties"]);
        let hint = did_you_mean(keyword, members(known).map(|(known, _)| known));
        let is_ours = || {
            let mut definitions = members(&self.schema["definitions"]);
            definitions.any(|(_, definition)| definition["properties"].get(keyword).is_some())
        };
        if hint.is_empty() && keyword.starts_with("x-") && !is_ours() {
            return;
        }
        let known: Vec<&str> = members(known).map(|(known, _)| known).collect();
        let hint = misplaced_property(error.instance(), &pointer).filter(|_| hint.is_empty()).unwrap_or(hint);
        let hint = match &known[..] {
            [] => "; it has codes such as 404, and ranges such as 4XX".to_owned(),
            known if hint.is_empty() => format!("; it can have {}", known.join(", ")),
            _ => hint,
        };
        self.mistakes.push((pointer, format!("the {} cannot have `{keyword}`{hint}", name(error))));
    }
}

/// Returns the end of a message, if the unknown keyword looks like a property that stands a level too far out or in.
fn misplaced_property(schema: &Value, pointer: &Pointer) -> Option<String> {
    let (name, parents) = pointer.keys().split_last()?;
    let value = &schema[name.as_str()];
    let is_schema =
        ["type", "$ref", "allOf", "properties"].iter().any(|keyword| value.get(keyword).is_some());
    if !is_schema || snake_case(name) != *name {
        return None;
    }
    let beside = match parents {
        [.., properties, beside] if properties == "properties" => beside,
        _ if schema["properties"].is_object() => {
            return Some("; if it is a property, indent it so that it stands below `properties`".to_owned());
        }
        _ => return None,
    };
    Some(format!("; if it is a property, indent it as {beside} is, beside which it belongs"))
}

fn pointer(location: &Location) -> Pointer {
    location.segments().fold(Pointer::root(), |pointer, segment| pointer.at(segment))
}

/// Returns the name of the thing that the schema describes: `media type` for `MediaType`.
fn name(error: &ValidationError<'_>) -> String {
    let segments: Vec<String> = error.schema_path().segments().map(|segment| segment.to_string()).collect();
    let definition = segments.len().checked_sub(2).and_then(|at| segments.get(at));
    match definition {
        None => "document".to_owned(),
        Some(extension) if extension.starts_with("x-") => extension.clone(),
        Some(name) => snake_case(name).replace('_', " "),
    }
}

fn type_name(error: &ValidationError<'_>) -> String {
    let Kind::Type { kind: TypeKind::Single(kind) } = error.kind() else {
        return "of another type".to_owned();
    };
    match kind.to_string().as_str() {
        "string" => "a text",
        "boolean" => "true or false",
        "number" => "a number",
        "integer" => "a whole number",
        "array" => "a list",
        "object" => "a mapping",
        _ => "nothing",
    }
    .to_owned()
}

fn wrong_type(expected: &str, instance: &Value) -> String {
    let quotes = expected == "a text" && (instance.is_number() || instance.is_boolean());
    let hint = if quotes { "; put it in quotes" } else { "" };
    format!("must be {expected}, not {}{hint}", describe_value(instance))
}

pub(super) fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.chars().count() > SHOWN_TEXT => "a long text".to_owned(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}
