//! Usage of an API by one caller, and the changes that break this caller.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::case::snake_case;
use super::clients::all;
use super::operations::{self, METHODS, shadows};
use super::{Change, Changes, Severity, pascal_case, references};
use crate::pointer::Pointer;
use crate::scan;
use crate::tree::Tree;

const KIND: &str = "kind ";

const CLIENT: &str = "client ";

const NO_CLIENT: &str = "none";

/// Usage of an API: the operations that a caller calls, and the fields that it reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    operations: Vec<UsedOperation>,
    kinds: BTreeSet<String>,
    client: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct UsedOperation {
    id: String,
    /// The fields of responses that are read; all of them when the list is not given.
    fields: Option<BTreeSet<String>>,
}

pub(super) struct Listed<'a> {
    pub(super) id: String,
    pub(super) method: &'static str,
    pub(super) path: &'a str,
    path_item: &'a Tree,
    value: &'a Tree,
}

impl Uses {
    /// Reads a list of uses from a file, or finds the operations in the source code of a folder. `document` is the one
    /// that the caller was written for.
    ///
    /// # Errors
    /// Fails if the file cannot be read, if a line of the list names what is not in the document, if the list is
    /// empty, or if the code of the folder names no operation.
    pub fn load(path: &Path, document: &Tree) -> Result<Self> {
        let shown = path.display();
        if path.is_dir() {
            let found = scan::operations_in(path, &listed(document))?;
            ensure!(!found.is_empty(), "{shown}: the code there names no operation of the document");
            let operations = found.into_iter().map(|id| UsedOperation { id, fields: None }).collect();
            return Ok(Self { operations, ..Self::default() });
        }
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        Self::parse(&text, document).with_context(|| shown.to_string())
    }

    /// Reads a list: a line for each operation, by operationId or by method and path, and after a colon the fields of its
    /// responses that are read. `kind NAME` is a model kind, `client NAME` the generator. `#` begins a comment.
    ///
    /// # Errors
    /// Fails if a line names no operation, field or model kind of the document or no client, or if the list is empty.
    pub fn parse(text: &str, document: &Tree) -> Result<Self> {
        let known = listed(document);
        let mut uses = Self::default();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(kind) = line.strip_prefix(KIND) {
                let kind = kind.trim();
                let mut schemas = document["components"]["schemas"].members();
                ensure!(
                    schemas.any(|(_, schema)| schema["x-model-kind"]["name"].is(kind)),
                    "line {number}: `{kind}` is no model kind of the document"
                );
                uses.kinds.insert(kind.to_owned());
            } else if let Some(client) = line.strip_prefix(CLIENT) {
                let (client, known) = (client.trim(), all());
                ensure!(
                    client == NO_CLIENT || known.contains(client),
                    "line {number}: `{client}` is no client; write {NO_CLIENT}, or one of {}",
                    known.into_iter().collect::<Vec<_>>().join(", ")
                );
                uses.client = Some(client.to_owned());
            } else {
                let (name, fields) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
                let operation = known.iter().find(|operation| operation.is_called(name.trim()));
                let operation = operation.with_context(|| {
                    format!("line {number}: `{name}` is no operation of the document; write an operationId or GET /path")
                })?;
                let fields: BTreeSet<String> = fields
                    .split(',')
                    .map(str::trim)
                    .filter(|field| !field.is_empty())
                    .map(str::to_owned)
                    .collect();
                let responses = &operation.value["responses"];
                for field in &fields {
                    let name = BTreeSet::from([field.clone()]);
                    ensure!(
                        holds_any(document, responses, &name, &mut BTreeSet::new()),
                        "line {number}: no response of {} has a field `{field}`",
                        operation.id
                    );
                }
                let fields = (!fields.is_empty()).then_some(fields);
                uses.operations.push(UsedOperation { id: operation.id.clone(), fields });
            }
        }
        ensure!(!uses.operations.is_empty() || !uses.kinds.is_empty(), "the list is empty");
        Ok(uses)
    }

    /// Returns the names of the operations.
    pub fn operations(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().map(|operation| operation.id.as_str())
    }
}

impl Listed<'_> {
    fn is_called(&self, name: &str) -> bool {
        let call = name.split_once(char::is_whitespace);
        self.id == name
            || call.is_some_and(|(method, path)| {
                self.method.eq_ignore_ascii_case(method) && self.path == path.trim()
            })
    }
}

impl Changes {
    /// Returns what breaks the caller, or may break it.
    #[must_use]
    pub fn for_caller(&self, uses: &Uses, old: &Tree, new: &Tree) -> Self {
        let caller = Caller::new(uses, old, new);
        let list = self.list.iter().filter(|change| caller.is_broken_by(change)).cloned().collect();
        Self { list, operations: uses.operations().map(str::to_owned).collect() }
    }
}

struct Caller<'a> {
    uses: &'a Uses,
    documents: [&'a Tree; 2],
    paths: Vec<&'a str>,
    components: BTreeSet<&'a str>,
    schemes: BTreeSet<&'a str>,
}

