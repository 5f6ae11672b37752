//! The promises to scripts: JSON at every end, options that are checked before anything is paid, files that are written.

use inferstore_cli::exit;
use serde_json::Value;

use crate::support::{Cli, Local, filters, pictures};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON alone")
}

/// The JSON on standard error, between notes and the error.
fn unfiltered(stderr: &str) -> Value {
    let start = stderr.find("\n{\n").or(stderr.find("\n[\n")).map_or(0, |start| start + 1);
    let json = serde_json::Deserializer::from_str(&stderr[start..]).into_iter().next();
    json.and_then(Result::ok).expect("it has JSON")
}

#[test]
fn a_wrong_field_or_expression_is_found_before_a_run_is_paid() {
    let _filters = filters();
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    insta::assert_snapshot!(local.cli.transcript(&[
        "run haze-removal hazy.png --json=nothing",
        "run haze-removal p000.png p001.png -o out --json=task_id",
        "task wait 00000000-0000-4000-8000-000000000000 --json=nothing",
        "run haze-removal hazy.png --detach --json=task_id,status",
        "files upload samples hazy.png missing.png --json=url",
        "run haze-removal hazy.png --jq .[",
        "run haze-removal hazy.png -o - --jq .status",
        "run haze-removal p000.png p001.png -o out --jq nothing",
    ]));
    assert_eq!(local.cli.call("task list -q").stdout, "");
    assert_eq!(local.cli.call("files stats -q").stdout, "0\n", "nothing was uploaded");
}

#[test]
fn a_run_whose_output_does_not_fit_the_expression_is_reported() {
    let local = Local::start();
    let ended = local.cli.call("run haze-removal hazy.png --jq .status.word");
    assert_eq!(ended.code, exit::FAILED, "{ended}");
    assert!(ended.stderr.contains("inferstore task show"), "the run is paid: {ended}");
    assert_eq!((&*ended.stdout, &unfiltered(&ended.stderr)["status"]), ("", &"success".into()));
}

#[test]
fn a_read_whose_filter_fails_prints_nothing_and_says_what_the_json_is() {
    let _filters = filters();
    let local = Local::start();
    assert_eq!(local.cli.call("run face-mesh hazy.png --detach").code, exit::DONE);
    insta::assert_snapshot!(local.cli.transcript(&[
        "task list --jq .[].task_id",
        "task list --format jsonl --jq .task_id.word",
        "task list --json=status,price --format jsonl",
        "models list --json=nope",
        "balance --json=nope",
        "task show @last --json=nope",
        "api /api-key/balance --jq .[].x",
    ]));
}

#[test]
fn quiet_and_no_progress_write_errors_alone_to_standard_error() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    for command in [
        "run haze-removal hazy.png -o one.png -q",
        "run haze-removal p000.png p001.png -o out -q",
        "files upload samples p000.png p001.png -q",
        "run face-mesh hazy.png --detach -q",
        "task cancel @last -q",
        "run haze-removal hazy.png --no-progress --json",
    ] {
        let ended = local.cli.call(command);
        assert!(ended.code == exit::DONE && ended.stderr.is_empty(), "{command}: {ended}");
    }
    let ended = local.cli.call("run haze-removal missing.png -q");
    assert!(ended.stderr.contains("missing.png: "), "{ended}");
    std::fs::write(local.cli.path("fake.png"), "no picture").expect("it can be written");
    let ended = local.cli.call("run haze-removal p000.png fake.png -o out -q");
    assert!(ended.code != exit::DONE && ended.stderr.contains("fake.png"), "the failed file: {ended}");
}

#[test]
fn odd_file_names_run_and_too_long_ones_are_refused_before_the_upload() {
    let local = Local::start();
    let cli = &local.cli;
    let long = format!("{}.png", "n".repeat(250));
    for name in ["new\nline.png", "ta\tb.png", &long] {
        std::fs::copy(cli.path("hazy.png"), cli.path(name)).expect("it can be copied");
        let ended = cli.call_with(&["run", "haze-removal", name, "-o", "out/"]);
        assert_eq!(ended.code, exit::DONE, "{ended}");
    }
    assert_eq!(cli.call_with(&["run", "haze-removal", "hazy.png", &long, "-o", "batch/"]).code, exit::DONE);
    let tasks = cli.call("task list --all -q").stdout.lines().count();
    let ended =
        cli.call_with(&["run", "haze-removal", "hazy.png", "-o", &format!("{}.png", "n".repeat(300))]);
    assert_eq!(ended.code, exit::USAGE, "{ended}");
    assert_eq!(cli.call("task list --all -q").stdout.lines().count(), tasks, "nothing was sent");
}

