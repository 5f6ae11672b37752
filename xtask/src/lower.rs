//! Lowers the document to the one that progenitor reads. What is removed here stays in the published
//! document:
//!
//! - failure responses, so that every failure arrives whole, with its status and body, whatever its
//!   shape; and the `200` beside `2XX`, since progenitor reads one success response;
//! - the envelopes around payloads become one generic type of `crates/api`;
//! - vocabularies become types written by [`crate::words`], because progenitor's own enums refuse an
//!   unknown word, and with it the whole response;
//! - named texts become opaque identifiers;
//! - amounts, timestamps, samples and secrets become the types of `crates/api` that keep them;
//! - descriptions lose what only the document has, such as its tags;
//! - `additionalProperties: true` beside `properties` means the same as nothing to progenitor. Where the
//!   description announces further fields, a schema instead of it makes a field `extra` for them.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use serde_json::{Map, Value, json};

use crate::descriptions;
use crate::validate::operations;
use crate::words::{OPEN, Words};

const SCHEMAS: &str = "#/components/schemas/";

pub(crate) struct Lowered {
    pub(crate) document: Value,
    pub(crate) words: Vec<Words>,
    pub(crate) ids: Vec<Id>,
    pub(crate) envelopes: Vec<Envelope>,
    /// Properties that are numbers in Rust and strings on the wire: schema and property.
    pub(crate) numbers_as_strings: BTreeSet<(String, String)>,
    pub(crate) advisory: BTreeSet<(String, String)>,
    /// Input schema, name of the kind, output schema.
    pub(crate) kinds: Vec<Kind>,
}

/// A named text of which nothing more is known, or which is visible ASCII of a limited length.
pub(crate) struct Id {
    pub(crate) name: String,
    pub(crate) description: String,
    max_length: Option<usize>,
}

/// Keywords of a named text that say nothing about its values.
const TEXTS: [&str; 6] = ["type", "title", "description", "example", "externalDocs", "deprecated"];

/// Extensions that make a text something else than an identifier.
const MARKS: [&str; 5] = [OPEN, "x-number", "x-decimal", "x-secret", "x-keep-shape"];

/// The largest length of a text of visible ASCII, which `crates/api` checks without regular expressions.
pub(crate) fn max_of_visible_ascii(schema: &Value) -> Option<u64> {
    let is_visible_ascii = schema["minLength"] == 1 && schema["pattern"] == "^[!-~]+$";
    schema["maxLength"].as_u64().filter(|_| is_visible_ascii)
}

impl Id {
    fn read(name: &str, schema: &Value) -> Option<Self> {
        let max_length = max_of_visible_ascii(schema);
        let limits: &[&str] = max_length.map_or(&[], |_| &["minLength", "maxLength", "pattern"]);
        let is_plain = |keyword: &str| {
            TEXTS.contains(&keyword)
                || limits.contains(&keyword)
                || keyword.starts_with("x-") && !MARKS.contains(&keyword)
        };
        let is_text =
            schema["type"] == "string" && schema.as_object()?.keys().all(|keyword| is_plain(keyword));
        let description = schema["description"].as_str().unwrap_or_default().to_owned();
        let max_length = max_length.and_then(|max| usize::try_from(max).ok());
        is_text.then(|| Self { name: name.to_owned(), description, max_length })
    }

    pub(crate) fn path(&self) -> String {
        format!("crate::types::{}", self.name)
    }

