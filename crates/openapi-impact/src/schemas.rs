//! Schemas, in the direction in which their values travel.

use indexmap::IndexSet;

use super::clients::{
    CONSTRUCTORS, OPTIONALS, OWN, STRICT_MODELS, UNBOXED, of, reading_more, with_named_types,
};
use super::node::{Node, side_by_side};
use super::{Comparison, Direction, Severity};
use crate::tree::Tree;

use Direction::{Request, Response};

/// Keywords that are compared. A change of any other one is taken for the worst.
const COMPARED: [&str; 34] = [
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
];

/// Extensions that are compared; the others are texts for people.
const MARKS: [&str; 9] = [
    "x-open-enum",
    "x-extensible-enum",
    "x-terminal",
    "x-enum-varnames",
    "x-model-kind",
    "x-decimal",
    "x-number",
    "x-secret",
    "x-keep-shape",
];

/// Marks of values that have a type of their own in the crate that is generated here.
const OWN_TYPES: [&str; 2] = ["x-secret", "x-keep-shape"];

impl Comparison {
    pub(super) fn schema(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        if !self.is_new(old, new, direction) {
            return;
        }
        self.schema_names(old, new);
        // These may stand beside a reference, in an `allOf`.
        self.null(old, new, direction);
        self.defaults(old, new, direction);
        self.deprecation(old, new);
        self.access(old, new, direction);
        for keyword in ["description", "example", "examples", "externalDocs"] {
            self.words(&old.holder(keyword), &new.holder(keyword), &[keyword]);
        }
        let is_reference = old.component().is_some() || new.component().is_some();
        let refers_elsewhere = match (old.component(), new.component()) {
            (Some(was), Some(is)) => was != is && new.document_schemas().has(was),
            (was, is) => was != is,
        };
        let used_at = new.pointer.clone();
        let (old, new) = (&old.resolved(), &mut new.resolved());
        if refers_elsewhere && is_plain(new) {
            new.pointer = used_at;
        }
        if is_reference && !self.is_new(old, new, direction) {
            return;
        }
        self.extensions(old, new, &MARKS);
        for mark in OWN_TYPES.into_iter().filter(|mark| old.is_true(mark) != new.is_true(mark)) {
            let change = if new.is_true(mark) { "is new" } else { "is gone" };
            self.breaks_only(
                of(&[OWN]),
                &new.pointer.at(mark),
                format!("`{mark}` {change}: its type differs"),
            );
        }
        self.model_kind(old, new);
        if !self.types(old, new, direction) {
            // They have nothing in common: what else differs only follows.
            return;
        }
        self.formats(old, new, direction);
        self.number_in_string(old, new, direction);
        self.enumerations(old, new, direction);
        self.limits(old, new, direction);
        self.properties(old, new, direction);
        self.further_properties(old, new, direction);
        if old.has("items") || new.has("items") {
            self.schema(&old.at("items"), &new.at("items"), direction);
        }
        self.parts(old, new, direction);
        for (keyword, was, is) in side_by_side(old, new) {
            let unknown = !COMPARED.contains(&keyword) && !keyword.starts_with("x-");
            if unknown && !self.is_unchanged(was.as_ref(), is.as_ref()) {
                let message =
                    format!("`{keyword}` differs: there is no rule for it, so it may break anything");
                self.breaks(&new.pointer.at(keyword), message);
            }
        }
    }

