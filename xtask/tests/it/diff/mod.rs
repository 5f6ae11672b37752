//! What `cargo xtask diff` says of a change. The tables hold one change of the real document a line:
//! how bad it is, what it is, and how it is made. They are not wrapped, so that they read as tables.

mod answers;
mod edits;
mod names;
mod operations;
mod reports;
mod requests;

use serde_json::Value;

use crate::support::{Folder, Said};
use edits::{Edit, real_value};

/// How bad a change is, as reports say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Nothing,
    Docs,
    Compatible,
    Breaking,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Docs => "docs",
            Self::Compatible => "compatible",
            Self::Breaking => "breaking",
        }
    }
}

/// One line of a table.
type Row = (Verdict, &'static str, Edit);

/// Compares two documents in a folder, as a program would.
fn compare(folder: &Folder, old: &Value, new: &Value) -> Value {
    folder.write("old.json", &old.to_string());
    folder.write("new.json", &new.to_string());
    let said = diff(folder, &["old.json", "new.json", "--format", "json"]);
    let report: Value = serde_json::from_str(&said.out).expect("the report is JSON");
    let breaks = report["verdict"] == "breaking";
    assert_eq!(said.code, Some(i32::from(breaks)), "{}", said.err);
    report
}

/// `cargo xtask diff`, in that folder.
fn diff(folder: &Folder, arguments: &[&str]) -> Said {
    let mut command = folder.xtask(&folder.path("xtask"));
    Said::by(command.arg("diff").args(arguments))
}

/// Makes every change on its own, and holds the verdict and what is told of it to the table.
fn assert_verdicts(name: &str, rows: Vec<Row>) {
    let folder = Folder::new(name);
    let real = real_value();
    let mut wrong = Vec::new();
    for (expected, change, edit) in rows {
        let mut changed = real.clone();
        edit(&mut changed);
        assert_ne!(changed, real, "{change}: nothing changed");
        let report = compare(&folder, &real, &changed);
        if report["verdict"] != expected.word() {
            wrong.push(format!("{change}: not {} but {report:#}", expected.word()));
        }
        for told in report["changes"].as_array().expect("a list") {
            let message = told["message"].as_str().unwrap_or_default();
            let place = told["place"].as_str().unwrap_or_default();
            let tells_who = message.contains(": ") || told["severity"] != "breaking";
            assert!(tells_who, "{change}: who breaks? {message}");
            let stands = [&real, &changed].iter().any(|document| stands_in(document, place));
            assert!(stands, "{change}: there is no {place}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Whether the place, or what it would stand in, is there.
fn stands_in(document: &Value, place: &str) -> bool {
    let pointer = place.trim_start_matches('#');
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    document.pointer(pointer).is_some() || document.pointer(parent).is_some()
}
