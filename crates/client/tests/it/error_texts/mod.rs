//! Snapshots of every error: `Debug` (with `Display`, causes and hint), the class, and whether a retry helps.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod calls;
mod files;
mod inputs;
mod runs;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt::Write as _;
use std::iter::successors;

use inferstore::Error;
use inferstore_testing::ScriptedService;

/// Operations of the document that the client sends.
const OPERATIONS: [&str; 14] = [
    "getBalance",
    "listModels",
    "getModel",
    "getModelServing",
    "getModelCost",
    "getModelVersioning",
    "createTask",
    "getTask",
    "cancelTask",
    "listTasks",
    "createPresignedUpload",
    "listFiles",
    "deleteFile",
    "getStorageStatistics",
];

/// Returns a service with a queued model `m`, without idempotency keys: with them, a create is rarely lost.
fn service() -> ScriptedService {
    let service = ScriptedService::new().without_idempotency_keys();
    let _ = service.model("m").stays_queued();
    service
}

fn failed<T: std::fmt::Debug>(result: Result<T, Error>) -> Error {
    result.unwrap_err()
}

/// Errors of one snapshot, each below its titles; equal errors share one entry.
#[derive(Default)]
struct Report {
    titles: Vec<String>,
    errors: BTreeMap<String, Vec<String>>,
}

impl Report {
    fn add(&mut self, title: impl Into<String>, error: &Error) {
        self.add_as(title.into(), error, |text| text);
    }

    /// Adds an error of this operation, whose name becomes `{operation}`.
    fn add_of(&mut self, operation: &str, error: &Error) {
        self.add_as(operation.to_owned(), error, |text| text.replace(operation, "{operation}"));
    }

    fn add_as(&mut self, title: String, error: &Error, generalized: impl Fn(String) -> String) {
        let text = generalized(text(error));
        let titles = self.errors.entry(text.clone()).or_default();
        if titles.is_empty() {
            self.titles.push(text);
        }
        if !titles.contains(&title) {
            titles.push(title);
        }
    }

    fn render(&self) -> String {
        let mut page = String::new();
        for text in &self.titles {
            let titles = self.errors[text].join(", ").replace(&OPERATIONS.join(", "), "every operation");
            writeln!(page, "# {titles}\n{text}\n").unwrap();
        }
        page
    }
}

/// Returns the text of an error, and asserts that `Debug` contains all of it.
fn text(error: &Error) -> String {
    let mut expected = error.to_string();
    assert!(!expected.contains('\n'), "an error is one line: {error}");
    for cause in successors(error.source(), |&cause| cause.source()) {
        write!(expected, "\n  caused by: {cause}").unwrap();
    }
    write!(expected, "\n  hint: {}", error.hint()).unwrap();
    assert_eq!(format!("{error:?}"), expected);
    let kind = error.kind();
    let retry = if error.is_retryable() { ", retryable" } else { "" };
    without_seconds(&format!("{expected}\n  kind: {kind:?}{retry}"))
}

/// Replaces the seconds of random backoffs.
fn without_seconds(text: &str) -> String {
    match text.split_once(" attempts in ") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            format!("{before} attempts in N{rest}")
        }
        None => text.to_owned(),
    }
}
