//! What changed between two versions of the document, and whom it breaks.
//!
//! A change is breaking when someone who did what the old document says has to do something about it:
//! a request that was accepted may be refused, an answer may hold what it never held or lack what it
//! always had, or code generated from the new document has other names. It is compatible when the new
//! document only accepts more or promises more, and docs only when nothing but words changed. What is
//! shared is compared where it is used, since the same change may break a request and not an answer.

mod bodies;
mod command;
mod generated_names;
mod limits;
mod node;
mod operations;
mod parameters;
mod report;
mod schemas;
mod security;
mod values;
mod version;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;

use serde_json::Value;

use crate::document::Place;
use node::Node;

pub(crate) use command::{Job, published, read};
pub(crate) use report::{changes_as_markdown, verdict_in_words};
pub(crate) use version::Version;

/// How bad a change is. The worst one is the verdict on them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Docs,
    Compatible,
    Breaking,
}

/// One change: what it does to whom, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Change {
    pub(crate) severity: Severity,
    /// The operation, or the model kind; none for what concerns the document as a whole.
    pub(crate) operation: Option<String>,
    /// In the new document, unless it is gone from there.
    pub(crate) place: Place,
    pub(crate) message: String,
}

/// All changes, in the order of the old document.
pub(crate) struct Changes {
    pub(crate) list: Vec<Change>,
    /// How many operations there are in either document: "every operation" in reports.
    operations: BTreeSet<String>,
}

impl Changes {
    /// The worst of them; none when nothing changed.
    pub(crate) fn verdict(&self) -> Option<Severity> {
        self.list.iter().map(|change| change.severity).max()
    }
}

/// Which way something travels. What widens a request narrows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    Request,
    Answer,
}

/// Compares two documents.
pub(crate) fn compare(old: &Value, new: &Value) -> Changes {
    let mut comparison = Comparison::default();
    comparison.documents(&Node::root(old), &Node::root(new));
    Changes { list: comparison.changes, operations: comparison.operations }
}

/// The walk over both documents at once.
#[derive(Default)]
struct Comparison {
    changes: Vec<Change>,
    operations: BTreeSet<String>,
    /// What the changes that are found now concern.
    operation: Option<String>,
    /// Pairs of schemas that were compared for that operation: shared schemas are met more than once,
    /// and a schema may hold itself.
    compared: BTreeSet<(usize, usize, Direction)>,
    /// Which component stands now where another one stood.
    replaced: BTreeMap<String, String>,
}

impl Comparison {
    /// Begins with an operation, a model kind, or the document as a whole.
    fn about(&mut self, operation: Option<&str>) {
        self.operation = operation.map(str::to_owned);
        self.compared.clear();
    }

    fn found(&mut self, severity: Severity, place: &Place, message: impl Into<String>) {
        let operation = self.operation.clone();
        let change = Change { severity, operation, place: place.clone(), message: message.into() };
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    fn breaks(&mut self, place: &Place, message: impl Into<String>) {
        self.found(Severity::Breaking, place, message);
    }

    fn allows(&mut self, place: &Place, message: impl Into<String>) {
        self.found(Severity::Compatible, place, message);
    }

    fn says(&mut self, place: &Place, message: impl Into<String>) {
        self.found(Severity::Docs, place, message);
    }

    /// Whether the two have yet to be compared for this operation and direction.
    fn is_new(&mut self, old: &Node<'_>, new: &Node<'_>, direction: Direction) -> bool {
        self.compared.insert((ptr::from_ref(old.value).addr(), ptr::from_ref(new.value).addr(), direction))
    }

    /// Tells which of the keywords, all of them words for people, say something else.
    fn words(&mut self, old: &Node<'_>, new: &Node<'_>, keywords: &[&str]) {
        for keyword in keywords {
            if old.value.get(keyword) != new.value.get(keyword) {
                let place = if new.has(keyword) { new.place.at(keyword) } else { old.place.at(keyword) };
                self.says(&place, format!("`{keyword}` says something else; nobody breaks"));
            }
        }
    }

    /// Extensions that are not known here tell people or tools something, and change no call.
    fn extensions(&mut self, old: &Node<'_>, new: &Node<'_>, known: &[&str]) {
        let names: BTreeSet<&str> = old.keys().chain(new.keys()).collect();
        let others: Vec<&str> =
            names.into_iter().filter(|name| name.starts_with("x-") && !known.contains(name)).collect();
        self.words(old, new, &others);
    }

    /// `deprecated` is a notice: what carries it goes on working.
    fn deprecation(&mut self, old: &Node<'_>, new: &Node<'_>) {
        let place = new.place.at("deprecated");
        match (old.is_true("deprecated"), new.is_true("deprecated")) {
            (false, true) => self.allows(
                &place,
                "is deprecated now; it goes on working, and generated code warns whoever uses it",
            ),
            (true, false) => self.allows(&place, "is no longer deprecated; nobody breaks"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        serde_saphyr::from_str(include_str!("../../../openapi/inferstore.yaml")).unwrap_or_default()
    }

    /// Every place in a value.
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
        for (place, value) in changes {
            if let Some(there) = document.pointer_mut(&places[place.index(places.len())]) {
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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_document_differs_from_itself_and_whatever_differs_is_told(changes in changes()) {
            let document = document();
            let mut all = Vec::new();
            places(&document, "", &mut all);
            let changed = changed(&document, &all, changes);
            prop_assert!(compare(&changed, &changed).list.is_empty());
            for (old, new) in [(&document, &changed), (&changed, &document)] {
                let told = compare(old, new);
                prop_assert!(told.list.iter().all(|change| !change.message.is_empty()));
                prop_assert!(old != new || told.list.is_empty());
            }
        }
    }
}
