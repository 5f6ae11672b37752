//! Operations: which ones there are, where they are called, and their callbacks.

use std::collections::BTreeMap;

use super::clients::{grouping_by_tag, of};
use super::node::{Node, side_by_side, transition};
use super::{Comparison, Direction};

/// The methods that a path item of OpenAPI 3 may have.
pub const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

pub(super) struct Operation<'a> {
    pub(super) path_item: Node<'a>,
    pub(super) node: Node<'a>,
    path: &'a str,
    method: &'static str,
}

impl<'a> Operation<'a> {
    fn new(path_item: &Node<'a>, path: &'a str, method: &'static str) -> Option<Self> {
        Some(Self { node: path_item.get(method)?, path_item: path_item.clone(), path, method })
    }

    fn id(&self) -> String {
        self.node.text("operationId").map_or_else(|| format!("{} {}", self.method, self.path), str::to_owned)
    }

    fn route(&self) -> (String, &'static str) {
        (without_names(self.path), self.method)
    }

    pub(super) fn path_names(&self) -> Vec<&'a str> {
        self.path.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0)).collect()
    }

    fn nearest(&self, keyword: &str) -> Node<'a> {
        let around = [&self.node, &self.path_item];
        around.iter().find_map(|node| node.get(keyword)).unwrap_or_else(|| self.node.of_document(keyword))
    }
}

impl Comparison {
    pub(super) fn operations(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (old_paths, new_paths) = (old.at("paths"), new.at("paths"));
        self.about(None);
        self.shadowed_paths(&old_paths, &new_paths);
        let (old, new) = (operations(&old_paths), operations(&new_paths));
        let old_nodes: Vec<Node<'_>> = old.values().map(|operation| operation.node.clone()).collect();
        let new_nodes: Vec<Node<'_>> = new.values().map(|operation| operation.node.clone()).collect();
        self.operation_collisions(&old_nodes, &new_nodes);
        self.operations = old.values().chain(new.values()).map(Operation::id).collect();
        let ids = |operations: &BTreeMap<_, Operation<'_>>| -> BTreeMap<String, String> {
            let call = |operation: &Operation<'_>| format!("{} {}", operation.method, operation.path);
            operations.values().map(|operation| (operation.id(), call(operation))).collect()
        };
        let new_ids = ids(&new);
        let old_routes: BTreeMap<String, _> =
            old.iter().map(|(route, operation)| (operation.id(), route)).collect();
        for (route, operation) in &old {
            let id = operation.id();
            self.about(Some(&id));
            match (new.get(route), new_ids.get(&id)) {
                (Some(same), _) => self.operation(operation, same),
                (None, Some(moved)) => self.breaks(
                    &operation.node.pointer,
                    format!("is `{moved}` now: calls of the old path or method break"),
                ),
                (None, None) => {
                    self.breaks(&operation.node.pointer, "the operation is gone: calls of it break");
                }
            }
        }
        for (route, operation) in &new {
            let id = operation.id();
            // An operation that moved keeps its operationId.
            let has_moved = old_routes.get(&id).is_some_and(|was| !new.contains_key(was));
            if !old.contains_key(route) && !has_moved {
                self.about(Some(&id));
                self.allows(&operation.node.pointer, "the operation is new");
            }
        }
    }

    /// A path with a fixed part takes calls away from one with a parameter there.
    fn shadowed_paths(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let known: Vec<String> = old.keys().map(without_names).collect();
        for (path, item) in new.members().filter(|(path, _)| !known.contains(&without_names(path))) {
            for shadowed in old.keys().filter(|old| shadows(path, old)) {
                let message = format!("calls of {shadowed} with this value reach {path} now: they break");
                self.breaks(&item.pointer, message);
            }
        }
    }

    fn operation(&mut self, old: &Operation<'_>, new: &Operation<'_>) {
        let pointer = &new.node.pointer;
        if old.node.value["operationId"] != new.node.value["operationId"] {
            let message = format!("is called {} now: methods of generated clients have that name", new.id());
            self.breaks_code(&pointer.at("operationId"), message);
        }
        self.operation_tags(&old.node, &new.node);
        self.words(&old.path_item, &new.path_item, &["summary", "description"]);
        self.words(&old.node, &new.node, &["summary", "description", "externalDocs"]);
        self.extensions(&old.node, &new.node, &["x-safety"]);
        let (was, is) = (&old.node.value["x-safety"], &new.node.value["x-safety"]);
        if was != is {
            let message = transition("`x-safety`", was, is);
            self.allows(&pointer.at("x-safety"), format!("{message}: our packages repeat calls by it"));
        }
        self.deprecation(&old.node, &new.node);
        self.servers(&old.nearest("servers"), &new.nearest("servers"));
        self.security(&old.nearest("security"), &new.nearest("security"));
        self.parameters(old, new);
        self.request_body(&old.node, &new.node, Direction::Request);
        self.is_in_response = true;
        self.responses(&old.node.at("responses"), &new.node.at("responses"), Direction::Response);
        self.is_in_response = false;
        self.callbacks(&old.node.at("callbacks"), &new.node.at("callbacks"));
    }

    /// Calls that the service makes: their requests are received, their responses are sent.
    fn callbacks(&mut self, old: &Node<'_>, new: &Node<'_>) {
        for (name, ..) in side_by_side(old, new) {
            let (was, is) = (old.at(name).resolved(), new.at(name).resolved());
            for (url, was, is) in side_by_side(&was, &is) {
                match (was, is) {
                    (Some(was), Some(is)) => self.calls(&format!("{name} {url}"), url, &was, &is),
                    (Some(_), None) => {
                        let message =
                            format!("the callback {name} {url} is gone: code that waits for it breaks");
                        self.breaks(&old.pointer.at(name), message);
                    }
                    (None, Some(_)) => {
                        self.allows(&new.pointer.at(name), format!("the callback {name} {url} is new"));
                    }
                    (None, None) => {}
                }
            }
        }
    }

    fn calls(&mut self, name: &str, url: &str, old: &Node<'_>, new: &Node<'_>) {
        let (old, new) = (old.resolved(), new.resolved());
        for method in METHODS {
            match (Operation::new(&old, url, method), Operation::new(&new, url, method)) {
                (Some(was), Some(is)) => self.callback(&was, &is),
                (None, None) => {}
                _ => {
                    let message = format!("the callback {name} has another method: its receiver breaks");
                    self.breaks(&new.pointer, message);
                }
            }
        }
    }

    fn callback(&mut self, old: &Operation<'_>, new: &Operation<'_>) {
        self.callback_parameters(old, new);
        let (old, new) = (&old.node, &new.node);
        self.words(old, new, &["summary", "description"]);
        self.callback_security(&old.at("security"), &new.at("security"));
        self.request_body(old, new, Direction::Response);
        self.responses(&old.at("responses"), &new.at("responses"), Direction::Request);
    }

    /// The tags of an operation name modules or classes of generated clients.
    fn operation_tags(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let pointer = new.pointer.at("tags");
        let (old_tags, new_tags) = (old.texts("tags"), new.texts("tags"));
        for tag in old_tags.difference(&new_tags) {
            let message = format!("the tag {tag} is gone: the method is in another module or class");
            self.breaks_only(grouping_by_tag(), &pointer, message);
        }
        if old_tags.is_subset(&new_tags) && old_tags.first() != new_tags.first() {
            let message = "another tag comes first: the method is in another module";
            self.breaks_only(of(&[&["openapi-python-client"]]), &pointer, message);
        } else {
            for tag in new_tags.difference(&old_tags) {
                self.allows(&pointer, format!("the tag {tag} is new on it"));
            }
        }
    }
}

