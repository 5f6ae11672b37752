//! Survey: the calls that only read, in an order in which lists supply the identifiers for the others.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use crate::{Document, Finding, Operation};

/// The one operation with a body that only reads; its body may be empty.
const LIST_MODELS: &str = "listModels";

/// Lists whose first record supplies an identifier: the schema of the identifier, the list, its field.
const SOURCES: [(&str, &str, &str); 2] = [("ModelId", LIST_MODELS, "id"), ("TaskId", "listTasks", "task_id")];

const FOLDER: (&str, &str) = ("FolderName", "samples");

/// The calls of a document that only read, and the differences of their responses. It does no I/O.
///
/// ```
/// use inferstore_drift::{Document, Survey};
/// # fn send(method: &str, path: &str, body: Option<&str>) -> Option<serde_json::Value> { None }
///
/// let mut survey = Survey::new(Document::embedded());
/// while let Some(call) = survey.next_call() {
///     // None for a response that is not successful.
///     if let Some(body) = send(call.method, &call.path, call.body) {
///         survey.note_response(&call, &body);
///     }
/// }
/// for finding in survey.findings() {
///     println!("{finding}");
/// }
/// ```
#[derive(Debug)]
pub struct Survey<'a> {
    document: &'a Document,
    pending: VecDeque<Operation<'a>>,
    known: BTreeMap<&'a str, String>,
    checked: Vec<&'a str>,
    unchecked: Vec<&'a str>,
    findings: Vec<Finding>,
}

/// A call of a survey.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call<'a> {
    /// The identifier of the operation, such as `getTask`.
    pub operation: &'a str,
    /// The method, such as `GET`.
    pub method: &'static str,
    /// The path below the base URL.
    pub path: String,
    /// The JSON body.
    pub body: Option<&'static str>,
}

impl<'a> Survey<'a> {
    /// Plans every `GET` of the document and the list of models.
    pub fn new(document: &'a Document) -> Self {
        let reads = document.operations().filter(|known| known.method == "get" || known.id == LIST_MODELS);
        let (lists, others): (Vec<_>, Vec<_>) = reads.partition(|operation| !operation.path.contains('{'));
        Self {
            document,
            pending: lists.into_iter().chain(others).collect(),
            known: BTreeMap::from([(FOLDER.0, FOLDER.1.to_owned())]),
            checked: Vec::new(),
            unchecked: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Returns the next call. Skips an operation when no list had an identifier for it.
    pub fn next_call(&mut self) -> Option<Call<'a>> {
        loop {
            let operation = self.pending.pop_front()?;
            let is_list = operation.id == LIST_MODELS;
            self.unchecked.push(operation.id);
            if let Some(path) = self.path(&operation) {
                let method = if is_list { "POST" } else { "GET" };
                return Some(Call { operation: operation.id, method, path, body: is_list.then_some("{}") });
            }
        }
    }

    /// Compares the body of the successful response to a call.
    pub fn note_response(&mut self, call: &Call<'a>, body: &Value) {
        let first = &body["data"]["records"][0];
        for (schema, list, field) in SOURCES {
            let id = first[field].as_str().or_else(|| first["id"].as_str());
            if let Some(id) = id.filter(|_| call.operation == list) {
                self.known.insert(schema, encoded(id));
            }
        }
        self.unchecked.retain(|operation| *operation != call.operation);
        self.checked.push(call.operation);
        for finding in self.document.compare(call.operation, body) {
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
    }

    /// Returns each difference once.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the operations whose responses were compared.
    pub fn checked(&self) -> &[&'a str] {
        &self.checked
    }

    /// Returns the operations without a response: their identifier is unknown, or the call had no success.
    pub fn unchecked(&self) -> &[&'a str] {
        &self.unchecked
    }

    fn path(&self, operation: &Operation<'a>) -> Option<String> {
        let mut path = operation.path.to_owned();
        for parameter in operation.parameters.iter().filter(|parameter| parameter["in"] == "path") {
            let schema = parameter["schema"]["$ref"].as_str()?.rsplit('/').next()?;
            path = path.replace(&format!("{{{}}}", parameter["name"].as_str()?), self.known.get(schema)?);
        }
        Some(path)
    }
}

fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(letter).collect()
}
