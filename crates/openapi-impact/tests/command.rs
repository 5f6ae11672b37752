//! The command and the action, as a caller uses them.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const OLD: &str = r##"{"openapi": "3.0.3", "info": {"title": "Tasks", "version": "1.0.0"}, "paths": {
    "/tasks/{id}": {"get": {"operationId": "getTask", "responses": {"200": {"description": "A task.", "content":
        {"application/json": {"schema": {"$ref": "#/components/schemas/Task"}}}}}}},
    "/tasks": {"get": {"operationId": "listTasks", "responses": {"200": {"description": "All."}}}}},
    "components": {"schemas": {"Task": {"type": "object", "properties":
        {"status": {"type": "string"}, "cost": {"type": "number"}}}}}}"##;

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("src")).unwrap();
    let new = OLD.replace(r#", "cost": {"type": "number"}"#, "").replace("listTasks", "listAllTasks");
    for (file, text) in [
        ("old.json", OLD),
        ("new.json", &new),
        ("uses.txt", "# The report of costs.\nGET /tasks/{id}: cost\n"),
        ("other.txt", "getTask: status\n"),
        ("src/report.ts", "const task = await fetch(`${base}/tasks/${id}`)\n"),
    ] {
        fs::write(folder.join(file), text).unwrap();
    }
    folder
}

fn impact(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openapi-impact"));
    ended(command.current_dir(folder).args(["old.json", "new.json"]).args(arguments))
}

#[test]
fn a_caller_reads_what_breaks_it_alone_from_a_list_or_from_its_code() {
    let folder = folder("command");
    let all = impact(&folder, &[]);
    assert!(all.code == Some(1) && all.out.contains("is called listAllTasks now"), "{}", all.out);
    for uses in ["uses.txt", "src"] {
        let caller = impact(&folder, &["--uses", uses]);
        assert_eq!(caller.code, Some(1), "{}", caller.out);
        assert!(caller.out.starts_with("for a caller of getTask\n"), "{}", caller.out);
        assert!(caller.out.contains("the property cost is gone"), "{}", caller.out);
        assert!(!caller.out.contains("listAllTasks"), "{}", caller.out);
    }
    let other = impact(&folder, &["--uses", "other.txt", "--format", "json"]);
    assert_eq!((other.code, other.err.as_str()), (Some(0), ""), "{}", other.out);
    assert!(other.out.contains("\"changes\": []"), "{}", other.out);

    for (line, reason) in [
        ("getTsk", "`getTsk` is no operation of the document"),
        ("getTask: cots", "no response of getTask has a field `cots`"),
        ("kind prints", "`prints` is no model kind of the document"),
        ("client go", "`go` is no client; write none, or one of Go, Java, "),
    ] {
        fs::write(folder.join("uses.txt"), format!("getTask\n{line}\n")).unwrap();
        let wrong = impact(&folder, &["--uses", "uses.txt"]);
        assert_eq!(wrong.code, Some(2));
        assert!(wrong.err.contains(&format!("uses.txt: line 2: {reason}")), "{}", wrong.err);
    }
}

#[test]
fn a_page_has_the_changes_and_no_markup_of_the_documents() {
    let folder = folder("page");
    let new = fs::read_to_string(folder.join("new.json")).unwrap();
    fs::write(folder.join("new.json"), new.replace("listAllTasks", "<b>list</b>")).unwrap();
    let page = impact(&folder, &["--format", "html"]);
    assert!(
        page.out.starts_with("<!doctype html>") && page.out.contains("<b class=\"breaking\">"),
        "{}",
        page.out
    );
    assert!(page.out.contains("&lt;b&gt;list&lt;/b&gt;") && !page.out.contains("<b>list"), "{}", page.out);
}

#[cfg(unix)]
#[test]
fn the_action_reports_breaking_changes_and_fails_if_told_to() {
    let folder = folder("action");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(variable);
        }
        let author = ["-c", "user.name=Ada", "-c", "user.email=ada@tasks.example"];
        let git = ended(command.current_dir(&folder).args(author).args(arguments));
        assert_eq!(git.code, Some(0), "{}", git.err);
    };
    git(&["init", "--quiet"]);
    fs::copy(folder.join("old.json"), folder.join("api.json")).unwrap();
    git(&["add", "api.json"]);
    git(&["commit", "--quiet", "--message", "begin"]);
    fs::copy(folder.join("new.json"), folder.join("api.json")).unwrap();
    let action = |uses: &str, fail: &str| {
        let (summary, output) = (folder.join("summary.md"), folder.join("output"));
        for file in [&summary, &output] {
            fs::write(file, "").unwrap();
        }
        let mut command = Command::new("sh");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("action.sh");
        command.arg(script).current_dir(&folder).env("PROGRAM", env!("CARGO_BIN_EXE_openapi-impact"));
        command.env("DOCUMENT", "api.json").env("BASE", "HEAD").env("USES", uses).env("FAIL", fail);
        command.env("GITHUB_STEP_SUMMARY", &summary).env("GITHUB_OUTPUT", &output);
        let ended = ended(&mut command);
        (ended, fs::read_to_string(summary).unwrap(), fs::read_to_string(output).unwrap())
    };
    let (failed, summary, output) = action("uses.txt", "true");
    assert_eq!((failed.code, output.as_str()), (Some(1), "breaks=true\n"), "{}", failed.err);
    assert!(summary.contains("the property cost is gone") && !summary.contains("listAllTasks"), "{summary}");
    let (passed, _, output) = action("", "false");
    assert_eq!((passed.code, output.as_str()), (Some(0), "breaks=true\n"), "{}", passed.err);
    let (passed, summary, output) = action("other.txt", "true");
    assert_eq!((passed.code, output.as_str()), (Some(0), "breaks=false\n"), "{}", passed.err);
    assert!(summary.contains("Nothing breaks"), "{summary}");
    let (wrong, ..) = action("missing.txt", "false");
    assert!(wrong.code == Some(2) && wrong.err.contains("missing.txt"), "{}", wrong.err);
}