pub(super) fn with_arguments<'a>(document: &Node<'a>) -> Vec<Node<'a>> {
    let all = operations(&document.at("paths")).into_values();
    let has_arguments = |operation: &Operation<'_>| {
        let is_listed = |node: &Node<'_>| !node.at("parameters").value.items().is_empty();
        operation.node.has("requestBody") || is_listed(&operation.node) || is_listed(&operation.path_item)
    };
    all.filter(has_arguments).map(|operation| operation.node).collect()
}

fn operations<'a>(paths: &Node<'a>) -> BTreeMap<(String, &'static str), Operation<'a>> {
    let all = paths.members().flat_map(|(path, path_item)| {
        let path_item = path_item.resolved();
        METHODS.iter().filter_map(move |method| Operation::new(&path_item, path, method))
    });
    all.map(|operation| (operation.route(), operation)).collect()
}

/// The path with `{}` for every parameter: names of path parameters do not travel.
pub(super) fn without_names(path: &str) -> String {
    let mut pieces = path.split('{');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |path, piece| path + "{}" + piece.split_once('}').map_or(piece, |(_, rest)| rest))
}

/// Returns true if the path `old` covers the path `new`, so that calls of `old` may reach `new`.
pub(super) fn shadows(new: &str, old: &str) -> bool {
    let (new, old) = (without_names(new), without_names(old));
    let (new, old): (Vec<&str>, Vec<&str>) = (new.split('/').collect(), old.split('/').collect());
    let covers = |old: &str, new: &str| match (old.split_once("{}"), old.rsplit_once("{}")) {
        (Some((before, _)), Some((_, after))) => new.starts_with(before) && new.ends_with(after),
        _ => new == old,
    };
    new.len() == old.len() && new.iter().zip(&old).all(|(new, old)| covers(old, new))
}

#[cfg(test)]
mod tests {
    use super::shadows;

    #[test]
    fn a_path_covers_another_one_when_its_parameters_take_values_of_it() {
        for (new, old, covers) in [
            ("/tasks/all", "/tasks/{id}", true),
            ("/tasks/all:cancel", "/tasks/{id}:cancel", true),
            ("/files/index.json", "/files/{name}.json", true),
            ("/tasks/all:start", "/tasks/{id}:cancel", false),
            ("/tasks/{id}:start", "/tasks/{id}:cancel", false),
            ("/tasks/all/runs", "/tasks/{id}", false),
        ] {
            assert_eq!(shadows(new, old), covers, "{new} {old}");
        }
    }
}
