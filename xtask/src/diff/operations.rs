//! Operations: which ones there are, and what each one says of itself.

use std::collections::BTreeMap;

use super::Comparison;
use super::node::Node;
use crate::validate::METHODS;

/// An operation with what its path adds to it.
pub(super) struct Operation<'a> {
    document: Node<'a>,
    pub(super) path_item: Node<'a>,
    pub(super) node: Node<'a>,
    path: &'a str,
    method: &'static str,
}

impl<'a> Operation<'a> {
    /// As reports call it.
    fn id(&self) -> String {
        self.node.text("operationId").map_or_else(|| format!("{} {}", self.method, self.path), str::to_owned)
    }

    /// Names of path parameters do not travel.
    fn route(&self) -> (String, &'static str) {
        let nameless = |part: &str| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() };
        (self.path.split('/').map(nameless).collect::<Vec<_>>().join("/"), self.method)
    }

    /// The names of the path parameters, in the order of the path.
    pub(super) fn path_names(&self) -> Vec<&'a str> {
        let parts = self.path.split('/');
        parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect()
    }

    /// The keyword of the operation, else of its path, else of the document.
    fn nearest(&self, keyword: &str) -> Node<'a> {
        let around = [&self.node, &self.path_item, &self.document];
        around.iter().find_map(|node| node.get(keyword)).unwrap_or_else(|| self.document.at(keyword))
    }
}

impl Comparison {
    pub(super) fn operations(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (old, new) = (operations(old), operations(new));
        self.operations = old.values().chain(new.values()).map(Operation::id).collect();
        let ids = |operations: &BTreeMap<_, Operation<'_>>| -> BTreeMap<String, String> {
            let told = |operation: &Operation<'_>| format!("{} {}", operation.method, operation.path);
            operations.values().map(|operation| (operation.id(), told(operation))).collect()
        };
        let (old_ids, new_ids) = (ids(&old), ids(&new));
        for (route, operation) in &old {
            let id = operation.id();
            self.about(Some(&id));
            match (new.get(route), new_ids.get(&id)) {
                (Some(same), _) => self.operation(operation, same),
                (None, Some(moved)) => self.breaks(
                    &operation.node.place,
                    format!("is `{moved}` now: whoever calls it where it was breaks"),
                ),
                (None, None) => {
                    self.breaks(&operation.node.place, "the operation is gone: whoever calls it breaks");
                }
            }
        }
        for (route, operation) in &new {
            let id = operation.id();
            if !old.contains_key(route) && !old_ids.contains_key(&id) {
                self.about(Some(&id));
                self.allows(&operation.node.place, "the operation is new; nobody breaks");
            }
        }
    }

    fn operation(&mut self, old: &Operation<'_>, new: &Operation<'_>) {
        let place = &new.node.place;
        if old.node.value["operationId"] != new.node.value["operationId"] {
            let message =
                format!("is called {} now: the method of generated clients has that name", new.id());
            self.breaks(&place.at("operationId"), message);
        }
        self.operation_tags(&old.node, &new.node);
        self.words(&old.path_item, &new.path_item, &["summary", "description"]);
        self.words(&old.node, &new.node, &["summary", "description", "externalDocs"]);
        self.extensions(&old.node, &new.node, &[]);
        self.deprecation(&old.node, &new.node);
        self.servers(&old.nearest("servers"), &new.nearest("servers"));
        self.security(&old.nearest("security"), &new.nearest("security"));
        self.parameters(old, new);
        self.request_body(&old.node, &new.node);
        self.responses(&old.node.at("responses"), &new.node.at("responses"));
    }

    /// Generators put an operation into a module or a class for each of its tags; some take the first
    /// one only.
    fn operation_tags(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let place = new.place.at("tags");
        let (old_tags, new_tags) = (old.texts("tags"), new.texts("tags"));
        for tag in old_tags.difference(&new_tags) {
            let message = format!("the tag {tag} is gone: generated clients have the operation elsewhere");
            self.breaks(&place, message);
        }
        if old_tags.is_subset(&new_tags) && old.at("tags").value.get(0) != new.at("tags").value.get(0) {
            self.breaks(&place, "another tag comes first: some generated clients have it elsewhere");
        } else {
            for tag in new_tags.difference(&old_tags) {
                self.allows(&place, format!("the tag {tag} is new on it; nobody breaks"));
            }
        }
    }
}

/// All operations of a document by route.
fn operations<'a>(document: &Node<'a>) -> BTreeMap<(String, &'static str), Operation<'a>> {
    let paths = document.at("paths");
    let all = paths.members().flat_map(|(path, path_item)| {
        METHODS.iter().filter_map(move |method| {
            let node = path_item.get(method)?;
            let (document, path_item) = (document.clone(), path_item.clone());
            Some(Operation { document, path_item, node, path, method })
        })
    });
    all.map(|operation| (operation.route(), operation)).collect()
}
