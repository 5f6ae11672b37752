//! Single changes of the document. Places are written short: `getBalance/responses/4XX` begins at the
//! operation, `schemas/Balance` and its like at the components, anything else at the root; `JSON`
//! stands for `application/json`, and a slash within a key is `~1`.

use serde_json::{Map, Value};

use crate::support::real_document;

/// A change of a document.
pub(super) type Edit = Box<dyn Fn(&mut Value)>;

const SECTIONS: [&str; 5] = ["schemas", "responses", "parameters", "requestBodies", "securitySchemes"];

/// The real document as data.
pub(super) fn real_value() -> Value {
    serde_saphyr::from_str(&real_document()).expect("the document is YAML")
}

/// Takes away what stands there.
pub(super) fn remove(at: &'static str) -> Edit {
    Box::new(move |document| {
        let (parent, key) = parent(document, at);
        match parent {
            Value::Array(list) => {
                list.remove(key.parse().expect("an index"));
            }
            parent => {
                members(parent).remove(&key).unwrap_or_else(|| panic!("there is no {at}"));
            }
        }
    })
}

/// Puts something there, whether there was something or not.
pub(super) fn set(at: &'static str, value: Value) -> Edit {
    Box::new(move |document| {
        let (parent, key) = parent(document, at);
        match parent {
            Value::Array(list) => list[key.parse::<usize>().expect("an index")] = value.clone(),
            parent => {
                members(parent).insert(key, value.clone());
            }
        }
    })
}

/// Gives what stands there another key.
pub(super) fn rename(at: &'static str, to: &'static str) -> Edit {
    Box::new(move |document| {
        let (parent, key) = parent(document, at);
        let value = members(parent).remove(&key).unwrap_or_else(|| panic!("there is no {at}"));
        members(parent).insert(to.to_owned(), value);
    })
}

/// Adds to the list there, which may be new.
pub(super) fn add(at: &'static str, item: Value) -> Edit {
    Box::new(move |document| {
        let (parent, key) = parent(document, at);
        let list = members(parent).entry(key).or_insert_with(|| Value::Array(Vec::new()));
        list.as_array_mut().expect("a list").push(item.clone());
    })
}

/// Takes a word out of the list there.
pub(super) fn drop_word(at: &'static str, word: &'static str) -> Edit {
    Box::new(move |document| {
        let list = find(document, at).as_array_mut().expect("a list");
        let before = list.len();
        list.retain(|item| item != word);
        assert_eq!(list.len(), before - 1, "there is no {word} at {at}");
    })
}

/// Replaces a text wherever it stands in the document: a name and everything that refers to it.
pub(super) fn everywhere(old: &'static str, new: &'static str) -> Edit {
    Box::new(move |document| {
        let text = document.to_string();
        assert!(text.contains(old), "there is no {old}");
        *document = serde_json::from_str(&text.replace(old, new)).expect("it is still JSON");
    })
}

/// Several changes that only make sense together.
pub(super) fn both<const N: usize>(edits: [Edit; N]) -> Edit {
    Box::new(move |document| edits.iter().for_each(|edit| edit(document)))
}

fn members(value: &mut Value) -> &mut Map<String, Value> {
    value.as_object_mut().expect("a mapping")
}

fn parent<'a>(document: &'a mut Value, at: &str) -> (&'a mut Value, String) {
    let (parent, key) = at.rsplit_once('/').unwrap_or(("", at));
    let key = spelled(key).replace("~1", "/");
    (find(document, parent), key)
}

fn find<'a>(document: &'a mut Value, at: &str) -> &'a mut Value {
    let pointer = pointer(document, at);
    document.pointer_mut(&pointer).unwrap_or_else(|| panic!("there is no {at}, that is {pointer}"))
}

fn pointer(document: &Value, at: &str) -> String {
    let mut keys = at.split('/').filter(|key| !key.is_empty());
    let start = match keys.next() {
        None => String::new(),
        Some(section) if SECTIONS.contains(&section) => format!("/components/{section}"),
        Some(key) if document.get(key).is_some() => format!("/{key}"),
        Some(id) => operation(document, id),
    };
    keys.fold(start, |pointer, key| format!("{pointer}/{}", spelled(key)))
}

fn spelled(key: &str) -> &str {
    if key == "JSON" { "application~1json" } else { key }
}

fn operation(document: &Value, id: &str) -> String {
    let paths = document["paths"].as_object().expect("the document has paths");
    let mut operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.filter(|(_, operation)| operation["operationId"] == id).map(move |(method, _)| (path, method))
    });
    let (path, method) = operations.next().unwrap_or_else(|| panic!("there is no operation {id}"));
    format!("/paths/{}/{method}", path.replace('/', "~1"))
}
