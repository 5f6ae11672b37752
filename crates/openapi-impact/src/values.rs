//! Comparison of the values that a schema permits: type, format, null, words, defaults.

use super::clients::{
    Clients, NEWTYPES, NUMBERS, OPTIONALS, OWN, of, other_than_own, refusing_new_words, typing_format,
    with_named_types,
};
use super::names::words;
use super::node::{Node, format_value, transition};
use super::{Comparison, Direction, Severity};
use crate::tree::{NULL, Tree};

use Direction::{Request, Response};

/// Formats of numbers, from narrow to wide.
const WIDER: [(&str, &str); 2] = [("int32", "int64"), ("float", "double")];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Closed,
    /// `enum` with `x-open-enum`: others may follow.
    Open,
    /// `x-extensible-enum`: a plain string with some words that are known.
    Known,
    Any,
}

impl Words {
    fn of(schema: &Node<'_>) -> Self {
        match (schema.has("enum"), schema.is_true("x-open-enum"), schema.has("x-extensible-enum")) {
            (true, false, _) => Self::Closed,
            (true, true, _) => Self::Open,
            (false, _, true) => Self::Known,
            (false, _, false) => Self::Any,
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Closed => "closed (`enum`)",
            Self::Open => "open (`enum` with `x-open-enum`)",
            Self::Known => "open (`x-extensible-enum`)",
            Self::Any => "not listed",
        }
    }

    fn is_enum(self) -> bool {
        matches!(self, Self::Closed | Self::Open)
    }

    /// Returns true if the crate of this repository has the same type for both lists: open words have one type.
    fn is_same_own_type(self, other: Self) -> bool {
        let is_open = |words| matches!(words, Self::Open | Self::Known);
        self == other || is_open(self) && is_open(other)
    }
}

impl Comparison {
    /// Reports a change of the type. Returns true if the types still agree: only then can other keywords be compared.
    pub(super) fn types(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) -> bool {
        if old.value.get("type") == new.value.get("type") {
            return true;
        }
        let pointer = &new.pointer;
        let (was, is) = (format_value(&old.value["type"]), format_value(&new.value["type"]));
        match (is_anything(old), is_anything(new), direction) {
            (false, true, Request) => {
                let message = format!("may be anything and no longer only {was}: its type differs");
                self.breaks_only(of(&[OPTIONALS]), pointer, message);
            }
            (true, false, Response) => {
                let message = format!("is {is} and no longer anything: its type differs");
                self.breaks_only(of(&[OPTIONALS, &["openapi-python-client"]]), pointer, message);
            }
            (false, true, Response) => {
                let message = format!("may be anything and no longer only {was}: code that reads it breaks");
                self.breaks(pointer, message);
            }
            (true, false, Request) => {
                self.breaks(
                    pointer,
                    format!("must be {is} and no longer anything: other values are refused"),
                );
            }
            _ => {
                let message = transition("the type", &old.value["type"], &new.value["type"]);
                let (narrow, wide) = if direction == Request { (old, new) } else { (new, old) };
                if narrow.text("type") == Some("integer") && wide.text("type") == Some("number") {
                    self.breaks_only(
                        of(&[NUMBERS]),
                        &pointer.at("type"),
                        format!("{message}: its type differs"),
                    );
                    return true;
                }
                self.breaks(&pointer.at("type"), format!("{message}: {}", consequence(direction)));
            }
        }
        false
    }

    pub(super) fn formats(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        if old.value.get("type") != new.value.get("type") {
            return;
        }
        let (was, is) = (format(old), format(new));
        let pointer = &new.pointer.at("format");
        let format_transition = |was: Option<&str>, is: Option<&str>| {
            let [was, is] = [was, is].map(|format| format.map_or_else(|| NULL.clone(), Tree::text));
            transition("the format", &was, &is)
        };
        let mut clients = Clients::new();
        if old.text("format") != new.text("format") {
            clients = typing_format(old.text("format"));
            clients.extend(typing_format(new.text("format")));
        }
        if was != is && [was, is].contains(&Some("decimal")) {
            clients.extend(OWN);
        }
        if was == is || old.text("format") == new.text("format") {
            if !clients.is_empty() {
                let message = if old.is_true("x-decimal") == new.is_true("x-decimal") {
                    format_transition(old.text("format"), new.text("format"))
                } else {
                    "an amount is marked otherwise".to_owned()
                };
                self.breaks_only(clients, pointer, format!("{message}: its type differs"));
            }
            return;
        }
        let message = format_transition(was, is);
        let widens = |narrow: Option<&str>, wide: Option<&str>| match (narrow, wide) {
            (Some(narrow), Some(wide)) => WIDER.contains(&(narrow, wide)),
            (Some(_), None) => true,
            _ => false,
        };
        let is_harmless = if direction == Request { widens(was, is) } else { widens(is, was) };
        if !is_harmless {
            self.breaks(pointer, format!("{message}: {}", consequence(direction)));
        } else if clients.is_empty() {
            self.allows(pointer, message);
        } else {
            self.breaks_only(clients, pointer, format!("{message}: its type differs"));
        }
    }

    /// `x-number`: the number that a string stands for, which is its type in the crate generated here.
    pub(super) fn number_in_string(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let (was, is) = (old.at("x-number"), new.at("x-number"));
        if was.text("type") == is.text("type") {
            self.limits(&was, &is, direction);
        } else {
            let message = transition("`x-number`", &was.value["type"], &is.value["type"]);
            self.breaks_only(of(&[OWN]), &is.pointer, format!("{message}: its type differs"));
        }
    }

