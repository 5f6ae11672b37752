//! Comparison of two versions of an OpenAPI document: what changed, and which callers break.
//!
//! A change is breaking when code that relies on the old document needs a change: a request that was accepted may be
//! refused, a response may hold what it never held or lack what it always had, or code generated from the new
//! document does not fit its callers any more; [`Severity`] has the others. Shared schemas are compared where they
//! are used, since the same change may break a request and not a response.
//!
//! A breaking change of what travels breaks every client. One of generated code names the clients
//! (see [`Clients`]) where it depends on the generator.

mod bodies;
mod case;
mod clients;
mod collisions;
mod html;
mod limits;
mod names;
mod node;
mod operations;
mod parameters;
mod pointer;
mod read;
mod report;
mod scan;
mod schemas;
mod security;
mod tree;
mod uses;
mod values;
mod version;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;

use clients::{OPENAPI_GENERATOR, of};
use node::{Node, without_single_all_of};

pub use case::{pascal_case, snake_case};
pub use clients::Clients;
pub use html::{escaped, html};
pub use operations::METHODS;
pub use pointer::Pointer;
pub use read::{load, one_line, parse, read};
pub use report::{json, lines, markdown, text, verdict_in_words};
pub use tree::{NULL, Tree};
pub use uses::Uses;
pub use version::{Version, check_version};

/// Extensions that openapi-generator acts on: it leaves out what is internal, and names the argument of a body.
const ACTED_ON: [&str; 2] = ["x-internal", "x-codegen-request-body-name"];

/// Severity of a change. The highest severity of a list of changes is the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Only texts for people changed.
    Docs,
    /// The new document accepts more or promises more.
    Compatible,
    /// Callers or their generated code need a change.
    Breaking,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Severity of the change.
    pub severity: Severity,
    /// The generated clients that break, when it depends on the generator. Of a compatible change those
    /// that break at run time, because they refuse what the document announces.
    pub breaks: Clients,
    /// The operation, or the model kind; none for what concerns the document as a whole.
    pub operation: Option<String>,
    /// In the new document, unless it is gone from there.
    pub pointer: Pointer,
    /// The change is in a response of the operation.
    pub is_in_response: bool,
    /// True if the change breaks generated code alone, and no message differs.
    pub is_of_code: bool,
    /// Description of the change and of its consequence.
    pub message: String,
}

/// All changes, in the order of the old document.
pub struct Changes {
    /// In the order of the old document.
    pub list: Vec<Change>,
    operations: BTreeSet<String>,
}

impl Changes {
    /// The worst severity; none when nothing changed.
    pub fn verdict(&self) -> Option<Severity> {
        self.list.iter().map(|change| change.severity).max()
    }

    /// Returns whether something breaks.
    pub fn breaks(&self) -> bool {
        self.verdict() == Some(Severity::Breaking)
    }
}

/// Direction in which a value travels: the change that widens a request narrows a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    Request,
    Response,
}

/// Compares two documents. Only a [`Tree`] knows the order of properties.
pub fn compare<D: Clone + Into<Tree>>(old: &D, new: &D) -> Changes {
    let [old, new] = [old, new].map(|document| without_single_all_of(&document.clone().into()));
    let mut comparison = Comparison { unchanged: unchanged_targets(&old, &new), ..Comparison::default() };
    comparison.documents(&Node::root(&old), &Node::root(&new));
    Changes { list: comparison.changes, operations: comparison.operations }
}

fn unchanged_targets(old: &Tree, new: &Tree) -> BTreeSet<String> {
    let all: BTreeSet<&str> = references(old).chain(references(new)).collect();
    let same = |reference| {
        let [target, other] = [old, new].map(|document| document.pointer(reference).unwrap_or(NULL));
        target.is_same_in_order(other).then_some((reference, target))
    };
    let mut unchanged: BTreeMap<&str, &Tree> = all.into_iter().filter_map(same).collect();
    loop {
        let before = unchanged.len();
        let known: BTreeSet<&str> = unchanged.keys().copied().collect();
        unchanged.retain(|_, target| references(target).all(|reference| known.contains(reference)));
        if unchanged.len() == before {
            return known.into_iter().map(str::to_owned).collect();
        }
    }
}

fn references(value: &Tree) -> Box<dyn Iterator<Item = &str> + '_> {
    let own = value["$ref"].as_str();
    let members = value.members().map(|(_, member)| member).chain(value.items());
    Box::new(own.into_iter().chain(members.flat_map(references)))
}

#[derive(Default)]
struct Comparison {
    changes: Vec<Change>,
    operations: BTreeSet<String>,
    unchanged: BTreeSet<String>,
    operation: Option<String>,
    is_in_response: bool,
    /// Pairs of schemas that were compared for that operation: a schema is shared, or holds itself.
    compared: BTreeSet<(usize, usize, Direction)>,
    /// Names of new components, by the name of the component that each replaces.
    replaced: BTreeMap<String, String>,
}

impl Comparison {
    fn about(&mut self, operation: Option<&str>) {
        self.operation = operation.map(str::to_owned);
        self.compared.clear();
    }