#[test]
fn a_task_is_named_by_the_end_of_its_identifier() {
    let local = Local::start();
    for _ in 0..2 {
        local.cli.call("run face-mesh hazy.png --detach");
    }
    let tasks = local.cli.call("task list -q").stdout;
    for id in tasks.lines() {
        let shown = local.cli.call(&format!("task show {} -q", &id[id.len() - 8..]));
        assert_eq!(shown.stdout.trim(), id, "{shown}");
    }
}

#[test]
fn outputs_of_a_waited_task_are_named_after_the_file_that_was_given() {
    let local = Local::start();
    assert_eq!(local.cli.call("run haze-removal hazy.png -o a/").code, exit::DONE);
    let waited = local.cli.call("task wait @last -o b/ -q");
    assert_eq!(waited.stdout, "b/hazy-haze-removal.png\n", "{waited}");
}

#[test]
fn what_was_done_is_reported_whole_when_it_does_not_fit_the_expression() {
    let mut local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let call = |cli: &Cli, command: &str| {
        let ended = cli.call(command);
        assert_eq!(ended.code, exit::FAILED, "{command}: {ended}");
        assert!(ended.stderr.contains("cannot be used"), "{command}: {ended}");
        assert_eq!(ended.stdout, "", "{command}: {ended}");
        (unfiltered(&ended.stderr), ended.stderr)
    };
    let (detached, _) = call(&local.cli, "run face-mesh hazy.png --detach --jq .task_id.word");
    assert!(detached["task_id"].is_string(), "{detached}");
    let (batch, _) = call(&local.cli, "run haze-removal p000.png p001.png -o out --jq .status.word");
    assert!(batch[1]["status"] == "success", "{batch}");
    let (uploaded, failures) = call(&local.cli, "files upload samples hazy.png missing.png --jq .name.word");
    assert!(uploaded["download_url"].is_string() && failures.contains("missing.png"), "{failures}");

    let create = "api POST /api-key/model/face-mesh/task --body @- --jq .status.word";
    let input = serde_json::json!({"input": uploaded["download_url"]});
    local.cli.stdin(&input.to_string());
    let (created, _) = call(&local.cli, create);
    let task = local.cli.call("task show @last -q").stdout;
    assert!(created.to_string().contains(task.trim()), "{task} is not in {created}");
}

#[test]
fn every_end_of_a_task_is_json_when_json_is_asked_for() {
    let local = Local::start();
    let detached = parsed(&local.cli.call("run face-mesh hazy.png --detach --json").stdout);
    let task = detached["task_id"].as_str().expect("its identifier").to_owned();
    for run in ["run face-mesh hazy.png --deadline 1s --json", "task wait @last --deadline 1s --json"] {
        let late = local.cli.call(run);
        assert_eq!(late.code, exit::DEADLINE, "{late}");
        let late = parsed(&late.stdout);
        assert!(late["status"] == "in_queue" && late["task_id"].is_string(), "{late}");
    }
    let late = local.cli.call(&format!("task wait {task} --deadline 1s --json=task_id,cost"));
    assert_eq!(late.stdout, format!("{{\"task_id\":\"{task}\",\"cost\":null}}\n"));
    let canceled = local.cli.call(&format!("task wait {task} --deadline 1s --cancel-at-deadline --json"));
    assert_eq!(parsed(&canceled.stdout)["status"], "canceled", "{canceled}");
    let canceled = local.cli.call(&format!("task wait {task} --json"));
    assert_eq!(canceled.code, exit::TASK_CANCELED, "{canceled}");
    assert_eq!(parsed(&canceled.stdout)["status"], "canceled");

    let failed = local.cli.call("run haze-removal input_image=http://127.0.0.1:1/a.png --json");
    assert_eq!(failed.code, exit::TASK_FAILED, "{failed}");
    let printed = parsed(&failed.stdout);
    assert!(printed["status"] == "failed" && printed["task_id"].is_string(), "{failed}");
    let waited = local.cli.call("task wait @last --json");
    assert!(waited.code == exit::TASK_FAILED && waited.stdout == failed.stdout, "{waited}");
}

