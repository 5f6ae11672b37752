//! Which values a schema stands for: type, format, null, words, defaults.

use serde_json::Value;

use super::node::{Node, shown};
use super::{Comparison, Direction};

use Direction::{Answer, Request};

/// Formats that generated code reads into a type of their own. The others are only a remark.
const OWN_TYPES: [&str; 8] = ["date-time", "date", "time", "binary", "byte", "uuid", "decimal", "duration"];

/// Formats of numbers, from narrow to wide.
const WIDER: [(&str, &str); 2] = [("int32", "int64"), ("float", "double")];

impl Comparison {
    /// Whether both are still the same type; all else can be compared only then.
    pub(super) fn types(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) -> bool {
        if old.value.get("type") == new.value.get("type") {
            return true;
        }
        let place = &new.place;
        let (was, is) = (shown(&old.value["type"]), shown(&new.value["type"]));
        match (is_anything(old), is_anything(new), direction) {
            (false, true, Request) | (true, false, Answer) => {
                let message =
                    if direction == Request { "anything may be sent" } else { "no longer anything" };
                self.allows(place, format!("{message} where it was {was}; nobody breaks"));
            }
            (false, true, Answer) => {
                self.breaks(
                    place,
                    format!("may be anything and no longer only {was}: whoever reads it breaks"),
                );
            }
            (true, false, Request) => {
                self.breaks(
                    place,
                    format!("must be {is} and no longer anything: whoever sends other values breaks"),
                );
            }
            _ => {
                let who = if direction == Request { "sends" } else { "reads" };
                let message = format!("the type is {is} and no longer {was}: whoever {who} it breaks");
                self.breaks(&place.at("type"), message);
            }
        }
        false
    }

    pub(super) fn formats(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let (was, is) = (old.text("format"), new.text("format"));
        if was == is {
            return;
        }
        let place = &new.place.at("format");
        let told =
            |format: Option<&str>| format.map_or_else(|| "none".to_owned(), |name| format!("`{name}`"));
        let message = format!("the format is {} and no longer {}", told(is), told(was));
        let own_type = |format: Option<&str>| format.is_some_and(|format| OWN_TYPES.contains(&format));
        let widens = |narrow: Option<&str>, wide: Option<&str>| match (narrow, wide) {
            (Some(narrow), Some(wide)) => WIDER.contains(&(narrow, wide)),
            (Some(_), None) => true,
            _ => false,
        };
        let is_harmless = match direction {
            Request => widens(was, is),
            Answer => widens(is, was),
        };
        if is_harmless && !own_type(was) && !own_type(is) {
            self.allows(place, format!("{message}; nobody breaks"));
        } else {
            let who = if direction == Request { "sends" } else { "reads" };
            self.breaks(place, format!("{message}: whoever {who} it breaks"));
        }
    }

    pub(super) fn null(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let place = &new.place;
        match (old.is_true("nullable"), new.is_true("nullable"), direction) {
            (false, true, Answer) => {
                self.breaks(place, "may be null now: whoever does not expect that breaks");
            }
            (true, false, Request) => {
                self.breaks(place, "may not be null any more: whoever sends null breaks");
            }
            (false, true, Request) => self.allows(place, "null may be sent now; nobody breaks"),
            (true, false, Answer) => self.allows(place, "is never null any more; nobody breaks"),
            _ => {}
        }
    }

    pub(super) fn enumerations(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let place = &new.place.at("enum");
        self.word_names(old, new);
        match (old.has("enum"), new.has("enum"), direction) {
            (true, true, _) => {}
            (false, true, Request) => {
                self.breaks(place, "only some words are accepted now: whoever sends another breaks");
            }
            (true, false, Answer) => {
                self.breaks(&old.place.at("enum"), "any word may come now: whoever knows only these breaks");
            }
            (false, true, Answer) => self.allows(place, "only some words come now; nobody breaks"),
            (true, false, Request) => {
                self.allows(&old.place.at("enum"), "any word is accepted now; nobody breaks");
            }
            (false, false, _) => {}
        }
        if !(old.has("enum") && new.has("enum")) {
            return;
        }
        let (old_words, new_words) = (words(old), words(new));
        for word in old_words.iter().filter(|word| !new_words.contains(word)) {
            // An answer that never says it again leaves those who wait for it waiting.
            let who = if direction == Request { "sends" } else { "waits for" };
            self.breaks(place, format!("the word {} is gone: whoever {who} it breaks", shown(word)));
        }
        for word in new_words.iter().filter(|word| !old_words.contains(word)) {
            let word = shown(word);
            if direction == Request {
                self.allows(place, format!("the word {word} is accepted too; nobody breaks"));
            } else if old.is_true("x-open-enum") {
                let message = format!("the word {word} may come too; readers of open words expect new ones");
                self.allows(place, message);
            } else {
                self.breaks(
                    place,
                    format!("the word {word} may come too: whoever knows only the others breaks"),
                );
            }
        }
        let place = &new.place.at("x-open-enum");
        match (old.is_true("x-open-enum"), new.is_true("x-open-enum"), direction) {
            (false, true, Answer) => {
                self.breaks(place, "other words may come now: whoever knows only these breaks");
            }
            (true, false, Request) => {
                self.breaks(place, "only these words are accepted now: whoever sends another breaks");
            }
            (false, true, Request) | (true, false, Answer) => {
                self.allows(place, "whether there are other words differs; nobody breaks");
            }
            _ => {}
        }
    }

    /// A default of a request is what those get who leave it out. One of an answer is a remark.
    pub(super) fn defaults(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) {
        let (was, is) = (old.value.get("default"), new.value.get("default"));
        let place = new.place.at("default");
        match (was, is, direction) {
            _ if was == is => {}
            (_, _, Answer) => self.words(old, new, &["default"]),
            (Some(was), _, Request) => {
                let is = is.unwrap_or(&Value::Null);
                let message = format!(
                    "the default is {} and no longer {}: whoever leaves it out gets something else",
                    shown(is),
                    shown(was)
                );
                self.breaks(&place, message);
            }
            (None, Some(is), Request) => {
                self.allows(&place, format!("the default {} is told now; nobody breaks", shown(is)));
            }
            (None, None, Request) => {}
        }
    }
}

fn words<'a>(schema: &Node<'a>) -> Vec<&'a Value> {
    schema.value["enum"].as_array().into_iter().flatten().collect()
}

/// A schema that says nothing of its values.
fn is_anything(schema: &Node<'_>) -> bool {
    ["type", "properties", "enum", "allOf", "oneOf", "anyOf"].iter().all(|keyword| !schema.has(keyword))
}
