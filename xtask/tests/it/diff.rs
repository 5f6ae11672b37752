//! `cargo xtask diff` as a program: its reports, and how it ends. The verdicts are held to a corpus, next
//! to the comparison itself.

use serde_json::{Value, json};

use crate::support::{Folder, Said, real_document, real_version, replaced};

const VERSION: &str = "version: 1.0.0";

fn diff(folder: &Folder, arguments: &[&str]) -> Said {
    let mut command = folder.xtask(&folder.path("xtask"));
    Said::by(command.arg("diff").args(arguments))
}

/// The last published document, which never changes.
fn published() -> String {
    crate::support::repository_file("openapi/published/1.0.0.yaml")
}

fn after(name: &str, old: &str, new: &str, version: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("openapi/published/0.9.0.yaml", "never: read");
    folder.write("openapi/published/1.0.0.yaml", &published());
    let changed = replaced(&replaced(&published(), old, new), VERSION, &format!("version: {version}"));
    folder.write("openapi/inferstore.yaml", &changed);
    folder
}

fn old_and_new(name: &str, replacements: &[(&str, &str)]) -> Folder {
    let folder = Folder::new(name);
    folder.write("old.yaml", &published());
    let changed = replacements.iter().fold(published(), |text, (old, new)| replaced(&text, old, new));
    folder.write("new.yaml", &changed);
    folder
}

const DEBT: &str = "        debt:
          type: string
          format: decimal
          nullable: true
          description: Accrued debt.
";

#[test]
fn a_report_for_people_lists_changes_their_victims_and_the_version() {
    let replacements = [
        (DEBT, ""),
        ("likes, downloads, trending]", "likes, downloads, trending, name]"),
        ("The body of every failure of the service.", "A failure."),
        ("title: Inferstore API", "title: Inferstore"),
        (
            "        total_files:\n          type",
            "        free_size: {type: integer}\n        total_files:\n          type",
        ),
        ("    TaskRecord:", "    TaskSummary:"),
        ("schemas/TaskRecord\"", "schemas/TaskSummary\""),
    ];
    let said = diff(&old_and_new("diff_text", &replacements), &["old.yaml", "new.yaml"]);
    assert_eq!((said.code, said.err.as_str()), (Some(1), ""));
    insta::assert_snapshot!("changes_for_people", said.out);
}

#[test]
fn programs_read_the_report_as_json_with_the_affected_clients() {
    let minimum = ("            minimum: 0\n            default: 0", "            default: 0");
    let folder = old_and_new("diff_json", &[(DEBT, ""), minimum]);
    let said = diff(&folder, &["old.yaml", "new.yaml", "--format", "json"]);
    let report: Value = serde_json::from_str(&said.out).expect("the report is JSON");
    let expected = json!({
        "verdict": "breaking",
        "changes": [
            {
                "severity": "breaking",
                "operation": "getBalance",
                "place": "#/components/schemas/Balance/properties/debt",
                "message": "the property debt is gone: code that reads it breaks",
            },
            {
                "severity": "breaking",
                "breaks": ["inferstore-api", "progenitor"],
                "operation": "listTasks",
                "place": "#/paths/~1api-key~1task~1histories/get/parameters/1/schema/minimum",
                "message": "`minimum` `0` is gone: its type differs",
            },
        ],
    });
    assert_eq!((said.code, report), (Some(1), expected));
    let same = diff(&folder, &["old.yaml", "old.yaml", "--format", "json"]).succeeded();
    let same: Value = serde_json::from_str(&same).expect("the report is JSON");
    assert_eq!(same, json!({"verdict": "none", "changes": []}));
}

#[test]
fn properties_that_change_places_break_constructors_in_a_file_as_well() {
    let text = published();
    let schema = text.find("    PresignRequest:").expect("the schema is there");
    let at = |property: &str| schema + text[schema..].find(property).expect("the property is there");
    let (mime, name, size) = (at("        mime:"), at("        name:"), at("        size:"));
    let swapped = [&text[..mime], &text[name..size], &text[mime..name], &text[size..]].concat();
    let folder = Folder::new("diff_order");
    folder.write("old.yaml", &text);
    folder.write("new.yaml", &swapped);
    let said = diff(&folder, &["old.yaml", "new.yaml"]);
    assert!(said.out.contains("breaks: Go, Rust, openapi-python-client"), "{}", said.out);
}