#[test]
fn values_that_are_no_files_are_written_as_json() {
    let local = Local::start();
    let cli = &local.cli;
    let ended = cli.call("run color-extraction hazy.png -o colors.json -q");
    assert!(ended.code == exit::DONE && ended.stdout == "colors.json\n", "{ended}");
    let written = std::fs::read_to_string(cli.path("colors.json")).expect("it is there");
    let printed = cli.call("task show @last -o -").stdout;
    assert_eq!(parsed(&written), parsed(&printed));
    assert_eq!(parsed(&cli.call("task show @last --json").stdout)["result"]["result"], parsed(&printed));
    let ended = cli.call("task wait @last -o colors.json");
    assert_eq!(ended.code, exit::INPUT, "it exists: {ended}");
    assert_eq!(cli.call("task wait @last -o colors.json --overwrite").code, exit::DONE);
}

#[test]
fn a_file_that_exists_is_an_input_that_is_refused() {
    let local = Local::start();
    let url = local.cli.call("files upload samples hazy.png -q").stdout.trim().to_owned();
    let ended = local.cli.call(&format!("files download {url} hazy.png"));
    assert_eq!(ended.code, exit::INPUT, "{ended}");
    let ended = local.cli.call("files download http://127.0.0.1:1/a.png");
    assert_eq!(ended.code, exit::NOT_REACHED, "{ended}");
}

#[test]
fn a_list_that_is_filtered_states_no_total_of_all() {
    let local = Local::start();
    for _ in 0..2 {
        local.cli.call("run face-mesh hazy.png --detach");
    }
    local.cli.call("task cancel @last");
    assert!(local.cli.call("task list").stdout.ends_with("2 of 2\n"));
    for filter in ["--status canceled", "--model face-mesh"] {
        let listed = local.cli.call(&format!("task list {filter}"));
        assert!(listed.stdout.ends_with(" shown\n"), "{listed}");
        let listed = parsed(&local.cli.call(&format!("task list {filter} --json")).stdout);
        assert!(listed["total"].is_null(), "{listed}");
    }
}

#[test]
fn a_list_of_models_may_be_longer_than_a_page() {
    let local = Local::start();
    let all = local.cli.call("models list --all -q").stdout;
    let ended = local.cli.call("models list --limit 1000 -q");
    assert!(ended.code == exit::DONE && ended.stdout == all, "{ended}");
    let three = local.cli.call("models list --limit 3 --offset 1 -q").stdout;
    assert_eq!(three.lines().collect::<Vec<_>>(), all.lines().skip(1).take(3).collect::<Vec<_>>());
}

#[test]
fn a_refused_request_prints_the_body_of_its_response() {
    let local = Local::start();
    let ended = local.cli.call("api /api-key/model/no-such-model");
    assert_eq!(ended.code, exit::REFUSED, "{ended}");
    let body = parsed(&ended.stdout);
    assert!(body["message"].is_string() || body["error"].is_string(), "{ended}");
}

#[test]
fn hints_lead_to_a_command_that_works() {
    let _filters = filters();
    let local = Local::start();
    let cli = &local.cli;
    std::fs::copy(cli.path("hazy.png"), cli.path("a=b.png")).expect("it can be copied");
    let file = std::fs::File::create(cli.path("huge.bin")).expect("it can be made");
    file.set_len(101 * 1024 * 1024).expect("a sparse file");
    insta::assert_snapshot!(cli.transcript(&[
        "run haze-removal a=b.png",
        "files upload samples /dev/null",
        "files upload samples huge.bin",
        "files download foo",
        "balance --api-key ",
        "run haze-removal hazy.png -o x-{bogus}.{ext}",
    ]));
}

#[test]
fn a_download_makes_the_folder_that_it_names() {
    let local = Local::start();
    let url = local.cli.call("files upload samples hazy.png -q").stdout.trim().to_owned();
    let ended = local.cli.call(&format!("files download {url} new/inner/ -q"));
    assert!(ended.code == exit::DONE && ended.stdout.starts_with("new/inner/"), "{ended}");
    assert!(local.cli.folder.path().join(ended.stdout.trim()).is_file());
}

