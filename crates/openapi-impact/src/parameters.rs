//! Parameters of an operation, those of its path included.

use std::collections::BTreeMap;

use super::clients::{HEADER_ARGUMENTS, NAMED_ARGUMENTS, POSITIONAL, POSITIONAL_REQUIRED, of};
use super::node::Node;
use super::operations::Operation;
use super::{Comparison, Direction};

/// Location of a parameter (`in`), and its name or, for a path parameter, its index in the path.
type Key = (String, String);

impl Comparison {
    pub(super) fn parameters(&mut self, old: &Operation<'_>, new: &Operation<'_>) {
        for (was, is) in old.path_names().iter().zip(new.path_names()) {
            if *was != is {
                let message =
                    format!("the path parameter {was} is called {is} now: arguments are named after it");
                self.breaks_only(of(&[NAMED_ARGUMENTS]), &new.path_item.pointer, message);
            }
        }
        self.order_of_arguments(old, new);
        let parameters = new.node.pointer.at("parameters");
        let (old, new) = (by_key(old), by_key(new));
        let old_names: Vec<&str> = old.values().filter_map(|parameter| parameter.text("name")).collect();
        let new_names: Vec<&str> = new.values().filter_map(|parameter| parameter.text("name")).collect();
        self.parameter_collisions(&old_names, &new_names, &parameters);
        for (key, was) in &old {
            match new.get(key) {
                Some(is) => self.parameter(was, is),
                None => {
                    self.breaks(&was.pointer, format!("the {} is gone: requests with it break", named(was)));
                }
            }
        }
        for (_, is) in new.iter().filter(|(key, _)| !old.contains_key(*key) && is_required(key, &new)) {
            let message = format!("the {} is new and required: requests without it are refused", named(is));
            self.breaks(&is.pointer, message);
        }
    }

    /// Generated methods take parameters, and last the body, by their position: the required ones first.
    fn order_of_arguments(&mut self, old: &Operation<'_>, new: &Operation<'_>) {
        let (was, is) = (arguments(old), arguments(new));
        let (was_all, is_all) = (was.concat(), is.concat());
        let is_known = |argument: &&Argument<'_>| was_all.iter().any(|other| other.key == argument.key);
        let has_swapped = |was: &[Argument<'_>], is: &[Argument<'_>]| {
            let common = |list: &[Argument<'_>], other: &[Argument<'_>]| -> Vec<Key> {
                let is_common = |one: &&Argument<'_>| other.iter().any(|other| other.key == one.key);
                list.iter().filter(is_common).map(|argument| argument.key.clone()).collect()
            };
            common(was, is) != common(is, was)
        };
        if has_swapped(&was_all, &is_all) {
            let mut clients = of(&[POSITIONAL, &["Python"]]);
            if has_swapped(&was[0], &is[0]) {
                clients.extend(POSITIONAL_REQUIRED);
            }
            let names: Vec<String> = is_all.iter().map(|argument| named(&argument.node)).collect();
            let message =
                format!("the order is {} now: positional arguments change places", names.join(", "));
            self.breaks_only(clients, &new.node.pointer.at("parameters"), message);
        }
        for (index, added) in is_all.iter().enumerate().filter(|(_, argument)| !is_known(argument)) {
            if is[0].iter().any(|required| required.key == added.key) {
                // It breaks everyone, and is reported as such.
                continue;
            }
            let mut clients = of(&[POSITIONAL]);
            if is_all[index..].iter().any(|after| is_known(&after)) {
                clients.insert("Python");
            }
            if was_all.is_empty() {
                clients.insert("TypeScript");
            }
            // orval gathers the query in one argument, in front of the options.
            if !was_all.iter().any(|argument| argument.key.0 == added.key.0) {
                clients.insert("orval");
            }
            let message = format!("the {} is new and optional: it is one more argument", named(&added.node));
            self.breaks_only(clients, &added.node.pointer, message);
        }
    }