    pub(super) fn null(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let holder = new.holder("nullable");
        let (pointer, is) = (&holder.pointer, holder.is_true("nullable"));
        let was = old.holder("nullable").is_true("nullable");
        // An optional property is an `Option` to progenitor, whether it may be null or not.
        let clients = if new.is_optional_property() { of(&[&["Go", "Rust"]]) } else { of(&[OPTIONALS]) };
        match (was, is, direction) {
            (false, true, Response) => {
                self.breaks(pointer, "may be null now: code that expects a value breaks");
            }
            (true, false, Request) => self.breaks(pointer, "may not be null any more: null is refused"),
            (false, true, Request) => {
                self.breaks_only(clients, pointer, "null may be sent now: its type differs");
            }
            (true, false, Response) => {
                self.breaks_only(clients, pointer, "is never null any more: its type differs");
            }
            _ => {}
        }
    }

    pub(super) fn enumerations(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        self.word_names(old, new);
        self.terminal_words(old, new);
        let (was, is) = (Words::of(old), Words::of(new));
        if was != is {
            self.kind_of_words(was, is, new, direction);
        }
        if was == Words::Any || is == Words::Any {
            return;
        }
        self.word_collisions(old, new);
        let (old_words, new_words) = (words(old), words(new));
        let pointer = &new_words.pointer;
        let (old_words, new_words) = (old_words.value.items(), new_words.value.items());
        for word in old_words.iter().filter(|word| !new_words.contains(word)) {
            let breaks = if direction == Request {
                "requests with it are refused"
            } else {
                "code that waits for it breaks"
            };
            self.breaks(pointer, format!("the word {} is gone: {breaks}", format_value(word)));
        }
        for word in new_words.iter().filter(|word| !old_words.contains(word)) {
            let word = format_value(word);
            match (direction, was) {
                (Request, _) => self.allows(pointer, format!("the word {word} is accepted too")),
                (Response, Words::Open) => {
                    let message = format!("the word {word} may come too, as the document announces");
                    self.found(Severity::Compatible, refusing_new_words(), pointer, message);
                }
                (Response, Words::Known) => self.allows(pointer, format!("the word {word} is known too")),
                (Response, _) => {
                    let message =
                        format!("the word {word} may come too: code that knows only the others breaks");
                    self.breaks(pointer, message);
                }
            }
        }
    }

    /// `x-terminal`: a program that polls for the terminal words it knows does not end at another one.
    fn terminal_words(&mut self, old: &Node<'_>, new: &Node<'_>) {
        if !old.has("x-terminal") {
            self.words(old, new, &["x-terminal"]);
        }
        let were = old.texts("x-terminal");
        let are = new.texts("x-terminal");
        let known = words(old);
        let is_known = |word: &str| known.value.items().iter().any(|known| known.as_str() == Some(word));
        for word in are.difference(&were).filter(|word| old.has("x-terminal") || !is_known(word)) {
            let message =
                format!("the word `{word}` is terminal: a program that polls for the others never ends");
            self.breaks(&new.pointer.at("x-terminal"), message);
        }
    }

    fn kind_of_words(&mut self, was: Words, is: Words, new: &Node<'_>, direction: Direction) {
        let message = match (was, is) {
            (Words::Any, _) => format!("the words are {} now", is.description()),
            (_, Words::Any) => format!("the words are no longer listed, and were {}", was.description()),
            _ => format!("the words are {} and no longer {}", is.description(), was.description()),
        };
        let pointer = if is == Words::Any { new.pointer.clone() } else { words(new).pointer };
        match direction {
            Request if is == Words::Closed => self.breaks(&pointer, format!("{message}: others are refused")),
            Response if was == Words::Closed => {
                self.breaks(&pointer, format!("{message}: code that knows only the listed ones breaks"));
            }
            _ => {
                let mut clients = Clients::new();
                if was.is_enum() != is.is_enum() {
                    let widens = direction == Response && was.is_enum();
                    clients = if widens { other_than_own() } else { with_named_types() };
                    clients.remove(OWN[0]);
                }
                if !was.is_same_own_type(is) {
                    clients.extend(OWN);
                }
                self.breaks_only(clients, &pointer, format!("{message}: generated code has another type"));
            }
        }
    }

    /// A default of a request is what the service takes for an absent value. One of a response is a remark.
    pub(super) fn defaults(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let may_be_absent = new.is_optional_property();
        let (old, new) = (old.holder("default"), new.holder("default"));
        let (was, is) = (old.value.get("default"), new.value.get("default"));
        let pointer = new.pointer.at("default");
        let message = transition("the default", &old.value["default"], &new.value["default"]);
        let is_in_type = may_be_absent && was.is_some() != is.is_some();
        if was == is {
            return;
        }
        if direction == Request && was.is_some() {
            self.breaks(&pointer, format!("{message}: requests without a value mean something else"));
        } else if is_in_type {
            self.breaks_only(of(&[NEWTYPES]), &pointer, format!("{message}: the type is no longer optional"));
        } else if direction == Request {
            self.allows(&pointer, message);
        } else {
            self.words(&old, &new, &["default"]);
        }
    }
}

/// The format. `x-decimal` marks an amount as `format: decimal` did.
fn format<'a>(schema: &Node<'a>) -> Option<&'a str> {
    if schema.is_true("x-decimal") { Some("decimal") } else { schema.text("format") }
}

fn consequence(direction: Direction) -> &'static str {
    if direction == Request { "values that were accepted are refused" } else { "code that reads it breaks" }
}

fn is_anything(schema: &Node<'_>) -> bool {
    ["type", "properties", "enum", "allOf", "oneOf", "anyOf"].iter().all(|keyword| !schema.has(keyword))
}
