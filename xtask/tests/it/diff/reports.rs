//! What the reports look like, and how the command ends.

use std::time::{Duration, Instant};

use serde_json::json;

use super::edits::{add, both, everywhere, real_value, remove, set};
use super::{compare, diff};
use crate::support::{Folder, real_document, replaced};

const VERSION: &str = "version: 1.0.0";

/// A folder with a published version, and a document that differs by one replacement and its version.
fn after(name: &str, old: &str, new: &str, version: &str) -> Folder {
    let folder = Folder::new(name);
    let real = real_document();
    folder.write("openapi/published/0.9.0.yaml", "never: read");
    folder.write("openapi/published/1.0.0.yaml", &real);
    let changed = replaced(&replaced(&real, old, new), VERSION, &format!("version: {version}"));
    folder.write("openapi/inferstore.yaml", &changed);
    folder
}

#[test]
fn people_read_what_changed_by_operation_with_its_place_and_who_breaks() {
    let folder = Folder::new("diff_text");
    folder.write("old.yaml", &real_document());
    let mut changed = real_value();
    let edits = [
        remove("schemas/Balance/properties/debt"),
        add("schemas/ModelSort/enum", json!("name")),
        set("schemas/Failure/description", json!("What failed.")),
        set("info/description", json!("A service.")),
        everywhere("\"TaskRecord\"", "\"TaskSummary\""),
    ];
    both(edits)(&mut changed);
    folder.write("new.yaml", &changed.to_string().replace("schemas/TaskRecord\"", "schemas/TaskSummary\""));
    let said = diff(&folder, &["old.yaml", "new.yaml"]);
    assert_eq!((said.code, said.err.as_str()), (Some(1), ""));
    insta::assert_snapshot!("changes_for_people", said.out);
}

#[test]
fn programs_read_the_same_as_json() {
    let folder = Folder::new("diff_json");
    let mut changed = real_value();
    remove("schemas/Balance/properties/debt")(&mut changed);
    let report = compare(&folder, &real_value(), &changed);
    let expected = json!({
        "verdict": "breaking",
        "changes": [{
            "severity": "breaking",
            "operation": "getBalance",
            "place": "#/components/schemas/Balance/properties/debt",
            "message": "the property debt is gone from the answer: whoever reads it breaks",
        }],
    });
    assert_eq!(report, expected);
    assert_eq!(compare(&folder, &changed, &changed), json!({"verdict": "none", "changes": []}));
}

#[test]
fn a_document_is_compared_with_its_last_published_version_within_a_second() {
    let folder = after("diff_default", "description: Free credits.", "description: Unpaid credits.", "1.0.1");
    let start = Instant::now();
    let report = diff(&folder, &[]).succeeded();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(report.contains("1.0.0.yaml → "), "{report}");
    assert!(report.contains("docs only\n\ngetBalance\n"), "{report}");
}

#[test]
fn the_check_asks_for_the_version_that_the_changes_need() {
    let changes = [
        ("description: Free credits.", "description: Unpaid credits.", "1.0.1"),
        ("enum: [image, audio,", "enum: [model, image, audio,", "1.1.0"),
        ("operationId: getBalance", "operationId: readBalance", "2.0.0"),
    ];
    for (old, new, needed) in changes {
        let said = diff(&after("diff_too_low", old, new, "1.0.0"), &["--check"]);
        let expected = format!("the document has the version 1.0.0, and needs at least {needed}, because ");
        assert!(said.err.contains(&expected), "{}", said.err);
        assert_eq!(said.code, Some(1));
        assert!(said.err.contains(&format!("hint: set info.version to {needed} in the document")));

        let said = diff(&after("diff_high_enough", old, new, needed), &["--check"]);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "a major version may break");
    }
}

#[test]
fn the_report_stays_json_when_the_check_fails() {
    let folder = after("diff_check_json", "operationId: getBalance", "operationId: readBalance", "1.0.0");
    let said = diff(&folder, &["--check", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&said.out).expect("it is JSON");
    assert_eq!((said.code, &report["verdict"]), (Some(1), &json!("breaking")));
}

#[test]
fn what_cannot_be_compared_ends_with_2_and_a_reason() {
    let folder = Folder::new("diff_unreadable");
    folder.write("good.yaml", &real_document());
    folder.write("broken.yaml", "openapi: [");
    folder.write("other.yaml", "name: value\n");
    folder.write("loose.yaml", &replaced(&real_document(), "parameters/TaskId\"", "parameters/Task\""));
    for (arguments, reason) in [
        (["good.yaml", "absent.yaml"], "cannot read absent.yaml"),
        (["broken.yaml", "good.yaml"], "broken.yaml:1:"),
        (["other.yaml", "good.yaml"], "other.yaml is not an OpenAPI 3 document"),
        (["good.yaml", "loose.yaml"], "loose.yaml: there is no #/components/parameters/Task"),
        (["good.yaml", "--fast"], "diff has no option --fast"),
        (["--format", "xml"], "--format is text or json, not xml"),
    ] {
        let said = diff(&folder, &arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(said.err.contains(reason), "{arguments:?}: {}", said.err);
    }
    let said = diff(&folder, &[]);
    assert!(said.err.contains("nothing was published in openapi/published yet"), "{}", said.err);
}
