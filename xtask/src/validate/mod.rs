//! Requirements of the generator on the document. The three linters know OpenAPI, such as tags, security
//! and defaults; this knows what the generator needs, and names the place of a mistake instead of panicking on it.

mod operations;
mod references;
mod responses;
pub(crate) mod rust_names;
mod schemas;
mod shape;

use anyhow::Result;
use serde_json::{Map, Value};
use similar::get_close_matches;

use openapi_impact::METHODS;

use crate::document::{Document, Mistake, Pointer};

/// Minimum similarity at which a word counts as a misspelling of another word.
const ALIKE: f32 = 0.75;

/// All mistakes. Each step relies on what the steps before it have found to be right; a step that
/// finds mistakes is the last, since the next would only find their consequences.
pub(crate) fn validate(document: &Document) -> Result<Vec<Mistake>> {
    let root = &document.value;
    let mut check = Check { root, mistakes: Vec::new(), found: Vec::new(), references: Vec::new() };
    check.version();
    if check.mistakes.is_empty() {
        check.codes(document);
        let lines: Vec<&str> = document.text.lines().collect();
        check.cut_texts(check.root, &Pointer::root(), |pointer| lines.get(document.index(pointer)?).copied());
    }
    if check.mistakes.is_empty() {
        check.shape(&shape::schema()?)?;
    }
    let steps: [fn(&mut Check<'_>); 8] = [
        |check| check.find_definitions(check.root, &Pointer::root()),
        |check| check.references(),
        |check| check.rings(),
        |check| check.schemas(),
        |check| check.operations(),
        |check| check.response_schemas(),
        |check| check.shared_names(),
        |check| check.unused_components(),
    ];
    for step in steps {
        if check.mistakes.is_empty() {
            step(&mut check);
        }
    }
    Ok(check.mistakes)
}

pub(crate) fn operations(root: &Value) -> impl Iterator<Item = (&str, &str, &Value, &Value)> {
    members(&root["paths"]).flat_map(|(path, item)| {
        METHODS.iter().filter_map(move |method| {
            item.get(method).map(|operation| (path, *method, &item["parameters"], operation))
        })
    })
}

pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(key, value)| (key.as_str(), value))
}

pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    items(value).filter_map(Value::as_str)
}

/// The target of a reference, or the value itself. No reference leads back to itself: a step has checked that.
pub(crate) fn resolved<'a>(root: &'a Value, mut value: &'a Value) -> &'a Value {
    while let Some(target) = value["$ref"].as_str().and_then(|reference| target(root, reference)) {
        value = target;
    }
    value
}

pub(crate) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    get_close_matches(word, &known, 1, ALIKE)
        .first()
        .map_or_else(String::new, |close| format!("; did you mean {close}?"))
}

struct Check<'a> {
    root: &'a Value,
    mistakes: Vec<Mistake>,
    /// Everything that could stand in a section of the components: the section, the thing and its place.
    found: Vec<(&'static str, &'a Value, Pointer)>,
    /// Every reference: the section that it must lead to, the reference and its place.
    references: Vec<(&'static str, &'a str, Pointer)>,
}

impl<'a> Check<'a> {
    fn wrong(&mut self, pointer: Pointer, message: impl Into<String>) {
        self.mistakes.push(Mistake::new(pointer, message));
    }

    fn all(&self, wanted: &str) -> Vec<(&'a Value, Pointer)> {
        let of_section = self.found.iter().filter(|(section, ..)| *section == wanted);
        of_section.map(|(_, value, pointer)| (*value, pointer.clone())).collect()
    }

    /// Codes of responses are texts. A parser of YAML that takes an unquoted one for a number finds no such response.
    fn codes(&mut self, document: &Document) {
        for (path, method, _, operation) in operations(self.root) {
            let pointer = Pointer::of(&["paths", path, method, "responses"]);
            for (code, _) in members(&operation["responses"]) {
                let here = pointer.at(code);
                if document.line(&here).is_some_and(|line| line.trim_start().starts_with(&format!("{code}:")))
                    && code.parse::<u16>().is_ok()
                {
                    self.wrong(here, format!("is a number; put it in quotes: \"{code}\""));
                }
            }
        }
    }

    /// Texts without quotes end before ` #`, which begins a comment.
    fn cut_texts<'l>(
        &mut self,
        value: &Value,
        pointer: &Pointer,
        line: impl Fn(&Pointer) -> Option<&'l str> + Copy,
    ) {
        for (index, item) in items(value).enumerate() {
            self.cut_texts(item, &pointer.at(index), line);
        }
        for (name, value) in members(value) {
            let here = pointer.at(name);
            self.cut_texts(value, &here, line);
            let is_prose = value.is_string() && matches!(name, "description" | "summary" | "title");
            let Some((_, written)) = is_prose.then(|| line(&here)?.split_once(": ")).flatten() else {
                continue;
            };
            if written.contains(" #") && !written.trim_start().starts_with(['"', '\'', '|', '>']) {
                self.wrong(
                    here,
                    "is cut off before `#`, which begins a comment in YAML; put the text in quotes",
                );
            }
        }
    }

    fn version(&mut self) {
        if self.root.get("openapi").is_none() {
            return self
                .wrong(Pointer::root(), "is not an OpenAPI document; it must begin with openapi: 3.0.3");
        }
        let version = self.root["openapi"].as_str().and_then(|version| version.strip_prefix("3.0."));
        if version.is_none_or(|patch| patch.parse::<u32>().is_err()) {
            self.wrong(
                Pointer::of(&["openapi"]),
                "must be a 3.0.x version such as 3.0.3, the only one that progenitor reads",
            );
        }
    }
}

/// Words of Python that no property and no parameter of its package can be called.
const KEYWORDS_OF_PYTHON: [&str; 32] = [
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else",
    "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not",
    "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Returns why the packages in `sdk` cannot have a property or a parameter of that name.
fn no_name_of_the_packages(name: &str) -> Option<String> {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if KEYWORDS_OF_PYTHON.contains(&name) {
        Some(format!("{name} is a keyword of Python, whose package could not name it; choose another name"))
    } else {
        (!is_plain)
            .then(|| "names a member in generated code, so it must be written like queue_position".to_owned())
    }
}

fn reference_to(section: &str, name: &str) -> String {
    format!("#/components/{section}/{name}")
}