#[test]
fn a_file_is_named_as_it_can_be_typed() {
    let local = Local::start();
    std::fs::copy(local.cli.path("hazy.png"), local.cli.path("@at.png")).expect("it can be copied");
    let output = local.command("run haze-removal @att.png").output().expect("it starts");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains("did you mean `./@at.png`?"), "{printed}");
}

#[cfg(unix)]
#[test]
fn a_file_name_that_is_no_text_is_named() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let local = Local::start();
    let mut command = local.command("run haze-removal hazy.png -o out");
    let output = command.arg(OsStr::from_bytes(b"caf\xe9.png")).output().expect("it starts");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(exit::USAGE.into()));
    assert!(printed.contains(r#""caf\xE9.png" is not UTF-8"#), "{printed}");
}

#[cfg(unix)]
#[test]
fn an_upload_that_is_refused_names_its_file() {
    let local = Local::start();
    let options = ["--name", "two\nlines.png"];
    let ended = local.cli.call_with(&["files", "upload", "samples", "hazy.png", options[0], options[1]]);
    assert!(ended.code != exit::DONE && ended.stderr.contains("hazy.png: the service"), "{ended}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_paid_run_whose_report_cannot_be_written_names_its_task() {
    let local = Local::start();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let mut command = local.command("run haze-removal hazy.png --poll 0.1 -q");
    let output = command.stdout(full).output().expect("it starts");
    let task = local.cli.call("task list -q").stdout;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(exit::FAILED.into()));
    assert!(printed.contains(&format!("inferstore task show {}", task.trim())), "{printed}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_detached_task_or_a_new_key_that_cannot_be_written_is_named() {
    let local = Local::with(|config| config.owners_manage_keys = Some(true));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    for (words, hint) in [
        ("run haze-removal hazy.png --detach -q", "inferstore task wait "),
        ("keys create --name lost -q", "inferstore keys revoke "),
    ] {
        let mut command = local.command(words);
        let output = command.stdout(full.try_clone().expect("it is open")).output().expect("it starts");
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(printed.contains(hint) && !printed.contains("try again"), "{printed}");
        assert_eq!(output.status.code(), Some(exit::FAILED.into()));
    }
}

#[test]
fn what_is_refused_is_not_announced_first() {
    let local = Local::start();
    let ended = local.cli.call("run face-mesh hazy.png --require-serving");
    assert!(ended.code == exit::INPUT && !ended.stderr.contains("warning: "), "{ended}");
    let ended = local.cli.call_with(&["login", "http://127.0.0.1:1", "--profile", "", "--no-check"]);
    assert_eq!(ended.code, exit::USAGE, "{ended}");
}

#[test]
fn unfinished_files_of_a_batch_are_not_called_failed() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let ended = local.cli.call("run face-mesh p000.png p001.png -o out --deadline 1s");
    assert!(ended.stderr.contains("2 of 2 files are unfinished"), "{ended}");
}

#[test]
fn several_tasks_are_canceled_and_lists_are_searched() {
    let local = Local::start();
    for _ in 0..2 {
        local.cli.call("run face-mesh hazy.png --detach");
    }
    local.cli.call("run haze-removal hazy.png");
    let ids = local.cli.call("task list --search mesh -q").stdout;
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(local.cli.call("task list --since 1h -q").stdout.lines().count(), 3);
    let done = local.cli.call("task list --model haze-removal -q").stdout;
    let ended = local.cli.call(&format!("task cancel {} {} {} -q", ids[0], done.trim(), ids[1]));
    assert!(ended.code == exit::REFUSED && ended.stdout.lines().eq([ids[0], ids[1]]), "{ended}");
}

#[test]
fn outputs_of_a_rerun_are_named_after_the_file_of_the_first_run() {
    let local = Local::start();
    assert_eq!(local.cli.call("run haze-removal hazy.png").code, exit::DONE);
    let again = local.cli.call("task rerun @last -o again/ -q");
    assert_eq!(again.stdout, "again/hazy-haze-removal.png\n", "{again}");
}