#[test]
fn a_document_is_compared_with_its_last_published_version() {
    let folder = after("diff_default", "description: Free credits.", "description: Unpaid credits.", "1.0.1");
    let report = diff(&folder, &[]).succeeded();
    assert!(report.contains("1.0.0.yaml → "), "{report}");
    let summary = "docs only\n0 breaking, 0 compatible, 1 docs only\n\
                   the version 1.0.1 is high enough: 1.0.0 needs 1.0.1 or higher\n\ngetBalance\n";
    assert!(report.contains(summary), "{report}");
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

fn unpublished_major(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("openapi/published/1.0.0.yaml", &published());
    folder.write("openapi/inferstore.yaml", &real_document());
    folder.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- Breaking: the old names are gone.\n");
    folder.git(&["init", "--quiet", "--initial-branch", "main"]);
    folder.git(&["config", "user.name", "Ada"]);
    folder.git(&["config", "user.email", "ada@inferstore.example"]);
    folder.git(&["add", "."]);
    folder.git(&["commit", "--quiet", "--message", "begin"]);
    folder
}

fn edit(folder: &Folder, old: &str, new: &str) {
    folder.write("openapi/inferstore.yaml", &replaced(&folder.read("openapi/inferstore.yaml"), old, new));
}

#[test]
fn an_edit_is_compared_with_its_parent_while_a_major_is_unpublished() {
    let folder = unpublished_major("diff_edit");
    edit(&folder, "description: Free credits.", "description: Unpaid credits.");
    let expected = "docs only\n0 breaking, 0 compatible, 1 docs only\n";
    assert!(diff(&folder, &[]).succeeded().contains(expected));
    assert!(diff(&folder, &["--since", "HEAD"]).succeeded().contains(expected));

    folder.git(&["checkout", "--quiet", "-b", "topic"]);
    folder.git(&["commit", "--quiet", "--all", "--message", "edit"]);
    assert!(diff(&folder, &[]).succeeded().contains(expected), "the branch left main before the edit");
    assert!(diff(&folder, &["--since", "HEAD"]).succeeded().contains("no change\n"));

    let said = diff(&folder, &["--since", "nowhere"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert!(said.err.contains("nowhere is no commit with openapi/inferstore.yaml"), "{}", said.err);
}

#[test]
fn a_breaking_edit_needs_a_changelog_line_while_a_major_is_unpublished() {
    let renamed = ("        debt:\n", "        debts:\n");
    let removed = ("operationId: getBalance", "operationId: readBalance");
    for (name, (old, new)) in [("diff_renamed", renamed), ("diff_removed", removed)] {
        let folder = unpublished_major(name);
        let report = diff(&folder, &["--check"]).succeeded();
        assert_eq!(report, format!("breaking since 1.0.0: {} is high enough\n", real_version()));
        edit(&folder, old, new);
        let said = diff(&folder, &["--check"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains("and CHANGELOG.md does not say so\n  breaking "), "{said:?}");
        assert!(said.err.contains("\nhint: add a line that begins with `- Breaking: `"), "{said:?}");
        let changelog = folder.read("CHANGELOG.md") + "- Breaking: another name.\n";
        folder.write("CHANGELOG.md", &changelog);
        diff(&folder, &["--check"]).succeeded();
    }
}

#[test]
fn a_low_version_and_a_changelog_without_the_break_are_reported_at_once() {
    let folder = unpublished_major("diff_both");
    let version = format!("version: {}", real_version());
    edit(&folder, &version, "version: 1.1.0");
    edit(&folder, "operationId: getBalance", "operationId: readBalance");
    let message = diff(&folder, &["--check"]).err;
    assert!(message.contains("needs at least 2.0.0"), "{message}");
    assert!(message.contains("and CHANGELOG.md does not say so"), "{message}");
}

#[test]
fn a_property_with_another_name_is_recognized_and_the_way_out_named() {
    let folder = unpublished_major("diff_rename");
    edit(&folder, "        debt:\n", "        debts:\n");
    let said = diff(&folder, &[]);
    let message = "the property debt is gone: code that reads it breaks; if it is debts now, keep debt beside it, \
                   with `deprecated: true`";
    assert!(said.out.contains(message), "{}", said.out);
}

#[test]
fn the_report_stays_json_when_the_check_fails() {
    let folder = after("diff_check_json", "operationId: getBalance", "operationId: readBalance", "1.0.0");
    let said = diff(&folder, &["--check", "--format", "json"]);
    let report: Value = serde_json::from_str(&said.out).expect("the report is JSON");
    assert_eq!((said.code, &report["verdict"]), (Some(1), &json!("breaking")));
}

#[test]
fn help_names_the_options_and_the_exit_codes() {
    let usage = diff(&Folder::new("diff_help"), &["--help"]).succeeded();
    for part in [
        "cargo xtask diff [OPTIONS] [OLD] [NEW]",
        "--corpus",
        "--format",
        "--check",
        "2 when",
        "With --check",
    ] {
        assert!(usage.contains(part), "{usage}");
    }
}

#[test]
fn what_cannot_be_compared_ends_with_2_and_a_reason() {
    let folder = Folder::new("diff_unreadable");
    folder.write("good.yaml", &real_document());
    folder.write("broken.yaml", "openapi: [");
    folder.write("other.yaml", "name: value\n");
    folder.write("later.yaml", "openapi: 3.1.0\npaths: {}\n");
    folder.write("switch.yaml", "openapi: 3.0.3\npaths: {}\nx-states: {Off: 0}\n");
    folder.write("loose.yaml", &replaced(&published(), "parameters/TaskId\"", "parameters/Task\""));
    for (arguments, reason) in [
        (["good.yaml", "absent.yaml"], "cannot read absent.yaml"),
        (["broken.yaml", "good.yaml"], "broken.yaml:1:"),
        (["other.yaml", "good.yaml"], "other.yaml is not an OpenAPI 3.0 document"),
        (["good.yaml", "later.yaml"], "later.yaml is not an OpenAPI 3.0 document"),
        (["good.yaml", "loose.yaml"], "loose.yaml: there is no #/components/parameters/Task"),
        (
            ["switch.yaml", "good.yaml"],
            "a key is a boolean, a number or null in YAML, such as `Off` or `1`; quote it",
        ),
        (["good.yaml", "--fast"], "unexpected argument '--fast'"),
        (["--format", "xml"], "[possible values: text, json]"),
    ] {
        let said = diff(&folder, &arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(said.err.contains(reason), "{arguments:?}: {}", said.err);
    }
    let said = diff(&folder, &["good.yaml", "good.yaml", "good.yaml"]);
    assert!(said.err.contains("unexpected argument 'good.yaml'"), "{}", said.err);
    folder.write("openapi/inferstore.yaml", &real_document());
    let said = diff(&folder, &[]);
    assert!(said.err.contains("nothing was published in openapi/published yet"), "{}", said.err);
}