    fn found(&mut self, severity: Severity, breaks: Clients, pointer: &Pointer, message: impl Into<String>) {
        let operation = self.operation.clone();
        let (pointer, message) = (pointer.clone(), message.into());
        let is_in_response = self.is_in_response;
        let is_of_code = !breaks.is_empty();
        let change = Change { severity, breaks, operation, pointer, is_in_response, is_of_code, message };
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    fn breaks(&mut self, pointer: &Pointer, message: impl Into<String>) {
        self.found(Severity::Breaking, Clients::new(), pointer, message);
    }

    fn breaks_code(&mut self, pointer: &Pointer, message: impl Into<String>) {
        self.breaks(pointer, message);
        if let Some(change) = self.changes.last_mut() {
            change.is_of_code = true;
        }
    }

    fn breaks_only(&mut self, clients: Clients, pointer: &Pointer, message: impl Into<String>) {
        let severity = if clients.is_empty() { Severity::Compatible } else { Severity::Breaking };
        self.found(severity, clients, pointer, message);
    }

    fn allows(&mut self, pointer: &Pointer, message: impl Into<String>) {
        self.found(Severity::Compatible, Clients::new(), pointer, message);
    }

    fn says(&mut self, pointer: &Pointer, message: impl Into<String>) {
        self.found(Severity::Docs, Clients::new(), pointer, message);
    }

    fn is_new(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) -> bool {
        let pair = (ptr::from_ref(old.value).addr(), ptr::from_ref(new.value).addr(), direction);
        !self.is_unchanged(Some(old), Some(new)) && self.compared.insert(pair)
    }

    fn is_unchanged(&self, old: Option<&Node<'_>>, new: Option<&Node<'_>>) -> bool {
        let (Some(old), Some(new)) = (old, new) else { return old.is_none() && new.is_none() };
        let is_known = |reference: &str| self.unchanged.contains(reference);
        old.value.is_same_in_order(new.value) && references(old.value).all(is_known)
    }

    fn words(&mut self, old: &Node<'_>, new: &Node<'_>, keywords: &[&str]) {
        for keyword in keywords {
            if old.value.get(keyword) != new.value.get(keyword) {
                // Where it is used: the old one may stand in a component that did not change.
                let pointer =
                    if new.value.is_null() { old.pointer.at(keyword) } else { new.pointer.at(keyword) };
                let change = match (old.has(keyword), new.has(keyword)) {
                    (false, _) => "is new",
                    (_, false) => "is gone",
                    _ => "differs",
                };
                self.says(&pointer, format!("`{keyword}` {change}"));
            }
        }
    }

    /// Extensions that are not compared elsewhere change no call.
    fn extensions(&mut self, old: &Node<'_>, new: &Node<'_>, known: &[&str]) {
        let names: BTreeSet<&str> = old.keys().chain(new.keys()).collect();
        let others: Vec<&str> =
            names.into_iter().filter(|name| name.starts_with("x-") && !known.contains(name)).collect();
        let (acted_on, others): (Vec<&str>, Vec<&str>) =
            others.into_iter().partition(|name| ACTED_ON.contains(name));
        self.words(old, new, &others);
        for name in acted_on {
            if old.value.get(name) != new.value.get(name) {
                let pointer = if new.has(name) { new.pointer.at(name) } else { old.pointer.at(name) };
                let message = format!("`{name}` differs: generated code has other methods or arguments");
                self.breaks_only(of(&[OPENAPI_GENERATOR]), &pointer, message);
            }
        }
    }

    /// `deprecated` is a notice: what carries it goes on working.
    fn deprecation(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let (old, new) = (old.holder("deprecated"), new.holder("deprecated"));
        let pointer = new.pointer.at("deprecated");
        match (old.is_true("deprecated"), new.is_true("deprecated")) {
            (false, true) => self.allows(&pointer, "is deprecated now; it goes on working"),
            (true, false) => self.allows(&pointer, "is no longer deprecated"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use serde_json::{Value, json};

    use super::*;

    fn document() -> Value {
        serde_saphyr::from_str(include_str!("../../../openapi/inferstore.yaml")).unwrap_or_default()
    }

    fn places(value: &Value, here: &str, found: &mut Vec<String>) {
        found.push(here.to_owned());
        let children: Vec<(String, &Value)> = match value {
            Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
            Value::Array(items) => {
                items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect()
            }
            _ => Vec::new(),
        };
        for (name, child) in children {
            let name = name.replace('~', "~0").replace('/', "~1");
            places(child, &format!("{here}/{name}"), found);
        }
    }

    fn changed(document: &Value, places: &[String], changes: Vec<(Index, Value)>) -> Value {
        let mut document = document.clone();
        for (pointer, value) in changes {
            if let Some(there) = document.pointer_mut(&places[pointer.index(places.len())]) {
                *there = value;
            }
        }
        document
    }

    fn changes() -> impl Strategy<Value = Vec<(Index, Value)>> {
        let odd = [
            json!(null),
            json!({}),
            json!([]),
            json!(["a"]),
            json!("string"),
            json!(7),
            json!(true),
            json!({"$ref": "#"}),
        ];
        proptest::collection::vec((any::<Index>(), select(odd.to_vec())), 1..4)
    }

    #[test]
    fn a_reference_that_leads_nowhere_in_both_documents_is_no_difference() {
        let mut document = document();
        document["components"]["parameters"] = Value::Null;
        document["components"]["schemas"]["BlendingMethod"] = json!({"$ref": "#"});
        assert_eq!(compare(&document, &document).list, []);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_document_differs_from_itself_and_every_change_has_a_message(changes in changes()) {
            let document = document();
            let mut all = Vec::new();
            places(&document, "", &mut all);
            let changed = changed(&document, &all, changes);
            prop_assert!(compare(&changed, &changed).list.is_empty());
            for (old, new) in [(&document, &changed), (&changed, &document)] {
                let changes = compare(old, new);
                prop_assert!(changes.list.iter().all(|change| !change.message.is_empty()));
                prop_assert!(old != new || changes.list.is_empty());
            }
        }
    }
}
