//! Names that differ in the document and are the same in generated code, such as `isExpired` and
//! `is_expired`: they are declared twice there, or renamed.

use std::collections::BTreeMap;

use super::Comparison;
use super::case::{pascal_case, snake_case};
use super::clients::{
    Clients, OPENAPI_GENERATOR, OWN, PROGENITOR, naming_by_title, naming_words, of, with_named_types,
};
use super::names::{has_named_type, word_name, words};
use super::node::{EXAMPLES, Node};
use crate::pointer::Pointer;
use crate::tree::Tree;

const TEXTS: [&str; 5] = ["title", "description", "example", "examples", "externalDocs"];

impl Comparison {
    pub(super) fn property_collisions(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let clients = of(&[OPENAPI_GENERATOR, PROGENITOR, OWN, &["openapi-python-client"]]);
        for (added, other) in new_collisions(&names(old), &names(new)) {
            self.collision(clients.clone(), &new.pointer.at(added), ("property", added, other));
        }
    }

    pub(super) fn parameter_collisions(&mut self, old: &[&str], new: &[&str], pointer: &Pointer) {
        let clients = of(&[OPENAPI_GENERATOR, PROGENITOR, OWN, &["openapi-python-client"]]);
        for (added, other) in new_collisions(old, new) {
            self.collision(clients.clone(), pointer, ("parameter", added, other));
        }
    }

    pub(super) fn schema_collisions(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let mut clients = with_named_types();
        clients.insert("hey-api");
        for (added, other) in new_collisions(&names(old), &names(new)) {
            self.collision(clients.clone(), &new.pointer.at(added), ("schema", added, other));
        }
    }

    pub(super) fn word_collisions(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let mut clients = of(&[OWN]);
        if new.has("enum") {
            clients.extend(naming_words());
            clients.extend(PROGENITOR);
        }
        for (added, other) in new_collisions(&word_names(old), &word_names(new)) {
            self.collision(clients.clone(), &words(new).pointer, ("word", added, other));
        }
    }

    fn collision(&mut self, clients: Clients, pointer: &Pointer, (what, added, other): (&str, &str, &str)) {
        let message =
            format!("the {what} {added} is new beside {other}: both have one name in generated code");
        self.breaks_only(clients, pointer, message);
    }

    pub(super) fn operation_collisions(&mut self, old: &[Node<'_>], new: &[Node<'_>]) {
        let (old_ids, new_ids) = (ids(old), ids(new));
        let count = |ids: &[&str], id: &str| ids.iter().filter(|other| **other == id).count();
        for operation in new {
            let Some(id) = operation.text("operationId") else { continue };
            let uses = count(&new_ids, id);
            if uses > 1 && uses > count(&old_ids, id) {
                self.about(Some(id));
                let message =
                    format!("{uses} operations have the operationId {id}: generated code does not compile");
                self.breaks_code(&operation.pointer.at("operationId"), message);
            }
        }
        let mut clients = with_named_types();
        clients.insert("hey-api");
        for (added, other) in new_collisions(&old_ids, &new_ids) {
            let Some(operation) = new.iter().find(|node| node.text("operationId") == Some(added)) else {
                continue;
            };
            self.about(Some(added));
            let pointer = operation.pointer.at("operationId");
            self.collision(clients.clone(), &pointer, ("operationId", added, other));
        }
    }

    /// typescript-fetch declares arguments as `<OperationId>Request`, which a schema of that name takes over.
    pub(super) fn argument_type_collision(&mut self, name: &str, schema: &Node<'_>, operations: &[Node<'_>]) {
        let takes_name = |operation: &&Node<'_>| {
            let id = operation.text("operationId").unwrap_or_default();
            format!("{}Request", pascal_case(id)) == pascal_case(name)
        };
        if let Some(operation) = operations.iter().find(takes_name) {
            let id = operation.text("operationId").unwrap_or_default();
            let message =
                format!("{name} is what the arguments of {id} were called: their type has another name");
            self.breaks_only(of(&[&["TypeScript"]]), &schema.pointer, message);
        }
    }

    /// Titles of two inline schemas, or of one and a component, of different shapes: one of the types gets a number.
    pub(super) fn title_collisions(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (known, now) = (taken_titles(old), taken_titles(new));
        let times = |title: &str| known.get(title).map_or(0, |(times, _)| *times);
        for (title, (_, pointer)) in now.iter().filter(|(title, (now, _))| *now > times(title)) {
            let message =
                format!("the title {title} is that of another schema too: generated code numbers the types");
            self.breaks_only(naming_by_title(), pointer, message);
        }
    }
}

fn new_collisions<'a>(old: &[&str], new: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    for (index, added) in new.iter().enumerate().filter(|(_, name)| !old.contains(name)) {
        let is_other = |(at, other): &(usize, &&str)| {
            *other != added && (*at < index || old.contains(other)) && collide(added, other)
        };
        if let Some((_, other)) = new.iter().enumerate().find(is_other) {
            found.push((*added, *other));
        }
    }
    found
}

fn names<'a>(members: &Node<'a>) -> Vec<&'a str> {
    members.keys().collect()
}

fn word_names<'a>(schema: &Node<'a>) -> Vec<&'a str> {
    words(schema).items().filter_map(|word| word_name(schema, &word)).collect()
}

fn ids<'a>(operations: &[Node<'a>]) -> Vec<&'a str> {
    operations.iter().filter_map(|operation| operation.text("operationId")).collect()
}

fn collide(name: &str, other: &str) -> bool {
    let is_same = |case: fn(&str) -> String| !case(name).is_empty() && case(name) == case(other);
    is_same(snake_case) || is_same(pascal_case)
}

/// The titles of inline schemas that name another shape too, with their number and the place of the last one.
fn taken_titles(document: &Node<'_>) -> BTreeMap<String, (usize, Pointer)> {
    let mut inline = Vec::new();
    inline_titles(document, &mut inline);
    let schemas = document.document_schemas();
    let mut all: BTreeMap<String, Vec<Tree>> = BTreeMap::new();
    for (name, schema) in schemas.members() {
        all.entry(pascal_case(name)).or_default().push(shape(schema.value));
    }
    let mut taken = BTreeMap::new();
    for schema in inline {
        let title = schema.text("title").unwrap_or_default();
        let shape = shape(schema.value);
        let others = all.entry(pascal_case(title)).or_default();
        if others.iter().any(|other| *other != shape) {
            let (times, pointer) = taken.entry(title.to_owned()).or_insert((0, schema.pointer.clone()));
            *times += 1;
            *pointer = schema.pointer;
        }
        others.push(shape);
    }
    taken
}

fn inline_titles<'a>(value: &Node<'a>, found: &mut Vec<Node<'a>>) {
    let is_component = value.pointer.keys().len() == 3;
    if !is_component && value.text("title").is_some() && has_named_type(value) {
        found.push(value.clone());
    }
    for (key, member) in value.members() {
        if !EXAMPLES.contains(&key) && key != "default" {
            inline_titles(&member, found);
        }
    }
    for item in value.items() {
        inline_titles(&item, found);
    }
}

fn shape(schema: &Tree) -> Tree {
    let mut shape = schema.map(|_, value| shape(value));
    if let Tree::Map(members) = &mut shape {
        members.retain(|key, value| {
            !TEXTS.contains(&key.as_str()) || (value.as_str().is_none() && !EXAMPLES.contains(&key.as_str()))
        });
    }
    shape
}