impl<'a> Caller<'a> {
    fn new(uses: &'a Uses, old: &'a Tree, new: &'a Tree) -> Self {
        let is_used = |id: &str| uses.operations().any(|used| used == id);
        let before = listed(old);
        let called: Vec<&Listed<'_>> = before.iter().filter(|operation| is_used(&operation.id)).collect();
        let paths = called.iter().map(|operation| operation.path).collect();
        let routes: Vec<_> = called
            .iter()
            .map(|operation| (operation.method, operations::without_names(operation.path)))
            .collect();
        let mut caller = Self {
            uses,
            documents: [old, new],
            paths,
            components: BTreeSet::new(),
            schemes: BTreeSet::new(),
        };
        for document in [old, new] {
            for operation in listed(document) {
                let route = (operation.method, operations::without_names(operation.path));
                if is_used(&operation.id) || routes.contains(&route) {
                    caller.reach(document, operation.value);
                    caller.reach(document, &operation.path_item["parameters"]);
                    let own = &operation.value["security"];
                    let security = if own.is_null() { &document["security"] } else { own };
                    caller
                        .schemes
                        .extend(security.items().iter().flat_map(Tree::members).map(|(name, _)| name));
                }
            }
        }
        caller
    }

    fn reach(&mut self, document: &'a Tree, value: &'a Tree) {
        for reference in references(value) {
            if self.components.insert(reference)
                && let Some(target) = document.pointer(reference)
            {
                self.reach(document, target);
            }
        }
    }

    fn is_broken_by(&self, change: &Change) -> bool {
        let is_breaking = match (&self.uses.client, change.severity) {
            (_, Severity::Docs) => false,
            (None, severity) => severity == Severity::Breaking,
            (Some(client), severity) if client == NO_CLIENT => {
                severity == Severity::Breaking && !change.is_of_code
            }
            // A compatible change that names the client breaks it at run time.
            (Some(client), severity) => {
                change.breaks.contains(client.as_str())
                    || severity == Severity::Breaking && change.breaks.is_empty()
            }
        };
        is_breaking && self.is_concerned(change)
    }

    fn is_concerned(&self, change: &Change) -> bool {
        let Some(name) = &change.operation else { return self.uses_place(change.pointer.keys()) };
        if let Some(kind) = name.strip_prefix("model kind ") {
            return self.uses.kinds.contains(kind);
        }
        if let Some(used) = self.uses.operations.iter().find(|used| used.id == *name) {
            return self.reads(used, change);
        }
        // A method of another operation that takes the name.
        self.uses.operations().any(|used| collide(used, name))
    }

    fn reads(&self, used: &UsedOperation, change: &Change) -> bool {
        let Some(fields) = used.fields.as_ref().filter(|_| change.is_in_response) else { return true };
        let keys = change.pointer.keys();
        let Some(last) = keys.iter().rposition(|key| key == "properties") else { return true };
        let Some(name) = keys.get(last + 1) else { return true };
        let property = Pointer::of(&keys[..=last + 1]).to_string();
        let holds = |document: &&Tree| {
            document
                .pointer(&property)
                .is_some_and(|value| holds_any(document, value, fields, &mut BTreeSet::new()))
        };
        fields.contains(name) || self.documents.iter().any(holds)
    }

    fn uses_place(&self, keys: &[String]) -> bool {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        match keys[..] {
            ["components", "securitySchemes", name, ..] => self.schemes.contains(name),
            ["components", section, name] => {
                let reference = format!("#/components/{section}/{name}");
                let takes_name =
                    |other: &&str| other.rsplit('/').next().is_some_and(|other| collide(other, name));
                let is_argument = |used: &str| collide(&format!("{}Request", pascal_case(used)), name);
                self.components.contains(reference.as_str())
                    || self.components.iter().any(takes_name)
                    || self.uses.operations().any(is_argument)
            }
            ["paths", path] => self.paths.iter().any(|called| shadows(path, called)),
            _ => true,
        }
    }
}

fn holds_any<'a>(
    document: &'a Tree,
    schema: &'a Tree,
    names: &BTreeSet<String>,
    seen: &mut BTreeSet<&'a str>,
) -> bool {
    let target = schema["$ref"].as_str().filter(|reference| seen.insert(reference));
    if target
        .and_then(|reference| document.pointer(reference))
        .is_some_and(|target| holds_any(document, target, names, seen))
    {
        return true;
    }
    schema["properties"].members().any(|(name, _)| names.contains(name))
        || schema
            .members()
            .map(|(_, member)| member)
            .chain(schema.items())
            .any(|inner| holds_any(document, inner, names, seen))
}

fn collide(name: &str, other: &str) -> bool {
    snake_case(name) == snake_case(other) || pascal_case(name) == pascal_case(other)
}

pub(super) fn listed(document: &Tree) -> Vec<Listed<'_>> {
    let mut list = Vec::new();
    for (path, item) in document["paths"].members() {
        let item = item["$ref"].as_str().and_then(|reference| document.pointer(reference)).unwrap_or(item);
        for method in METHODS {
            if let Some(value) = item.get(method) {
                let id = value["operationId"].as_str();
                let id = id.map_or_else(|| format!("{method} {path}"), str::to_owned);
                list.push(Listed { id, method, path, path_item: item, value });
            }
        }
    }
    list
}
