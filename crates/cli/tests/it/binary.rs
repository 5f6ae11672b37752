//! The real binary: as a process, with real signals.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use inferstore_cli::exit;

use crate::support::Cli;

fn inferstore() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inferstore"));
    for variable in ["INFERSTORE_BASE_URL", "INFERSTORE_API_KEY", "INFERSTORE_PROFILE"] {
        command.env_remove(variable);
    }
    command
}

/// A service in a process of its own.
struct Served {
    process: Child,
    ready: serde_json::Value,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut process = inferstore()
            .args(["serve", "--port", "0", "--storage-port", "0", "--ready-json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let stdout = process.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it is ready");
        Self { process, ready: serde_json::from_str(&line).expect("one line of JSON") }
    }

    fn call(&self, words: &str) -> Command {
        let mut command = inferstore();
        command.args(words.split(' '));
        for (variable, field) in [("INFERSTORE_BASE_URL", "base_url"), ("INFERSTORE_API_KEY", "api_key")] {
            command.env(variable, self.ready[field].as_str().expect("it is told"));
        }
        command
    }

    /// Ends it with a signal, and returns the rest of what it printed.
    fn end(self, signal: &str) -> Output {
        send(signal, self.process.id());
        self.process.wait_with_output().expect("it ends")
    }
}

fn send(signal: &str, process: u32) {
    let sent = Command::new("kill").args(["-s", signal, &process.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{process} cannot be sent {signal}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_and_version_are_data() {
    let version = inferstore().arg("--version").output().expect("it starts");
    assert_eq!(text(&version.stdout), concat!("inferstore ", env!("CARGO_PKG_VERSION"), "\n"));
    let help = inferstore().arg("--help").output().expect("it starts");
    assert!(text(&help.stdout).contains("Exit codes: 0 done") && help.stderr.is_empty(), "{help:?}");
    let nothing = inferstore().output().expect("it starts");
    assert_eq!(nothing.status.code(), Some(exit::USAGE.into()));
    assert!(nothing.stdout.is_empty(), "{nothing:?}");
}

#[test]
fn a_service_says_one_line_and_keeps_what_it_was_told() {
    let cli = Cli::new();
    let folder = cli.path("data");
    let served = Served::start(&["--data-dir", &folder]);
    let ready = &served.ready;
    assert_eq!(ready["event"], "ready");
    assert_eq!(ready["pid"], served.process.id());
    assert_eq!(ready["data_dir"], folder.as_str());
    assert!(ready["storage_url"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:")), "{ready}");

    let upload = served.call("files upload samples hazy.png").current_dir(cli.folder.path()).output();
    assert!(upload.expect("it starts").status.success());
    let ended = served.end("TERM");
    assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:?}");

    let again = Served::start(&["--data-dir", &folder]);
    assert!(again.ready["api_key"].is_null(), "only a hash is kept: {}", again.ready);
    assert!(again.end("INT").status.success());
    let with_key = Served::start(&["--data-dir", &folder, "--api-key", "a-key-of-ours"]);
    assert_eq!(with_key.ready["api_key"], "a-key-of-ours");
    with_key.end("TERM");
}

#[test]
fn a_task_that_the_balance_does_not_cover_is_refused_or_fails_as_the_service_was_started() {
    let cli = Cli::new();
    let folder = cli.path("data");
    let first = Served::start(&["--data-dir", &folder]);
    let key = first.ready["api_key"].clone();
    first.end("TERM");
    assert_eq!(cli.call("admin model price face-mesh 1000 --data-dir data").code, exit::DONE);
    for (choice, tasks) in [("refuse", 0), ("fail-task", 1)] {
        let mut served = Served::start(&["--data-dir", &folder, "--insufficient-balance", choice]);
        served.ready["api_key"] = key.clone();
        let run = served.call("run face-mesh -i input=https://files.example/face.png").output();
        let run = run.expect("it starts");
        assert!(!run.status.success() && text(&run.stderr).contains("balance"), "{run:?}");
        let list = served.call("task list --format quiet").output().expect("it starts");
        assert_eq!(text(&list.stdout).lines().count(), tasks, "{choice}: {list:?}");
        served.end("TERM");
    }
}

#[test]
fn a_port_that_is_taken_is_told() {
    let served = Served::start(&["--ephemeral"]);
    let port =
        served.ready["base_url"].as_str().and_then(|url| url.split([':', '/']).nth(4)).expect("a port");
    let second = inferstore().args(["serve", "--ephemeral", "--storage-port", "0", "--port", port]).output();
    let second = second.expect("it starts");
    assert_eq!(second.status.code(), Some(exit::FAILED.into()));
    assert!(text(&second.stderr).contains("hint: choose other ports"), "{second:?}");
    served.end("TERM");
}

/// Starts a run on a model that no node serves, and waits until its task is there.
fn stuck_run(served: &Served, cli: &Cli, arguments: &str) -> Child {
    let mut run = served
        .call(&format!("run face-mesh -i input=@hazy.png{arguments}"))
        .current_dir(cli.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stderr = BufReader::new(run.stderr.as_mut().expect("it is piped"));
    let created = stderr.lines().map_while(Result::ok).find(|line| line.ends_with("created"));
    assert!(created.is_some(), "no task was created");
    run
}

fn status(served: &Served, task: &str) -> String {
    let shown = served.call(&format!("task show {task} --format json")).output().expect("it starts");
    let task: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("it is JSON");
    task["status"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn ctrl_c_detaches_and_a_second_one_cancels() {
    let (served, cli) = (Served::start(&["--ephemeral"]), Cli::new());

    let run = stuck_run(&served, &cli, "");
    send("INT", run.id());
    let detached = run.wait_with_output().expect("it ends");
    assert_eq!(detached.status.code(), Some(exit::DETACHED.into()), "{detached:?}");
    let task = text(&detached.stdout);
    assert!(
        text(&detached.stderr).contains(&format!("inferstore task wait {}", task.trim())),
        "{detached:?}"
    );
    assert_eq!(status(&served, task.trim()), "in_queue");

    let run = stuck_run(&served, &cli, "");
    send("INT", run.id());
    std::thread::sleep(Duration::from_millis(500));
    send("INT", run.id());
    let canceled = run.wait_with_output().expect("it ends");
    assert_eq!(canceled.status.code(), Some(exit::TASK_CANCELED.into()), "{canceled:?}");
    assert_eq!(status(&served, text(&canceled.stdout).trim()), "canceled");

    let run = stuck_run(&served, &cli, " --cancel-on-interrupt");
    send("INT", run.id());
    let canceled = run.wait_with_output().expect("it ends");
    assert_eq!(canceled.status.code(), Some(exit::TASK_CANCELED.into()), "{canceled:?}");
    served.end("TERM");
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let served = Served::start(&["--ephemeral"]);
    let mut list =
        served.call("models list --all --format json").stdout(Stdio::piped()).spawn().expect("it starts");
    drop(list.stdout.take());
    assert!(list.wait().expect("it ends").success());
    served.end("TERM");
}
