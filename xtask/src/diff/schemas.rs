//! Schemas, in the direction in which their values travel.

use super::node::{Node, side_by_side};
use super::{Comparison, Direction};

use Direction::{Answer, Request};

/// What the other files of this folder compare, and what means nothing to a call.
const COMPARED: [&str; 37] = [
    "title",
    "description",
    "type",
    "format",
    "nullable",
    "enum",
    "default",
    "example",
    "examples",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "items",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
    "required",
    "additionalProperties",
    "minProperties",
    "maxProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "readOnly",
    "writeOnly",
    "deprecated",
    "externalDocs",
    "$ref",
    "x-open-enum",
    "x-enum-varnames",
    "x-model-kind",
];

impl Comparison {
    pub(super) fn schema(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        self.schema_names(old, new);
        let (old, new) = (&old.resolved(), &new.resolved());
        if !self.is_new(old, new, direction) {
            return;
        }
        self.words(old, new, &["description", "example", "examples", "externalDocs"]);
        self.extensions(old, new, &["x-open-enum", "x-enum-varnames", "x-model-kind"]);
        self.deprecation(old, new);
        self.model_kind(old, new);
        if !self.types(old, new, direction) {
            // They have nothing in common: what else differs only follows.
            return;
        }
        self.formats(old, new, direction);
        self.null(old, new, direction);
        self.enumerations(old, new, direction);
        self.defaults(old, new, direction);
        self.limits(old, new, direction);
        self.properties(old, new, direction);
        self.further_properties(old, new, direction);
        self.access(old, new, direction);
        if old.has("items") || new.has("items") {
            self.schema(&old.at("items"), &new.at("items"), direction);
        }
        self.parts(old, new, direction);
        for (keyword, was, is) in side_by_side(old, new) {
            let unknown = !COMPARED.contains(&keyword) && !keyword.starts_with("x-");
            if unknown && was.map(|was| was.value) != is.map(|is| is.value) {
                let message = format!("`{keyword}` differs: nothing here knows whom that breaks");
                self.breaks(&new.place.at(keyword), message);
            }
        }
    }

    fn properties(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let (old_required, new_required) = (old.texts("required"), new.texts("required"));
        for (name, was, is) in side_by_side(&old.at("properties"), &new.at("properties")) {
            let required = new_required.contains(name);
            match (was, is) {
                (Some(was), Some(is)) => {
                    self.required_property(&is, old_required.contains(name), required, direction);
                    self.schema(&was, &is, direction);
                }
                (Some(was), None) if direction == Request => {
                    let message =
                        format!("the property {name} is gone from the request: whoever sends it breaks");
                    self.breaks(&was.place, message);
                }
                (Some(was), None) => {
                    let message =
                        format!("the property {name} is gone from the answer: whoever reads it breaks");
                    self.breaks(&was.place, message);
                }
                (None, Some(is)) if direction == Request && required => {
                    let message =
                        format!("the property {name} is new and required: whoever does not send it breaks");
                    self.breaks(&is.place, message);
                }
                (None, Some(is)) => {
                    self.allows(&is.place, format!("the property {name} is new; nobody breaks"));
                }
                (None, None) => {}
            }
        }
        // What is required without being described.
        let described = |name: &&&str| old.at("properties").has(name) || new.at("properties").has(name);
        let names = old_required.symmetric_difference(&new_required);
        for name in names.filter(|name| !described(name)) {
            let (was, is) = (old_required.contains(name), new_required.contains(name));
            self.required_property(&new.at("required"), was, is, direction);
        }
    }

    fn required_property(&mut self, property: &Node<'_>, was: bool, is: bool, direction: Direction) {
        let place = &property.place;
        match (was, is, direction) {
            (false, true, Request) => {
                self.breaks(place, "the property is required now: whoever does not send it breaks");
            }
            (true, false, Answer) => {
                self.breaks(place, "the property may be absent now: whoever relies on it breaks");
            }
            (true, false, Request) => self.allows(place, "the property is optional now; nobody breaks"),
            (false, true, Answer) => self.allows(place, "the property is always there now; nobody breaks"),
            _ => {}
        }
    }

    /// `additionalProperties`: what an object may hold beside what is described. It may hold anything
    /// unless it says otherwise.
    fn further_properties(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let (was, is) = (old.at("additionalProperties"), new.at("additionalProperties"));
        let place = &new.place.at("additionalProperties");
        match (was.value == false, is.value == false, direction) {
            (false, true, Request) => {
                self.breaks(place, "nothing else may be sent any more: whoever sends more breaks");
            }
            // Only where entries were told of did anybody read them.
            (false, true, Answer) if !was.value.is_null() => {
                self.breaks(place, "nothing else is answered any more: whoever reads more breaks");
            }
            (true, false, _) | (false, true, Answer) => {
                self.allows(place, "what else the object may hold differs; nobody breaks");
            }
            (true, true, _) => {}
            (false, false, _) => {
                let described = |node: &Node<'_>| node.value.is_object();
                if described(&was) || described(&is) {
                    self.schema(&was, &is, direction);
                }
            }
        }
    }

    fn access(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        for (keyword, closes) in [("readOnly", Request), ("writeOnly", Answer)] {
            match (old.is_true(keyword), new.is_true(keyword)) {
                (false, true) if direction == closes => {
                    let message = format!("is `{keyword}` now: it no longer travels this way");
                    self.breaks(&new.place.at(keyword), message);
                }
                (true, false) if direction == closes => {
                    let message = format!("is no longer `{keyword}`; nobody breaks");
                    self.allows(&new.place.at(keyword), message);
                }
                _ => {}
            }
        }
    }

    /// `allOf`, `oneOf` and `anyOf`. Parts belong together by the component they name, else by their
    /// place.
    fn parts(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        for keyword in ["allOf", "oneOf", "anyOf"] {
            let (was, is) = (old.at(keyword), new.at(keyword));
            for (index, part) in was.items().enumerate() {
                match counterpart(&part, index, &is) {
                    Some(same) => self.schema(&part, &same, direction),
                    // One choice less to expect from an answer.
                    None if keyword != "allOf" && direction == Answer => {
                        self.allows(&part.place, format!("a part of `{keyword}` is gone; nobody breaks"));
                    }
                    None => {
                        let message = format!("a part of `{keyword}` is gone: whoever uses it breaks");
                        self.breaks(&part.place, message);
                    }
                }
            }
            for (index, part) in is.items().enumerate() {
                let is_harmless = (keyword == "allOf") == (direction == Answer);
                match counterpart(&part, index, &was) {
                    Some(_) => {}
                    None if is_harmless && !was.value.is_null() => {
                        self.allows(&part.place, format!("a part of `{keyword}` is new; nobody breaks"));
                    }
                    None => {
                        let message =
                            format!("a part of `{keyword}` is new: whoever does not know it breaks");
                        self.breaks(&part.place, message);
                    }
                }
            }
        }
    }
}

fn counterpart<'a>(part: &Node<'_>, index: usize, others: &Node<'a>) -> Option<Node<'a>> {
    match part.component() {
        Some(name) => others.items().find(|other| other.component() == Some(name)),
        None => others.items().nth(index).filter(|other| other.component().is_none()),
    }
}
