//! The walk that holds the document to the table of keywords.

use std::fmt;

use serde_json::{Map, Value};

use super::keywords::{Kind, Shape, is_ours};
use super::{Check, did_you_mean, reference_to};
use crate::document::Place;

use Kind::{Anything, Component, Count, List, Named, Number, Object, Text, Truth, TruthOr};

/// A message shows a text up to this length.
const SHOWN_TEXT: usize = 60;

impl<'a> Check<'a> {
    /// Holds the value to its kind, and everything in it.
    pub(super) fn shape(&mut self, value: &'a Value, kind: &'static Kind, place: Place) {
        match (kind, value) {
            (Anything, _)
            | (Text, Value::String(_))
            | (Truth | TruthOr(_), Value::Bool(_))
            | (Number, Value::Number(_)) => {}
            (Count, Value::Number(number)) if number.is_u64() => {}
            (List(kind), Value::Array(list)) => {
                for (index, item) in list.iter().enumerate() {
                    self.shape(item, kind, place.at(index));
                }
            }
            (Named(kind), Value::Object(map)) => {
                for (name, child) in map {
                    self.shape(child, kind, place.at(name));
                }
            }
            (Object(shape), Value::Object(map)) => self.keywords(map, shape, &place),
            (Component(section, shape), Value::Object(map)) => match map.get("$ref") {
                Some(reference) => self.reference(map, reference, section, &place),
                None => {
                    self.keywords(map, shape, &place);
                    self.found.push((section, value, place));
                }
            },
            (TruthOr(kind), Value::Object(_)) => self.shape(value, kind, place),
            (Text, Value::Number(_) | Value::Bool(_)) => {
                self.wrong(place, format!("must be a text, not {}; put it in quotes", told(value)));
            }
            _ => self.wrong(place, format!("must be {kind}, not {}", told(value))),
        }
    }

    fn keywords(&mut self, map: &'a Map<String, Value>, shape: &'static Shape, place: &Place) {
        let missing: Vec<&str> =
            shape.required.iter().copied().filter(|keyword| is_blank(map.get(*keyword))).collect();
        if !missing.is_empty() {
            let list: Vec<String> = missing.iter().map(|keyword| format!("no `{keyword}`")).collect();
            self.wrong(place.clone(), format!("the {} has {}", shape.name, list.join(" and ")));
        }
        for (keyword, child) in map {
            match shape.keywords.iter().find(|(known, _)| known == keyword) {
                _ if missing.contains(&keyword.as_str()) => {}
                Some((_, kind)) => self.shape(child, kind, place.at(keyword)),
                None => self.unknown_keyword(keyword, shape, place.at(keyword)),
            }
        }
    }

    /// Extensions of other tools are welcome, as long as they do not look like one of ours, misspelt or
    /// misplaced: `x-secret` with a letter missing would put a secret into a log.
    fn unknown_keyword(&mut self, keyword: &str, shape: &Shape, place: Place) {
        let hint = did_you_mean(keyword, shape.keywords.iter().map(|(known, _)| *known));
        if !hint.is_empty() {
            self.wrong(place, format!("the {} cannot have `{keyword}`{hint}", shape.name));
        } else if is_ours(keyword) || !keyword.starts_with("x-") {
            let message = format!(
                "the {} cannot have `{keyword}`; xtask/src/validate/keywords.rs lists what it can",
                shape.name
            );
            self.wrong(place, message);
        }
    }

    fn reference(
        &mut self,
        map: &'a Map<String, Value>,
        reference: &'a Value,
        section: &'static str,
        place: &Place,
    ) {
        if let Some(beside) = map.keys().find(|key| *key != "$ref") {
            self.wrong(
                place.at(beside),
                format!("`{beside}` does not count beside a $ref; it belongs to what that leads to"),
            );
        }
        let place = place.at("$ref");
        let folder = reference_to(section, "");
        match reference.as_str().filter(|reference| reference.starts_with(&folder)) {
            Some(reference) => self.references.push((section, reference, place)),
            None => self
                .wrong(place, format!("must be a text that begins with {folder}, not {}", told(reference))),
        }
    }
}

/// How messages call it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Anything => "anything",
            Text => "a text",
            Truth => "true or false",
            Number => "a number",
            Count => "a whole number from 0 on",
            List(_) => "a list",
            Named(_) | Object(_) | Component(..) => "a mapping",
            TruthOr(_) => "true, false or a mapping",
        })
    }
}

fn told(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.chars().count() > SHOWN_TEXT => "a long text".to_owned(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}

/// What has been left empty is still missing.
fn is_blank(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(_) => false,
    }
}
