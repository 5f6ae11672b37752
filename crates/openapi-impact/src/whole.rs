//! The document as a whole: its frame, its operations, its model kinds, its names.

use std::collections::BTreeMap;

use super::clients::{OWN, of, with_base_url};
use super::node::{Node, format_value, side_by_side};
use super::operations::with_arguments;
use super::{Comparison, Direction};
use crate::tree::Tree;

impl Comparison {
    pub(super) fn documents(&mut self, old: &Node<'_>, new: &Node<'_>) {
        self.about(None);
        self.words(old, new, &["openapi"]);
        // `info.version` follows from the changes and is none.
        let (old_info, new_info) = (old.at("info"), new.at("info"));
        self.words(&old_info, &new_info, &["description", "termsOfService", "contact", "license"]);
        if old_info.value["title"] != new_info.value["title"] {
            let message = "the title differs: the package, which is named after it, has another name";
            self.breaks_only(of(&[&["openapi-python-client"]]), &new_info.pointer.at("title"), message);
        }
        self.extensions(&old_info, &new_info, &[]);
        self.words(old, new, &["externalDocs"]);
        self.extensions(old, new, &[]);
        self.tags(old, new);
        self.operations(old, new);
        self.kinds(old, new);
        self.about(None);
        self.components(old, new);
    }

    fn tags(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let by_name = |document: &Node<'_>| -> BTreeMap<String, Tree> {
            let tags = document.at("tags");
            let named = tags.items().filter_map(|tag| Some((tag.text("name")?.to_owned(), tag)));
            named.map(|(name, tag)| (name, tag.value.clone())).collect()
        };
        let (old_tags, new_tags) = (by_name(old), by_name(new));
        for name in old_tags.keys().chain(new_tags.keys().filter(|name| !old_tags.contains_key(*name))) {
            let pointer = new.pointer.at("tags");
            match (old_tags.get(name), new_tags.get(name)) {
                (Some(_), None) => self.says(&pointer, format!("the tag {name} is no longer described")),
                (None, Some(_)) => self.says(&pointer, format!("the tag {name} is described now")),
                (old, new) if old != new => {
                    self.says(&pointer, format!("the description of the tag {name} differs"));
                }
                _ => {}
            }
        }
    }

    /// The model kinds: inputs are sent, outputs are received, though no operation refers to them.
    fn kinds(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (old_kinds, new_kinds) = (kinds(old), kinds(new));
        for (name, (old_input, old_output)) in &old_kinds {
            self.about(Some(&format!("model kind {name}")));
            let Some((new_input, new_output)) = new_kinds.get(name) else {
                let message = "the model kind is gone: code that uses its typed input and output breaks";
                self.breaks_only(of(&[OWN]), &old_input.pointer, message);
                continue;
            };
            for (old, new, direction) in
                [(old_input, new_input, Direction::Request), (old_output, new_output, Direction::Response)]
            {
                let names = (old.pointer.keys().last(), new.pointer.keys().last());
                if let (Some(old_name), Some(new_name)) = names
                    && old_name != new_name
                {
                    self.replaced.insert(old_name.clone(), new_name.clone());
                }
                self.schema(old, new, direction);
            }
        }
        for (name, (input, _)) in new_kinds.iter().filter(|(name, _)| !old_kinds.contains_key(*name)) {
            self.about(Some(&format!("model kind {name}")));
            self.allows(&input.pointer, "the model kind is new");
        }
    }

    /// Schemas are types in generated code. The other components are only written out where they are used.
    fn components(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let known_operations = with_arguments(old);
        self.title_collisions(old, new);
        self.schema_collisions(&old.document_schemas(), &new.document_schemas());
        for section in ["schemas", "responses", "parameters", "requestBodies", "headers", "callbacks"] {
            let (old, new) = (old.at("components").at(section), new.at("components").at(section));
            for (name, was, is) in side_by_side(&old, &new) {
                let now = self.replaced.get(name).filter(|now| new.has(now));
                let gone = match now {
                    Some(now) => format!("{name} is called {now} now"),
                    None => format!("{name} is gone"),
                };
                match (was, is) {
                    (Some(was), None) if section == "schemas" => {
                        self.breaks_code(
                            &was.pointer,
                            format!("{gone}: generated code that names it breaks"),
                        );
                    }
                    (Some(was), None) => self.says(&was.pointer, gone),
                    (None, Some(is)) if !self.replaced.values().any(|now| now == name) => {
                        if section == "schemas" {
                            self.argument_type_collision(name, &is, &known_operations);
                            self.allows(&is.pointer, format!("{name} is new"));
                        } else {
                            self.says(&is.pointer, format!("{name} is new"));
                        }
                    }
                    _ => {}
                }
            }
        }
        self.words(&old.at("components"), &new.at("components"), &["examples"]);
        self.security_schemes(&old.at("components"), &new.at("components"));
    }

    pub(super) fn servers(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let urls = |servers: &Node<'_>| -> Vec<String> {
            servers.items().filter_map(|server| server.text("url").map(str::to_owned)).collect()
        };
        let (old_urls, new_urls) = (urls(old), urls(new));
        let first = (old_urls.first(), new_urls.first());
        for url in old_urls.iter().filter(|url| !new_urls.contains(url)) {
            self.breaks(&old.pointer, format!("the server {url} is gone: calls of it break"));
        }
        for url in new_urls.iter().filter(|url| !old_urls.contains(url)) {
            self.allows(&new.pointer, format!("the server {url} is new"));
        }
        if let (Some(was), Some(is)) = first
            && was != is
            && new_urls.contains(was)
        {
            let message = format!("the first server is {is} and no longer {was}: it is called by default");
            self.breaks_only(with_base_url(), &new.pointer, message);
        }
        for server in old.items() {
            if let Some(same) = new.items().find(|other| other.text("url") == server.text("url")) {
                self.words(&server, &same, &["description"]);
                self.server_variables(&server.at("variables"), &same.at("variables"));
            }
        }
    }

    fn server_variables(&mut self, old: &Node<'_>, new: &Node<'_>) {
        for (name, was, is) in side_by_side(old, new) {
            let (Some(was), Some(is)) = (was, is) else {
                self.breaks(&new.pointer.at(name), format!("the variable {name} came or went: URLs differ"));
                continue;
            };
            self.words(&was, &is, &["description"]);
            if was.value["default"] != is.value["default"] {
                let message = format!(
                    "{} in place of {}: code that relies on the default calls another server",
                    format_value(&is.value["default"]),
                    format_value(&was.value["default"])
                );
                self.breaks(&is.pointer.at("default"), message);
            }
            let (old_words, new_words) = (was.texts("enum"), is.texts("enum"));
            if is.has("enum") && (!was.has("enum") || !old_words.is_subset(&new_words)) {
                self.breaks(
                    &is.pointer.at("enum"),
                    "fewer values are allowed: code that uses another breaks",
                );
            } else if old_words != new_words {
                self.allows(&is.pointer, "more values are allowed");
            }
        }
    }
}

fn kinds<'a>(document: &Node<'a>) -> BTreeMap<String, (Node<'a>, Node<'a>)> {
    let schemas = document.at("components").at("schemas");
    let kind = |schema: Node<'a>| {
        let kind = schema.at("x-model-kind");
        let output = schemas.at(kind.text("output")?);
        Some((kind.text("name")?.to_owned(), (schema, output)))
    };
    schemas.members().filter_map(|(_, schema)| kind(schema)).collect()
}
