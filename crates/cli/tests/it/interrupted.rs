//! Ctrl-C and SIGTERM: at every stage of a run the command ends soon, and says what becomes of the task.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use inferstore_cli::exit;
use inferstore_service::Script;
use serde_json::json;

use crate::support::{Local, pictures, send};

/// The most that a command may take to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);

/// The most that it may take to end: less than the client's pauses and its limit for deletions.
const ENDS_WITHIN: Duration = Duration::from_secs(9);

/// Interrupts a command, and waits for its end.
fn interrupt(process: Child) -> Output {
    end(process, "INT")
}

fn end(mut process: Child, signal: &str) -> Output {
    send(signal, process.id());
    let has_ended = is_so_within(ENDS_WITHIN, || process.try_wait().expect("it can be asked").is_some());
    if !has_ended {
        process.kill().expect("it runs");
    }
    let output = process.wait_with_output().expect("it ends");
    assert!(has_ended, "the command goes on: {output:?}");
    output
}

/// Waits until the command has come so far; `false` if it takes too long.
fn wait_until(has_begun: impl FnMut() -> bool) -> bool {
    is_so_within(BEGINS_WITHIN, has_begun)
}

fn is_so_within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < limit {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn requests(local: &Local, operation: &str) -> usize {
    let controls = local.service().controls().expect("they are on");
    let operation: inferstore_service::Operation =
        serde_json::from_value(operation.into()).expect("there is such an operation");
    controls.seen(operation)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn ctrl_c_before_the_create_leaves_no_task() {
    let local = Local::with_controls();
    local.fault(json!({"effect": "delay", "delay_ms": 30_000, "operation": "getModelVersioning"}));
    let run = local.command("run haze-removal input_image=@hazy.png").spawn().expect("it starts");
    assert!(wait_until(|| requests(&local, "getModelVersioning") > 0));
    let output = interrupt(run);
    assert_eq!(output.status.code(), Some(exit::FAILED.into()), "{output:?}");
    assert!(text(&output.stderr).contains("no task was created"), "{output:?}");
    assert_eq!(local.cli.call("task list -q").stdout, "");
}

#[test]
fn ctrl_c_ends_a_download_and_names_the_task_that_is_paid() {
    let local = Local::with_controls();
    local.fault(json!({"effect": "drip_body", "bytes": 1, "pause_ms": 100, "operation": "getObject"}));
    let words = "run haze-removal input_image=@hazy.png --poll 0.1 -o out.png";
    let run = local.command(words).spawn().expect("it starts");
    assert!(wait_until(|| requests(&local, "getObject") > 0));
    let output = interrupt(run);
    assert_eq!(output.status.code(), Some(exit::DETACHED.into()), "{output:?}");
    let report = text(&output.stdout);
    let task =
        report.lines().find_map(|line| line.strip_prefix("task ")).expect("the task is reported").trim();
    let hint = format!("inferstore task show {task} -o PATH");
    assert!(text(&output.stderr).contains(&hint), "{output:?}");
}

#[test]
fn a_second_ctrl_c_ends_a_batch_that_cancels_its_tasks() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    local.fault(json!({"effect": "delay", "delay_ms": 60_000, "operation": "cancelTask"}));
    let words = "run face-mesh p000.png p001.png -o out --poll 0.1 --cancel-on-interrupt";
    let run = local.command(words).spawn().expect("it starts");
    assert!(wait_until(|| requests(&local, "getTask") >= 4));
    send("INT", run.id());
    assert!(wait_until(|| requests(&local, "cancelTask") > 0));
    let output = interrupt(run);
    assert_eq!(output.status.code(), Some(exit::DETACHED.into()), "{output:?}");
    let tasks = local.cli.call("task list -q").stdout;
    assert!(tasks.lines().count() == 2 && tasks.lines().all(|task| text(&output.stdout).contains(task)));
}

#[test]
fn the_uploaded_inputs_of_tasks_that_an_interrupt_cancels_are_deleted() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    let words =
        "run face-mesh p000.png p001.png -o out --poll 0.1 --cancel-on-interrupt --delete-inputs --json";
    let run = local.command(words).spawn().expect("it starts");
    assert!(wait_until(|| requests(&local, "getTask") >= 4));
    let output = interrupt(run);
    assert_eq!(output.status.code(), Some(exit::DETACHED.into()), "{output:?}");
    assert!(text(&output.stderr).contains("2 queued tasks were canceled"), "{output:?}");
    let records: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(records[0]["status"] == "canceled" && records[1]["status"] == "canceled", "{records}");
    assert_eq!(local.cli.call("files stats -q").stdout, "0\n", "the inputs are deleted");
}

#[test]
fn a_batch_that_a_signal_ends_prints_the_tasks_that_go_on() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    local.script("haze-removal", Script::stay_queued());
    let words = "run haze-removal p000.png p001.png -o out --poll 0.1";
    let run = local.command(words).spawn().expect("it starts");
    assert!(wait_until(|| requests(&local, "getTask") >= 4));
    let output = end(run, "TERM");
    assert_eq!(output.status.code(), Some(exit::DETACHED.into()), "{output:?}");
    let printed = text(&output.stdout);
    let tasks = local.cli.call("task list -q").stdout;
    let is_printed = |task| printed.lines().any(|line| line == task);
    assert!(tasks.lines().count() == 2 && tasks.lines().all(is_printed), "{printed}");
}

