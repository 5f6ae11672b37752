//! Service description against the document: everything that the description names is in the document, in its
//! spelling.
//!
//! The tables of this module were written from the service description alone, never from the document; only
//! where the description gives no name (a page of tasks, the body of a search) do they use the document's.
//! Two independent readings that agree are evidence; a copy is not. If a test fails here, fix the document,
//! not the table.

mod endpoints;
mod kinds;
mod limits;
mod prose;
mod resources;
mod words;

use std::panic::resume_unwind;

use serde_json::Value;

use inferstore_document::{items, members, resolve, schema};

/// Field as in the service description: name, type, and a pattern for [`says`] of its explanation; empty
/// without one.
type Field = (&'static str, &'static str, &'static str);

/// Sign before additions of the document to the original description.
const DECISION: char = '†';

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn unless(&mut self, agrees: bool, difference: impl FnOnce() -> String) {
        if !agrees {
            self.0.push(difference());
        }
    }

    fn between<N: AsRef<str>>(
        &mut self,
        place: &str,
        described: impl IntoIterator<Item = N>,
        documented: impl IntoIterator<Item = N>,
    ) {
        let mut extra: Vec<_> = documented.into_iter().collect();
        for name in described {
            match extra.iter().position(|other| other.as_ref() == name.as_ref()) {
                Some(found) => drop(extra.remove(found)),
                None => self.0.push(format!("{place}: `{}` is described, but not there", name.as_ref())),
            }
        }
        for name in extra {
            self.0.push(format!("{place}: `{}` is there, but not described", name.as_ref()));
        }
    }

    fn in_fields(&mut self, place: &str, object: &'static Value, fields: &[Field]) {
        let properties = &object["properties"];
        let is_described = |name: &str| fields.iter().any(|(described, ..)| *described == name);
        for (name, ..) in fields.iter().filter(|(name, ..)| properties.get(name).is_none()) {
            self.0.push(format!("{place}: `{name}` is described, but not there"));
        }
        let extra =
            members(properties).filter(|(name, value)| !is_described(name) && !is_our_decision(value));
        for (name, property) in extra {
            let kind = spelled(property);
            self.0.push(format!(
                "{place}: `{name}` is there, but not described\n  If the service promises it, add to \"{place}\" in \
                 tests/document/tests/it/description/resources.rs:\n    (\"{name}\", \"{kind}\", \"words of its \
                 description\"),\n  If it is ours, its description begins with `{DECISION}`."
            ));
        }
        for (name, kind, note) in fields {
            let Some(property) = properties.get(name) else { continue };
            let spelled = spelled(property);
            self.unless(spelled == *kind, || format!("{place}.{name}: {kind} is described, not {spelled}"));
            let text = statements(resolve(property)).join(" ");
            self.unless(says(&text, note), || format!("{place}.{name}: nothing says `{note}` in `{text}`"));
        }
    }

    /// Fails with the differences only: a backtrace through the test would hide them.
    #[expect(clippy::print_stderr, reason = "a failure without a backtrace")]
    fn none(self) {
        if !self.0.is_empty() {
            eprintln!("{} differences:\n{}", self.0.len(), self.0.join("\n"));
            resume_unwind(Box::new("the document and the description differ"));
        }
    }
}

fn is_our_decision(value: &'static Value) -> bool {
    let own = value["description"].as_str().or_else(|| resolve(value)["description"].as_str());
    own.is_some_and(|text| text.contains(DECISION))
}

/// Returns the type of a value in the notation of the service description. Formats for the width of a number
/// are omitted; a named object or enumeration is its name.
fn spelled(value: &'static Value) -> String {
    let target = resolve(value);
    let name = value["$ref"].as_str().and_then(name_in).or(value["title"].as_str());
    if let Some(name) = name
        && (target.get("properties").is_some() || words_of(target).is_some())
    {
        return name.to_owned();
    }
    let format = target["format"].as_str();
    match (target["type"].as_str(), format) {
        (Some("string"), Some("uri")) => "URL".to_owned(),
        (Some("string"), Some("date-time")) => "ISO 8601".to_owned(),
        (Some("string"), _) if target["x-decimal"] == true => "decimal string".to_owned(),
        (Some("array"), _) => format!("array of {}", spelled(&target["items"])),
        (Some("object"), _) if target["additionalProperties"].is_object() => {
            format!("map to {}", spelled(&target["additionalProperties"]))
        }
        (Some(kind), _) => kind.to_owned(),
        (None, _) => "any JSON".to_owned(),
    }
}

fn words_of(schema: &'static Value) -> Option<&'static Value> {
    schema.get("enum").or_else(|| schema.get("x-extensible-enum"))
}

fn name_in(reference: &'static str) -> Option<&'static str> {
    reference.rsplit('/').next()
}

fn object(place: &'static str) -> &'static Value {
    let mut names = place.split('.');
    let root = schema(names.next().unwrap_or_default());
    names.fold(root, |object, name| resolve(&object["properties"][name]))
}

fn strings(array: &'static Value) -> Vec<&'static str> {
    items(array).filter_map(Value::as_str).collect()
}

/// Returns all statements for people at and below a path, without following references: each table row and
/// each paragraph is one statement. Marks and line breaks are removed.
fn statements(value: &'static Value) -> Vec<String> {
    let mut found = Vec::new();
    for (key, member) in members(value) {
        match (key, member.as_str()) {
            ("description" | "summary", Some(text)) => found.extend(split(text)),
            ("example" | "examples" | "x-codeSamples", _) => {}
            _ => found.extend(statements(member)),
        }
    }
    found.extend(items(value).flat_map(statements));
    found
}

fn split(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in text.lines().map(str::trim) {
        // An empty line ends a paragraph; every table row and list item is separate.
        if line.is_empty() || line.starts_with('|') || line.starts_with("- ") {
            found.push(String::new());
        }
        if let Some(last) = found.last_mut() {
            last.push_str(line);
            last.push(' ');
        }
    }
    found.iter().map(|text| plain(text)).filter(|text| !text.is_empty()).collect()
}

fn plain(text: &str) -> String {
    let text = text.replace("**", "").replace(['`', '"'], "").to_lowercase();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true if a text contains all parts of a pattern, separated by `…`, in order.
fn says(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    pattern.to_lowercase().split('…').map(str::trim).all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}