    fn properties(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let (old_required, new_required) = (old.texts("required"), new.texts("required"));
        // A required one that does not travel this way is only an argument of constructors.
        let closed = if direction == Request { "readOnly" } else { "writeOnly" };
        let travels = |property: &Node<'_>| !property.holder(closed).is_true(closed);
        for (name, was, is) in side_by_side(&old.at("properties"), &new.at("properties")) {
            let required = new_required.contains(name);
            match (was, is) {
                (Some(was), Some(is)) => {
                    let was_required = old_required.contains(name) && travels(&was);
                    self.required_property(&is, was_required, required && travels(&is), direction);
                    self.schema(&was, &is, direction);
                }
                (Some(was), None) => {
                    let breaks = if direction == Request { "sends" } else { "reads" };
                    let hint = new_name(&was, &old.at("properties"), &new.at("properties")).map(|is| {
                        format!("; if it is {is} now, keep {name} beside it, with `deprecated: true`")
                    });
                    let hint = hint.unwrap_or_default();
                    let message = format!("the property {name} is gone: code that {breaks} it breaks{hint}");
                    self.breaks(&was.pointer, message);
                }
                (None, Some(is)) if direction == Request && required && !travels(&is) => {
                    let message = format!("the property {name} is new and required: constructors take it");
                    self.breaks_only(of(&[OPTIONALS, CONSTRUCTORS]), &is.pointer, message);
                }
                (None, Some(is)) if direction == Request && required => {
                    let message =
                        format!("the property {name} is new and required: requests without it are refused");
                    self.breaks(&is.pointer, message);
                }
                (None, Some(is)) if direction == Response && !new.is_true("additionalProperties") => {
                    let message = format!("the property {name} is new");
                    self.found(Severity::Compatible, of(&[STRICT_MODELS]), &is.pointer, message);
                }
                (None, Some(is)) => self.allows(&is.pointer, format!("the property {name} is new")),
                (None, None) => {}
            }
        }
        self.property_collisions(&old.at("properties"), &new.at("properties"));
        let described = |name: &&&str| old.at("properties").has(name) || new.at("properties").has(name);
        let names = old_required.symmetric_difference(&new_required);
        for name in names.filter(|name| !described(name)) {
            let (was, is) = (old_required.contains(name), new_required.contains(name));
            self.required_property(&new.at("required"), was, is, direction);
        }
        if old.has("properties") != new.has("properties") {
            let message = "an object with and one without properties have different types in generated code: \
                code that uses it breaks";
            self.breaks_only(with_named_types(), &new.pointer, message);
        } else if direction == Request {
            self.order_of_properties(old, new);
        }
    }

    fn required_property(&mut self, property: &Node<'_>, was: bool, is: bool, direction: Direction) {
        let pointer = &property.pointer;
        match (was, is, direction) {
            (false, true, Request) => {
                self.breaks(pointer, "the property is required now: requests without it are refused");
            }
            (true, false, Response) => {
                self.breaks(pointer, "the property may be absent now: code that relies on it breaks");
            }
            (true, false, Request) => {
                let message =
                    "the property is optional now: its type and the arguments of constructors differ";
                self.breaks_only(of(&[OPTIONALS, CONSTRUCTORS]), pointer, message);
            }
            (false, true, Response) => {
                let message = "the property is always there now: its type is no longer optional";
                self.breaks_only(of(&[OPTIONALS]), pointer, message);
            }
            _ => {}
        }
    }