    pub(crate) fn items(&self) -> TokenStream {
        let name = format_ident!("{}", self.name);
        let description = &self.description;
        let behaviour = match self.max_length {
            Some(max) => quote!(visible_ascii!(#name, #max)),
            None => quote!(opaque_id!(#name)),
        };
        quote! {
            #[doc = #description]
            #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct #name(String);
            crate::ids::#behaviour;
        }
    }
}

pub(crate) struct Envelope {
    pub(crate) name: String,
    payload: Option<String>,
}

impl Envelope {
    fn read(name: &str, schema: &Value) -> Option<Self> {
        let properties = schema["properties"].as_object()?;
        let is_status = properties.get("status")? == &json!({"$ref": format!("{SCHEMAS}EnvelopeStatus")});
        let is_text = properties.get("message")?["nullable"] == true;
        let payload = match properties.get("data") {
            Some(data) => Some(data["$ref"].as_str()?.strip_prefix(SCHEMAS)?.to_owned()),
            None => None,
        };
        let fields = if payload.is_some() { 3 } else { 2 };
        (is_status && is_text && properties.len() == fields).then(|| Self { name: name.to_owned(), payload })
    }

    pub(crate) fn path(&self) -> String {
        let payload = self.payload.as_ref().map(|payload| format!("crate::types::{payload}"));
        format!("crate::Envelope<{}>", payload.as_deref().unwrap_or("crate::NoData"))
    }
}

pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) files: BTreeSet<String>,
}

/// A type of `crates/api` that stands in for every schema of one form.
pub(crate) struct StandIn {
    pub(crate) format: &'static str,
    pub(crate) path: &'static str,
}

pub(crate) const STAND_INS: [StandIn; 4] = [
    StandIn { format: "decimal", path: "crate::Decimal" },
    StandIn { format: "date-time", path: "crate::Timestamp" },
    StandIn { format: "sample", path: "crate::Sample" },
    StandIn { format: "secret", path: "crate::Secret" },
];

pub(crate) fn lower(document: &Value) -> Lowered {
    let mut document = document.clone();
    descriptions::rewrite(&mut document);
    let mut lowered = document.clone();
    keep_one_success(&mut lowered);
    mark_stand_ins(&mut lowered);
    inline_stand_ins(&mut lowered);
    let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
    let kinds = schemas.clone().filter_map(|(input, schema)| {
        let kind = &schema["x-model-kind"];
        let properties = schema["properties"].as_object().into_iter().flatten();
        let files = properties.filter(|(_, property)| property["format"] == "uri");
        Some(Kind {
            files: files.map(|(name, _)| name.clone()).collect(),
            name: kind["name"].as_str()?.to_owned(),
            input: input.clone(),
            output: kind["output"].as_str()?.to_owned(),
        })
    });
    let marked = |mark: &'static str| {
        schemas.clone().flat_map(move |(name, schema)| {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let marked = properties.filter(move |(_, property)| property.get(mark).is_some());
            marked.map(move |(property, _)| (name.clone(), property.clone()))
        })
    };
    Lowered {
        numbers_as_strings: marked("x-number").collect(),
        advisory: marked("x-advisory").collect(),
        kinds: kinds.collect(),
        ids: schemas.clone().filter_map(|(name, schema)| Id::read(name, schema)).collect(),
        envelopes: schemas.clone().filter_map(|(name, schema)| Envelope::read(name, schema)).collect(),
        words: schemas.filter_map(|(name, schema)| Words::read(name, schema)).collect(),
        document: lowered,
    }
}

fn keep_one_success(document: &mut Value) {
    let places: Vec<_> =
        operations(document).map(|(path, method, ..)| (path.to_owned(), method.to_owned())).collect();
    for (path, method) in places {
        if let Some(responses) = document["paths"][path][method]["responses"].as_object_mut() {
            let has_range = responses.contains_key("2XX");
            responses.retain(|code, _| code.starts_with('2') && (code == "2XX" || !has_range));
        }
    }
}

/// Gives every schema that has a stand-in the one form by which the generator recognizes it.
fn mark_stand_ins(value: &mut Value) {
    match value {
        Value::Object(map) => match stand_in_format(map) {
            Some(format) => {
                let description = map.remove("description");
                *value = json!({"type": "string", "format": format});
                if let (Some(description), Value::Object(map)) = (description, value) {
                    map.insert("description".to_owned(), description);
                }
            }
            None => {
                number_as_string(map);
                plain_integer(map);
                keep_further_fields(map);
                optional_lists(map);
                if map.contains_key(OPEN) {
                    // A field of the type is an `Option` already.
                    map.remove("nullable");
                }
                map.values_mut().for_each(mark_stand_ins);
            }
        },
        Value::Array(list) => list.iter_mut().for_each(mark_stand_ins),
        _ => {}
    }
}

/// A number that travels as a string is a number in Rust; [`crate::polish`] has it written as a string.
fn number_as_string(schema: &mut Map<String, Value>) {
    let Some(Value::Object(number)) = schema.remove("x-number") else { return };
    schema.remove("pattern");
    let is_integer = number.get("type").is_some_and(|kind| kind == "integer");
    schema.insert("format".to_owned(), json!(if is_integer { "int32" } else { "double" }));
    schema.extend(number);
}

/// An optional list becomes an `Option`: a `Vec` cannot tell none from empty, and a constructor would ask for it.
fn optional_lists(schema: &mut Map<String, Value>) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &String| required.as_array().is_some_and(|all| all.iter().any(|it| it == name));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, property) in properties.filter(|(name, _)| !is_required(name)) {
        if property["type"] == "array" {
            property["nullable"] = json!(true);
        }
    }
}