#[test]
fn ctrl_c_during_the_downloads_of_a_batch_reports_what_is_paid() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    local.fault(json!({"effect": "drip_body", "bytes": 1, "pause_ms": 100, "operation": "getObject"}));
    let words = "run haze-removal p000.png p001.png -o out --poll 0.1 --cancel-on-interrupt --json";
    let run = local.command(words).spawn().expect("it starts");
    assert!(wait_until(|| requests(&local, "getObject") >= 2));
    let output = interrupt(run);
    assert_eq!(output.status.code(), Some(exit::DETACHED.into()), "{output:?}");
    let records: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    for record in records.as_array().expect("a list") {
        assert!(record["status"] == "not_saved" && record["cost"] == "0.01", "{record}");
        assert!(record["task"].is_string() && record["output"].is_object(), "{record}");
    }
    assert!(text(&output.stderr).contains("0 queued tasks were canceled"), "{output:?}");
    assert_eq!(requests(&local, "cancelTask"), 0, "what has succeeded cannot be canceled");
}

#[test]
fn a_run_that_a_signal_ends_writes_its_task_as_json() {
    for signal in ["INT", "TERM"] {
        let local = Local::with_controls();
        local.script("haze-removal", Script::stay_queued());
        let words = "run haze-removal hazy.png --poll 0.1 --json";
        let run = local.command(words).spawn().expect("it starts");
        assert!(wait_until(|| requests(&local, "getTask") >= 2));
        let output = end(run, signal);
        assert_eq!(output.status.code(), Some(exit::DETACHED.into()), "{signal}: {output:?}");
        let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON alone");
        let task = local.cli.call("task list -q").stdout;
        assert!(record["task_id"] == task.trim() && record["status"] == "in_queue", "{record}");
        // It may have been sent by a system that goes down: no one is there to press a key.
        assert_eq!(text(&output.stderr).contains("Ctrl-C again"), signal == "INT", "{output:?}");
    }
}

#[test]
fn a_second_ctrl_c_during_the_create_has_the_code_of_an_unknown_outcome() {
    let local = Local::with_controls();
    local.fault(json!({"effect": "delay", "delay_ms": 60_000, "operation": "createTask"}));
    let mut run = local.command("run haze-removal hazy.png --json").spawn().expect("it starts");
    assert!(wait_until(|| requests(&local, "createTask") > 0));
    send("INT", run.id());
    let mut lines = BufReader::new(run.stderr.as_mut().expect("it is piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("Ctrl-C again stops at once")));
    let output = interrupt(run);
    assert_eq!(output.status.code(), Some(exit::OUTCOME_UNKNOWN.into()), "{output:?}");
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON alone");
    assert_eq!(record, json!({"candidates": []}));
}

#[test]
fn an_interrupted_run_whose_task_cannot_be_canceled_says_that_it_goes_on() {
    let local = Local::with(|config| {
        *config = config.clone().with_controls();
        config.shutdown_timeout = Duration::ZERO;
    });
    local.script("haze-removal", Script::run().after(Duration::from_secs(300)));
    let faults = [None, Some(json!({"effect": "hang_up", "operation": "cancelTask"}))];
    for (computing, fault) in (1..).zip(faults) {
        fault.into_iter().for_each(|fault| local.fault(fault));
        let reads = requests(&local, "getTask");
        let words = "run haze-removal hazy.png --poll 0.1 --cancel-on-interrupt --json";
        let run = local.command(words).spawn().expect("it starts");
        let tasks = || local.cli.call("task list --status computing -q").stdout;
        assert!(wait_until(|| tasks().lines().count() == computing && requests(&local, "getTask") > reads));
        let output = interrupt(run);
        assert_eq!(output.status.code(), Some(exit::DETACHED.into()), "{output:?}");
        let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON alone");
        assert_eq!(record["task_id"].as_str(), tasks().lines().next(), "{record}");
    }
}

#[test]
fn the_uploaded_input_of_a_run_that_an_interrupt_cancels_is_deleted() {
    let local = Local::with_controls();
    local.script("haze-removal", Script::stay_queued());
    let words = "run haze-removal hazy.png --poll 0.1 --delete-inputs --cancel-on-interrupt";
    let run = local.command(words).spawn().expect("it starts");
    assert!(wait_until(|| requests(&local, "getTask") >= 2));
    let output = interrupt(run);
    assert_eq!(output.status.code(), Some(exit::TASK_CANCELED.into()), "{output:?}");
    assert_eq!(local.cli.call("files stats -q").stdout, "0\n", "{output:?}");
}

#[test]
fn a_run_that_is_left_alone_names_the_input_that_stays() {
    let local = Local::with_controls();
    local.script("haze-removal", Script::stay_queued());
    let words = "run haze-removal hazy.png --poll 0.1 --delete-inputs";
    let run = local.command(words).spawn().expect("it starts");
    assert!(wait_until(|| requests(&local, "getTask") >= 2));
    let output = interrupt(run);
    assert_eq!(output.status.code(), Some(exit::DETACHED.into()), "{output:?}");
    assert!(text(&output.stderr).contains("inputs stay stored"), "{output:?}");
}