    /// The parameters of a call that the service makes: they are received.
    pub(super) fn callback_parameters(&mut self, old: &Operation<'_>, new: &Operation<'_>) {
        let (old, new) = (by_key(old), by_key(new));
        for (key, was) in &old {
            match new.get(key) {
                Some(is) => self.received(&named(is), was, is),
                None => {
                    self.breaks(
                        &was.pointer,
                        format!("the {} is gone: code that reads it breaks", named(was)),
                    );
                }
            }
        }
        for (_, is) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
            self.allows(&is.pointer, format!("the {} is new", named(is)));
        }
    }

    pub(super) fn received(&mut self, name: &str, old: &Node<'_>, new: &Node<'_>) {
        self.words(old, new, &["description", "example", "examples"]);
        self.extensions(old, new, &[]);
        self.deprecation(old, new);
        match (old.is_true("required"), new.is_true("required")) {
            (true, false) => {
                self.breaks(&new.pointer, format!("the {name} may be absent: code that relies on it breaks"));
            }
            (false, true) => self.allows(&new.pointer, format!("the {name} is always there now")),
            _ => {}
        }
        if serialization(old) != serialization(new) {
            self.breaks(
                &new.pointer,
                format!("the {name} is serialized otherwise: code that reads it breaks"),
            );
        }
        if let (Some(old), Some(new)) = (old.get("schema"), new.get("schema")) {
            self.schema(&old, &new, Direction::Response);
        }
        self.content(old, new, Direction::Response);
    }

    fn parameter(&mut self, old: &Node<'_>, new: &Node<'_>) {
        self.words(old, new, &["description", "example", "examples"]);
        self.extensions(old, new, &[]);
        self.deprecation(old, new);
        self.required_to_send(old, new, &named(new));
        if old.text("in") == Some("header") && old.text("name") != new.text("name") {
            let message = format!("the {} is spelled otherwise: arguments are named after it", named(new));
            self.breaks_only(of(&[HEADER_ARGUMENTS]), &new.pointer.at("name"), message);
        }
        if serialization(old) != serialization(new) {
            let message = format!("the {} is serialized otherwise: requests mean something else", named(new));
            self.breaks(&new.pointer, message);
        }
        match (old.is_true("allowEmptyValue"), new.is_true("allowEmptyValue")) {
            (true, false) => {
                let message =
                    format!("the {} may not be empty any more: such requests are refused", named(new));
                self.breaks(&new.pointer, message);
            }
            (false, true) => self.allows(&new.pointer, format!("the {} may be empty now", named(new))),
            _ => {}
        }
        if let (Some(old), Some(new)) = (old.get("schema"), new.get("schema")) {
            self.schema(&old, &new, Direction::Request);
        }
        self.content(old, new, Direction::Request);
    }

    pub(super) fn required_to_send(&mut self, old: &Node<'_>, new: &Node<'_>, name: &str) {
        match (old.is_true("required"), new.is_true("required")) {
            (false, true) => self.breaks(
                &new.pointer.at("required"),
                format!("the {name} is required now: requests without it are refused"),
            ),
            (true, false) => {
                let message = format!("the {name} is optional now: it is another argument");
                self.breaks_only(of(&[POSITIONAL_REQUIRED]), &new.pointer, message);
            }
            _ => {}
        }
    }
}

#[derive(Clone)]
struct Argument<'a> {
    key: Key,
    node: Node<'a>,
}

fn arguments<'a>(operation: &Operation<'a>) -> [Vec<Argument<'a>>; 2] {
    let body = operation.node.get("requestBody").map(|node| (("body".to_owned(), String::new()), node));
    let all = in_order(operation).into_iter().chain(body);
    let all = all.map(|(key, node)| Argument { key, node });
    let (required, optional) = all.partition(|argument| argument.node.resolved().is_true("required"));
    [required, optional]
}

/// Returns the parameters of an operation; its own parameters replace those of its path, in their place.
fn in_order<'a>(operation: &Operation<'a>) -> Vec<(Key, Node<'a>)> {
    let names = operation.path_names();
    let both = [operation.path_item.at("parameters"), operation.node.at("parameters")];
    let all = both.iter().flat_map(Node::items).map(|parameter| parameter.resolved());
    let keyed = all.filter_map(|parameter| {
        let (pointer, name) = (parameter.text("in")?, parameter.text("name")?);
        let index = names.iter().position(|known| *known == name).filter(|_| pointer == "path");
        let name = match index {
            Some(index) => index.to_string(),
            None if pointer == "header" => name.to_lowercase(),
            None => name.to_owned(),
        };
        Some(((pointer.to_owned(), name), parameter))
    });
    let mut parameters: Vec<(Key, Node<'a>)> = Vec::new();
    for (key, node) in keyed {
        match parameters.iter_mut().find(|(known, _)| *known == key) {
            Some((_, of_the_path)) => *of_the_path = node,
            None => parameters.push((key, node)),
        }
    }
    parameters
}

fn by_key<'a>(operation: &Operation<'a>) -> BTreeMap<Key, Node<'a>> {
    in_order(operation).into_iter().collect()
}

fn is_required(key: &Key, parameters: &BTreeMap<Key, Node<'_>>) -> bool {
    parameters.get(key).is_some_and(|parameter| parameter.is_true("required"))
}

fn serialization<'a>(parameter: &Node<'a>) -> (bool, &'a str, bool, bool) {
    let is_form = matches!(parameter.text("in"), Some("query" | "cookie"));
    serialization_by_default(parameter, if is_form { "form" } else { "simple" })
}

pub(super) fn serialization_by_default<'a>(
    parameter: &Node<'a>,
    style: &'a str,
) -> (bool, &'a str, bool, bool) {
    let style = parameter.text("style").unwrap_or(style);
    let explode = parameter.get("explode").map_or(style == "form", |explode| explode.value.is(true));
    (parameter.has("content"), style, explode, parameter.is_true("allowReserved"))
}

fn named(parameter: &Node<'_>) -> String {
    match (parameter.text("in"), parameter.text("name")) {
        (Some(location), Some(name)) => format!("{location} parameter {name}"),
        _ => "body".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::compare;

    #[test]
    fn a_parameter_of_the_path_that_an_operation_repeats_is_one_argument() {
        let id = json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}});
        let limit = json!({"name": "limit", "in": "query", "schema": {"type": "integer"}});
        let mut old = json!({"paths": {"/a/{id}": {"parameters": [id, limit], "get": {"operationId": "a"}}}});
        let mut new = old.clone();
        new["paths"]["/a/{id}"]["get"]["parameters"] = json!([id]);
        assert_eq!(compare(&old, &new).list, []);
        std::mem::swap(&mut old, &mut new);
        assert_eq!(compare(&old, &new).list, []);
    }
}
