//! Names in generated code: of types, of words, of model kinds. No name of these travels.

use super::Comparison;
use super::clients::{NAMED_SCALARS, OWN, naming_by_title, naming_words, of, with_named_types};
use super::node::{Node, format_value, transition};

impl Comparison {
    pub(super) fn schema_names(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let is_named = has_named_type(&old.resolved());
        match (old.component(), new.component()) {
            (Some(was), Some(is)) if was != is => {
                if !new.document_schemas().has(was) {
                    // Reported once, with the components.
                    self.replaced.insert(was.to_owned(), is.to_owned());
                } else {
                    let message = format!(
                        "is {} here and no longer {}: generated code has another type",
                        a(is),
                        a(was)
                    );
                    if is_named {
                        self.breaks_code(&new.pointer, message);
                    } else {
                        self.breaks_only(of(&[NAMED_SCALARS]), &new.pointer, message);
                    }
                }
            }
            (Some(was), None) if new.document_schemas().has(was) => {
                let message =
                    format!("is defined here and no longer {}: generated code has another type", a(was));
                let clients = if is_named { with_named_types() } else { of(&[NAMED_SCALARS]) };
                self.breaks_only(clients, &new.pointer, message);
            }
            (None, Some(is)) if !old.value.is_null() => {
                let message =
                    format!("is {} now and was defined here: generated code has another type", a(is));
                let mut clients = if is_named { with_named_types() } else { of(&[NAMED_SCALARS]) };
                if is_named && old.text("title") == Some(is) {
                    // The title was the name of the type already, unless that of the parent precedes it.
                    clients.retain(|client| {
                        *client == "openapi-python-client" || !naming_by_title().contains(client)
                    });
                }
                self.breaks_only(clients, &new.pointer, message);
            }
            (None, None) => self.titles(old, new),
            _ => self.words(&old.resolved(), &new.resolved(), &["title"]),
        }
    }

    pub(super) fn component_names(&mut self, old: &Node<'_>, new: &Node<'_>) {
        if let (Some(was), Some(is)) = (old.component(), new.component())
            && was != is
        {
            self.replaced.insert(was.to_owned(), is.to_owned());
        }
    }

    /// The title of an inline object or enumeration names its type; elsewhere it is a text for people.
    fn titles(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (was, is) = (&old.value["title"], &new.value["title"]);
        let is_component = old.pointer.keys().len() == 3;
        let clients = match old.text("type") {
            _ if has_named_type(old) => naming_by_title(),
            // A map has a class of its own there.
            Some("object") => of(&[&["openapi-python-client"]]),
            _ => of(&[]),
        };
        if was == is || is_component || clients.is_empty() {
            self.words(old, new, &["title"]);
        } else {
            let message = transition("the title", was, is);
            let pointer = new.pointer.at("title");
            self.breaks_only(
                clients,
                &pointer,
                format!("{message}: it names a type, and code that uses the type breaks"),
            );
        }
    }

    /// `x-enum-varnames` names words in generated code.
    pub(super) fn word_names(&mut self, old: &Node<'_>, new: &Node<'_>) {
        for word in words(old).items() {
            let same = words(new).items().find(|other| other.value == word.value);
            if let Some(same) = same
                && varname(old, &word) != varname(new, &same)
            {
                let clients = if new.has("enum") { naming_words() } else { of(&[OWN]) };
                let message = format!(
                    "the word {} has another name: code that uses it breaks",
                    format_value(word.value)
                );
                self.breaks_only(clients, &new.pointer.at("x-enum-varnames"), message);
            }
        }
    }

    pub(super) fn model_kind(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (was, is) = (&old.value["x-model-kind"], &new.value["x-model-kind"]);
        if was["name"] == is["name"] && was["output"] != is["output"] {
            let renamed = was["output"].as_str().and_then(|output| self.replaced.get(output));
            if renamed.map(String::as_str) != is["output"].as_str() {
                let message = "the model kind has another output: code that reads the old one breaks";
                self.breaks_only(of(&[OWN]), &new.pointer.at("x-model-kind"), message);
            }
        }
    }
}

pub(super) fn words<'a>(schema: &Node<'a>) -> Node<'a> {
    schema.get("enum").unwrap_or_else(|| schema.at("x-extensible-enum"))
}

fn a(name: &str) -> String {
    let article = if name.starts_with(['A', 'E', 'I', 'O', 'a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {name}")
}

fn varname<'a>(schema: &Node<'a>, word: &Node<'_>) -> Option<&'a str> {
    let index = word.pointer.keys().last()?;
    schema.at("x-enum-varnames").at(index).value.as_str()
}

/// The name of a word in generated code, before its case is converted.
pub(super) fn word_name<'a>(schema: &Node<'a>, word: &Node<'a>) -> Option<&'a str> {
    varname(schema, word).or_else(|| word.value.as_str())
}

pub(super) fn has_named_type(schema: &Node<'_>) -> bool {
    schema.has("properties") || schema.has("enum")
}
