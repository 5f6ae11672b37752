//! Sessions in a pseudo-terminal of 50, 80 and 120 columns: nothing that one copies is cut.

use std::process::Command;

use inferstore_service::{ModelSpec, Scope};
use serde_json::json;

use crate::support::{Local, filters};

/// Returns the text on a terminal of this width, without the carriage returns of its driver.
fn run_on_terminal(local: &Local, columns: usize, words: &str) -> String {
    let command =
        format!("stty cols {columns} rows 40; '{}' {words} 2>/dev/null", env!("CARGO_BIN_EXE_inferstore"));
    let output = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("INFERSTORE_BASE_URL", local.service().base_url())
        .env("INFERSTORE_API_KEY", "the-key-of-the-tests")
        .env("INFERSTORE_CONFIG", "profiles.json")
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .env_remove("INFERSTORE_PROFILE")
        .current_dir(local.cli.folder.path())
        .output()
        .expect("script is installed");
    String::from_utf8_lossy(&output.stdout).replace('\r', "").replace('\u{1b}', "␛")
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_at_each_width() {
    let _filters = filters();
    let local = Local::start();
    let outcome = local.cli.call("run haze-removal hazy.png --json").stdout;
    let task: serde_json::Value = serde_json::from_str(&outcome).expect("it is JSON");
    let id = task["task_id"].as_str().expect("it has an identifier").to_owned();
    let failed = local.cli.call("run haze-removal http://127.0.0.1:1/a.png");
    assert_eq!(failed.code, inferstore_cli::exit::TASK_FAILED, "{failed}");
    let url = local.cli.call("files list samples -q").stdout.trim().to_owned();
    for columns in [50, 80, 120] {
        let mut session = String::new();
        for words in [
            "models list",
            "models show haze-removal",
            "models schema color-harmonization",
            "task list",
            "task show @last",
            "files list samples",
            "files upload covers hazy.png --overwrite",
            "balance --json",
            "status",
        ] {
            let run_on_terminal = run_on_terminal(&local, columns, words);
            match words {
                "task list" => assert!(run_on_terminal.contains(&id), "{columns}: {run_on_terminal}"),
                "files list samples" => {
                    assert!(run_on_terminal.contains("samples/"), "{columns}: {run_on_terminal}");
                }
                "models list" => {
                    assert!(run_on_terminal.contains("semantic-low-light-enhancement"), "{run_on_terminal}");
                }
                "files upload covers hazy.png --overwrite" => {
                    assert!(run_on_terminal.contains("/covers/hazy.png"), "{run_on_terminal}");
                }
                _ => {}
            }
            session.push_str(&format!("$ inferstore {words}\n{run_on_terminal}\n"));
        }
        let task = shown_of_task(&local, columns, &id);
        assert!(task.contains(&url), "the input is whole at {columns}: {task}");
        insta::assert_snapshot!(format!("terminal_{columns}"), session);
    }
}

fn shown_of_task(local: &Local, columns: usize, id: &str) -> String {
    run_on_terminal(local, columns, &format!("task show {id}"))
}

#[cfg(target_os = "linux")]
#[test]
fn lists_of_operators_show_ages_on_a_terminal() {
    let local = Local::start();
    let data = crate::admin::with_folder();
    let words = format!("admin key list demo --data-dir {}", data.path("data"));
    let shown = run_on_terminal(&local, 120, &words);
    assert!(shown.contains("s ago") && !shown.contains("202"), "{shown}");
}

#[test]
fn control_characters_of_publishers_do_not_reach_the_terminal() {
    let mut local = Local::start();
    let text =
        |samples: &[&str]| json!({"type": "string", "required": true, "position": 0, "samples": samples});
    let spec = json!({
        "id": "evil", "name": "evil", "description": "", "price": "0", "visibility": "public",
        "input_format": {"name": text(&["one\u{1b}[2J\ntwo\u{9b}2J\u{202e}"])},
        "output_format": {"out": text(&[])}
    });
    let spec = ModelSpec::from_json(&spec.to_string()).expect("the model is well-formed");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let service = local.service();
    let published = runtime.block_on(async {
        service.add_account("ada", Scope::Personal).await?;
        service.publish_model("ada", spec).await
    });
    published.expect("the model can be published");
    local.cli.typing();
    for words in ["models schema evil", "run evil"] {
        let ended = local.cli.call(words);
        let text = ended.stdout + &ended.stderr;
        assert!(text.contains("inferstore run evil") && text.contains("two"), "{text}");
        let is_harmful = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(is_harmful), "{words}: {text:?}");
    }
}
