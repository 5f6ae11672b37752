//! What changes no call and yet breaks code that was generated from the document: names of types, of
//! words, of model kinds.

use super::Comparison;
use super::node::{Node, shown};

impl Comparison {
    /// The name that the schema has where it is used: of its component, or its title.
    pub(super) fn schema_names(&mut self, old: &Node<'_>, new: &Node<'_>) {
        match (old.component(), new.component()) {
            (Some(was), Some(is)) if was != is => {
                let is_gone = !new.resolves_too(was);
                if is_gone {
                    // Told once, with the components.
                    self.replaced.insert(was.to_owned(), is.to_owned());
                } else {
                    let message =
                        format!("is a {is} here and no longer a {was}: generated code has another type");
                    self.breaks(&new.place, message);
                }
            }
            (Some(was), None) if is_named_type(&old.resolved()) && new.resolves_too(was) => {
                let message = format!("is no longer called {was} here: generated code has another type");
                self.breaks(&new.place, message);
            }
            (None, Some(is)) if !old.value.is_null() => {
                self.allows(&new.place, format!("is called {is} now, and was defined here; nobody breaks"));
            }
            (None, None) => self.titles(old, new),
            _ => self.words(&old.resolved(), &new.resolved(), &["title"]),
        }
    }

    /// Remembers which component stands where another one stood that is gone. It is told once, with
    /// the components.
    pub(super) fn component_names(&mut self, old: &Node<'_>, new: &Node<'_>) {
        if let (Some(was), Some(is)) = (old.component(), new.component())
            && was != is
        {
            self.replaced.insert(was.to_owned(), is.to_owned());
        }
    }

    /// The title of an inline object is the name of its type; elsewhere it is a word for people.
    fn titles(&mut self, old: &Node<'_>, new: &Node<'_>) {
        if old.has("title") && old.has("properties") && old.place.keys().len() > 3 {
            if old.value["title"] != new.value["title"] {
                let message = format!(
                    "the type is called {} and no longer {}: generated code that names it breaks",
                    shown(&new.value["title"]),
                    shown(&old.value["title"])
                );
                self.breaks(&new.place.at("title"), message);
            }
        } else {
            self.words(old, new, &["title"]);
        }
    }

    /// `x-enum-varnames` names words in generated code.
    pub(super) fn word_names(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let name = |schema: &Node<'_>, word: &Node<'_>| {
            let index = word.place.keys().last().cloned().unwrap_or_default();
            schema.at("x-enum-varnames").at(&index).value.as_str().map(str::to_owned)
        };
        for word in old.at("enum").items() {
            let same = new.at("enum").items().find(|other| other.value == word.value);
            if let Some(same) = same
                && name(old, &word) != name(new, &same)
            {
                let message = format!(
                    "the word {} has another name in generated code: code that uses it breaks",
                    shown(word.value)
                );
                self.breaks(&new.place.at("x-enum-varnames"), message);
            }
        }
    }

    pub(super) fn model_kind(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (was, is) = (&old.value["x-model-kind"], &new.value["x-model-kind"]);
        let place = new.place.at("x-model-kind");
        if was["name"] == is["name"] && was["output"] != is["output"] {
            // A new name of the same output is told with the components.
            let renamed = was["output"].as_str().and_then(|output| self.replaced.get(output));
            if renamed.map(String::as_str) != is["output"].as_str() {
                self.breaks(&place, "the model kind has another output: code that reads the old one breaks");
            }
        }
    }
}

impl Node<'_> {
    /// Whether the document of this node has the component.
    fn resolves_too(&self, component: &str) -> bool {
        self.document_schemas().has(component)
    }
}

/// Generators give objects and enumerations a type of their own.
fn is_named_type(schema: &Node<'_>) -> bool {
    schema.has("properties") || schema.has("enum")
}
