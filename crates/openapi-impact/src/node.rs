//! A value in one of the two documents, with its place. It follows references.

use indexmap::{IndexMap, IndexSet};

use crate::pointer::Pointer;
use crate::tree::{NULL, Tree};

/// Bounds a chain of references, which may be a ring.
const MAX_STEPS: usize = 16;

/// Keywords that may stand beside a single `allOf` without changing the type.
const ANNOTATIONS: [&str; 10] = [
    "title",
    "description",
    "example",
    "examples",
    "externalDocs",
    "deprecated",
    "nullable",
    "default",
    "readOnly",
    "writeOnly",
];

pub(super) const EXAMPLES: [&str; 2] = ["example", "examples"];

type Members = IndexMap<String, Tree>;

#[derive(Clone)]
pub(super) struct Node<'a> {
    document: &'a Tree,
    pub(super) value: &'a Tree,
    pub(super) pointer: Pointer,
}

impl<'a> Node<'a> {
    pub(super) fn root(document: &'a Tree) -> Self {
        Self { document, value: document, pointer: Pointer::root() }
    }

    pub(super) fn at(&self, key: &str) -> Self {
        let value = match self.value {
            Tree::List(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
            other => other.get(key),
        };
        Self { document: self.document, value: value.unwrap_or(NULL), pointer: self.pointer.at(key) }
    }

    pub(super) fn get(&self, key: &str) -> Option<Self> {
        Some(self.at(key)).filter(|_| self.has(key))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.value.get(key).is_some()
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.value[key].is(true)
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.value.get(key)?.as_str()
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        if let Tree::Scalar(scalar) = self.value.get(key)? { scalar.as_f64() } else { None }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.members().map(|(key, _)| key)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, Self)> {
        self.keys().map(|key| (key, self.at(key)))
    }

    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        (0..self.value.items().len()).map(|index| self.at(&index.to_string()))
    }

    pub(super) fn texts(&self, key: &str) -> IndexSet<&'a str> {
        let list = self.value.get(key).map(Tree::items).unwrap_or_default();
        list.iter().filter_map(Tree::as_str).collect()
    }

    pub(super) fn of_document(&self, key: &str) -> Self {
        Self::root(self.document).at(key)
    }

    pub(super) fn document_schemas(&self) -> Self {
        self.of_document("components").at("schemas")
    }

    pub(super) fn component(&self) -> Option<&'a str> {
        let reference = self.chain().find_map(|node| node.text("$ref"))?;
        reference.rsplit('/').next()
    }

    pub(super) fn resolved(&self) -> Self {
        self.chain().last().unwrap_or_else(|| self.clone())
    }

    pub(super) fn holder(&self, keyword: &str) -> Self {
        self.chain().find(|node| node.has(keyword)).unwrap_or_else(|| self.clone())
    }

    pub(super) fn is_optional_property(&self) -> bool {
        let [around @ .., properties, name] = self.pointer.keys() else { return false };
        let parent = around.iter().fold(Self::root(self.document), |node, key| node.at(key));
        properties == "properties" && !parent.texts("required").contains(name.as_str())
    }

    fn chain(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), Self::step).take(MAX_STEPS)
    }

    /// One reference further. A single `allOf` is the way to describe a reference in OpenAPI 3.0.
    fn step(&self) -> Option<Self> {
        if let Some(reference) = self.text("$ref") {
            let unescaped = |key: &str| key.replace("~1", "/").replace("~0", "~");
            let keys = reference.trim_start_matches('#').split('/').skip(1).map(unescaped);
            return Some(keys.fold(Self::root(self.document), |node, key| node.at(&key)));
        }
        let only = self.value["allOf"].items().len() == 1;
        let is_plain = |key: &str| key == "allOf" || ANNOTATIONS.contains(&key) || key.starts_with("x-");
        (only && self.keys().all(is_plain)).then(|| self.at("allOf").at("0"))
    }
}

pub(super) type Pair<'a> = (&'a str, Option<Node<'a>>, Option<Node<'a>>);

pub(super) fn side_by_side<'a>(old: &Node<'a>, new: &Node<'a>) -> Vec<Pair<'a>> {
    let keys: IndexSet<&str> = old.keys().chain(new.keys()).collect();
    keys.into_iter().map(|key| (key, old.get(key), new.get(key))).collect()
}

/// Like [`side_by_side`], for keys that are not case-sensitive, as names of headers are.
pub(super) fn headers_side_by_side<'a>(old: &Node<'a>, new: &Node<'a>) -> Vec<Pair<'a>> {
    let same = |node: &Node<'a>, name: &str| {
        node.members().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, member)| member)
    };
    let added = new.keys().filter(|name| same(old, name).is_none());
    let keys: Vec<&str> = old.keys().chain(added).collect();
    keys.into_iter().map(|key| (key, same(old, key), same(new, key))).collect()
}

pub(super) fn format_value(value: &Tree) -> String {
    match value.as_str() {
        Some(text) => format!("`{text}`"),
        None if value.is_null() => "nothing".to_owned(),
        None => format!("`{}`", serde_json::to_string(value).unwrap_or_default()),
    }
}

pub(super) fn transition(what: &str, was: &Tree, is: &Tree) -> String {
    match (was.is_null(), is.is_null()) {
        (true, false) => format!("{what} {} is new", format_value(is)),
        (false, true) => format!("{what} {} is gone", format_value(was)),
        _ => format!("{what} is {} and no longer {}", format_value(is), format_value(was)),
    }
}

/// The document with every `allOf` of one inline schema merged into what surrounds it.
pub(super) fn without_single_all_of(value: &Tree) -> Tree {
    match value {
        Tree::Map(members) => {
            let mut merged = IndexMap::new();
            for (key, member) in members {
                if EXAMPLES.contains(&key.as_str()) {
                    merged.insert(key.clone(), member.clone());
                } else if let Some(part) = inline_part(members, key, member) {
                    for (key, member) in part {
                        if !members.contains_key(key) {
                            merged.insert(key.clone(), without_single_all_of(member));
                        }
                    }
                } else {
                    merged.insert(key.clone(), without_single_all_of(member));
                }
            }
            Tree::Map(merged)
        }
        Tree::List(items) => Tree::List(items.iter().map(without_single_all_of).collect()),
        scalar => scalar.clone(),
    }
}

/// The one schema of an `allOf`, if it is inline and says nothing else than what surrounds it.
fn inline_part<'a>(around: &Members, key: &str, all_of: &'a Tree) -> Option<&'a Members> {
    let [Tree::Map(part)] = all_of.items() else { return None };
    let agrees = |(key, value): (&String, &Tree)| {
        ANNOTATIONS.contains(&key.as_str()) || around.get(key).is_none_or(|other| other == value)
    };
    (key == "allOf" && !part.contains_key("$ref") && part.iter().all(agrees)).then_some(part)
}