    /// Constructors take properties by their position: the required ones, some the optional ones too.
    fn order_of_properties(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let pointer = &new.pointer.at("properties");
        let split = |node: &Node<'_>| -> (IndexSet<String>, IndexSet<String>) {
            let required = node.texts("required");
            let names = node.at("properties").keys().map(str::to_owned).collect::<Vec<_>>();
            names.into_iter().partition(|name| required.contains(name.as_str()))
        };
        let ((old_required, old_optional), (new_required, new_optional)) = (split(old), split(new));
        let all_by_position = of(&[&["openapi-python-client"]]);
        for (was, is, clients) in [
            (&old_required, &new_required, of(&[CONSTRUCTORS])),
            (&old_optional, &new_optional, all_by_position.clone()),
        ] {
            if !was.iter().filter(|name| is.contains(*name)).eq(is.iter().filter(|name| was.contains(*name)))
            {
                let names: Vec<_> = is.iter().map(String::as_str).collect();
                let message =
                    format!("the order is {} now: arguments of constructors change places", names.join(", "));
                self.breaks_only(clients, pointer, message);
            }
        }
        let old_names = old.at("properties");
        let is_added = |name: &&String| !old_names.has(name);
        let last_known = new_optional.iter().rposition(|name| !is_added(&name));
        for name in new_optional.iter().take(last_known.unwrap_or(0)).filter(is_added) {
            let message =
                format!("the property {name} is not the last optional one: arguments of constructors shift");
            self.breaks_only(all_by_position.clone(), &pointer.at(name), message);
        }
    }

    /// `additionalProperties`: what an object may hold beside what is described; anything unless it says otherwise.
    fn further_properties(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let (was, is) = (old.at("additionalProperties"), new.at("additionalProperties"));
        let pointer = &new.pointer.at("additionalProperties");
        match (was.value.is(false), is.value.is(false), direction) {
            (false, true, Request) => {
                self.breaks(pointer, "nothing else may be sent any more: requests with more are refused");
            }
            // Only declared entries have readers.
            (false, true, Response) if !was.value.is_null() => {
                self.breaks(pointer, "nothing else comes any more: code that reads more breaks");
            }
            (true, false, Response) => {
                self.breaks(pointer, "other properties may come now: code that expects none breaks");
            }
            (true, false, Request) => {
                let clients = if is.value.is(true) { of(&[UNBOXED]) } else { of(&[]) };
                self.breaks_only(clients, pointer, "other properties may be sent now: the type may differ");
            }
            (false, true, Response) => self.allows(pointer, "nothing else comes any more"),
            (true, true, _) => {}
            (false, false, _) if was.value.is_map() || is.value.is_map() => {
                self.schema(&was, &is, direction);
            }
            (false, false, _) => {
                let (was, is) = (was.value.is(true), is.value.is(true));
                if was && !is {
                    let message = if direction == Request {
                        "no longer says that other properties may be sent: code that sends them breaks"
                    } else {
                        "no longer says that other properties may come: code that reads them breaks"
                    };
                    self.breaks_only(reading_more(), pointer, message);
                } else if is && !was {
                    let message = "says now that there may be other properties: its type differs";
                    self.breaks_only(of(&[UNBOXED]), pointer, message);
                }
            }
        }
    }

    fn access(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        for (keyword, closes) in [("readOnly", Request), ("writeOnly", Response)] {
            let (old, new) = (old.holder(keyword), new.holder(keyword));
            match (old.is_true(keyword), new.is_true(keyword)) {
                (false, true) if direction == closes => {
                    let message = format!("is `{keyword}` now: it no longer travels this way");
                    self.breaks(&new.pointer.at(keyword), message);
                }
                (true, false) if direction == closes => {
                    self.allows(&new.pointer.at(keyword), format!("is no longer `{keyword}`"));
                }
                _ => {}
            }
        }
    }

    /// `allOf`, `oneOf` and `anyOf`. Parts belong together by the component that they name, else by their place.
    fn parts(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        for keyword in ["allOf", "oneOf", "anyOf"] {
            let (was, is) = (old.at(keyword), new.at(keyword));
            for (index, part) in was.items().enumerate() {
                match counterpart(&part, index, &is) {
                    Some(same) => self.schema(&part, &same, direction),
                    None if keyword != "allOf" && direction == Response => {
                        let message = format!("a part of `{keyword}` is gone: code that names it breaks");
                        self.breaks_only(with_named_types(), &part.pointer, message);
                    }
                    None => {
                        let message = format!("a part of `{keyword}` is gone: code that uses it breaks");
                        self.breaks(&part.pointer, message);
                    }
                }
            }
            for (index, part) in is.items().enumerate() {
                let is_harmless = (keyword == "allOf") == (direction == Response);
                match counterpart(&part, index, &was) {
                    Some(_) => {}
                    None if is_harmless && !was.value.is_null() => {
                        self.allows(&part.pointer, format!("a part of `{keyword}` is new"));
                    }
                    None => {
                        let message =
                            format!("a part of `{keyword}` is new: code that does not know it breaks");
                        self.breaks(&part.pointer, message);
                    }
                }
            }
        }
    }
}

/// Returns the one new property that is like the one that is gone, but for its texts.
fn new_name<'a>(gone: &Node<'_>, old: &Node<'_>, new: &Node<'a>) -> Option<&'a str> {
    let texts = ["description", "example", "title"];
    let facts = |schema: &Tree| -> Vec<(String, Tree)> {
        let members = schema.members().filter(|(keyword, _)| !texts.contains(keyword));
        members.map(|(keyword, value)| (keyword.to_owned(), value.clone())).collect()
    };
    let mut alike = new
        .members()
        .filter(|(name, schema)| !old.has(name) && facts(schema.value) == facts(gone.value))
        .map(|(name, _)| name);
    alike.next().filter(|_| alike.next().is_none())
}

fn is_plain(schema: &Node<'_>) -> bool {
    let holds_more = ["properties", "additionalProperties", "items", "allOf", "oneOf", "anyOf", "x-number"];
    !holds_more.iter().any(|keyword| schema.has(keyword))
}

fn counterpart<'a>(part: &Node<'_>, index: usize, others: &Node<'a>) -> Option<Node<'a>> {
    match part.component() {
        Some(name) => others.items().find(|other| other.component() == Some(name)),
        None => others.items().nth(index).filter(|other| other.component().is_none()),
    }
}