const FURTHER_FIELDS: &str = "Further fields may be present.";

fn keep_further_fields(schema: &mut Map<String, Value>) {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    if description.ends_with(FURTHER_FIELDS) && schema.get("additionalProperties") == Some(&Value::Bool(true))
    {
        schema.insert("additionalProperties".to_owned(), json!({}));
    }
}

/// A lower bound makes an integer unsigned. progenitor would turn a bound of 1 into a `NonZero` type,
/// which is a nuisance to write and still does not know the upper bound.
fn plain_integer(schema: &mut Map<String, Value>) {
    let unsigned = schema.get("minimum").and_then(Value::as_i64).is_some_and(|minimum| minimum >= 0);
    let wide = schema.get("format").is_some_and(|format| format == "int64");
    if unsigned && schema.get("type").is_some_and(|kind| kind == "integer") {
        schema.remove("minimum");
        schema.remove("maximum");
        schema.insert("format".to_owned(), json!(if wide { "uint64" } else { "uint32" }));
    }
}

fn stand_in_format(schema: &Map<String, Value>) -> Option<&'static str> {
    let is = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    if is("x-secret") {
        return Some("secret");
    }
    if is("x-keep-shape") {
        return Some("sample");
    }
    if is("x-decimal") {
        return Some("decimal");
    }
    let format = schema.get("format")?.as_str()?;
    STAND_INS.iter().map(|stand_in| stand_in.format).find(|known| *known == format)
}

/// A named schema becomes a type of that name; a mere stand-in needs none, so what refers to it gets a copy.
fn inline_stand_ins(document: &mut Value) {
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    let stand_ins: Vec<(String, Value)> = schemas
        .iter()
        .filter(|(_, schema)| schema.as_object().and_then(stand_in_format).is_some())
        .map(|(name, schema)| (format!("{SCHEMAS}{name}"), schema.clone()))
        .collect();
    schemas
        .retain(|name, _| !stand_ins.iter().any(|(reference, _)| reference.ends_with(&format!("/{name}"))));
    replace_references(document, &stand_ins);
}

fn replace_references(value: &mut Value, targets: &[(String, Value)]) {
    let target = value["$ref"].as_str().and_then(|found| targets.iter().find(|(name, _)| name == found));
    match (target, &mut *value) {
        (Some((_, schema)), _) => *value = schema.clone(),
        (None, Value::Object(map)) => map.values_mut().for_each(|child| replace_references(child, targets)),
        (None, Value::Array(list)) => list.iter_mut().for_each(|child| replace_references(child, targets)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Id;

    #[test]
    fn texts_about_an_identifier_change_no_type() {
        for (keyword, is_id) in [
            ("title", true),
            ("externalDocs", true),
            ("x-other-tool", true),
            ("x-secret", false),
            ("format", false),
        ] {
            assert_eq!(
                Id::read("TaskId", &json!({"type": "string", keyword: {}})).is_some(),
                is_id,
                "{keyword}"
            );
        }
    }
}
