//! Parameters of an operation, those of its path included.

use std::collections::BTreeMap;

use super::node::Node;
use super::operations::Operation;
use super::{Comparison, Direction};

impl Comparison {
    pub(super) fn parameters(&mut self, old: &Operation<'_>, new: &Operation<'_>) {
        for (was, is) in old.path_names().iter().zip(new.path_names()) {
            if *was != is {
                let message = format!(
                    "the path parameter {was} is called {is} now: the argument of generated clients has that name"
                );
                self.breaks(&new.path_item.place, message);
            }
        }
        let (old, new) = (parameters(old), parameters(new));
        for (key, was) in &old {
            match new.get(key) {
                Some(is) => self.parameter(was, is),
                None => {
                    self.breaks(&was.place, format!("the {} is gone: whoever sends it breaks", told(was)));
                }
            }
        }
        for (_, is) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
            if is.is_true("required") {
                let message =
                    format!("the {} is new and required: whoever does not send it breaks", told(is));
                self.breaks(&is.place, message);
            } else {
                self.allows(&is.place, format!("the {} is new and optional; nobody breaks", told(is)));
            }
        }
    }

    fn parameter(&mut self, old: &Node<'_>, new: &Node<'_>) {
        self.words(old, new, &["description", "example", "examples"]);
        self.extensions(old, new, &[]);
        self.deprecation(old, new);
        self.required_to_send(old, new, &told(new));
        for keyword in ["style", "explode", "allowReserved"] {
            if old.value.get(keyword) != new.value.get(keyword) {
                let message = format!("`{keyword}` of the {} differs: it is spelled otherwise", told(new));
                self.breaks(&new.place.at(keyword), message);
            }
        }
        match (old.is_true("allowEmptyValue"), new.is_true("allowEmptyValue")) {
            (true, false) => {
                let message = format!("the {} may not be empty any more", told(new));
                self.breaks(&new.place, message);
            }
            (false, true) => self.allows(&new.place, format!("the {} may be empty now", told(new))),
            _ => {}
        }
        match (old.get("schema"), new.get("schema")) {
            (Some(old), Some(new)) => self.schema(&old, &new, Direction::Request),
            _ => self.content(old, new, Direction::Request),
        }
    }

    /// Whether something must be sent.
    pub(super) fn required_to_send(&mut self, old: &Node<'_>, new: &Node<'_>, told: &str) {
        match (old.is_true("required"), new.is_true("required")) {
            (false, true) => self.breaks(
                &new.place.at("required"),
                format!("the {told} is required now: whoever does not send it breaks"),
            ),
            (true, false) => {
                self.allows(&new.place, format!("the {told} is optional now; nobody breaks"));
            }
            _ => {}
        }
    }
}

/// The parameters of the operation by where they travel and their name; by their place in the path,
/// if that is where. Those of the operation replace those of its path.
fn parameters<'a>(operation: &Operation<'a>) -> BTreeMap<(String, String), Node<'a>> {
    let names = operation.path_names();
    let both = [operation.path_item.at("parameters"), operation.node.at("parameters")];
    let all = both.iter().flat_map(Node::items).map(|parameter| parameter.resolved());
    let keyed = all.filter_map(|parameter| {
        let (place, name) = (parameter.text("in")?, parameter.text("name")?);
        let index = names.iter().position(|known| *known == name).filter(|_| place == "path");
        let name = match index {
            Some(index) => index.to_string(),
            // Names of headers are not case-sensitive.
            None if place == "header" => name.to_lowercase(),
            None => name.to_owned(),
        };
        Some(((place.to_owned(), name), parameter))
    });
    keyed.collect()
}

fn told(parameter: &Node<'_>) -> String {
    let part = |key| parameter.text(key).unwrap_or_default();
    format!("{} parameter {}", part("in"), part("name"))
}
