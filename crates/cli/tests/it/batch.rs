//! Batches: several files, each paid once, whenever the command is killed.

use std::num::NonZeroU32;
use std::time::Duration;

use inferstore_cli::exit;
#[cfg(feature = "controls")]
use inferstore_service::Scope;
use inferstore_service::{InsufficientBalance, Money};

use crate::support::{Ended, Local, filters, names_in, picture, pictures};

#[test]
fn a_batch_stops_when_tasks_fail_because_the_balance_is_used_up() {
    let local = Local::with(|config| {
        config.insufficient_balance = InsufficientBalance::FailTask;
        config.first_account.balance = Money::from_smallest(1);
        config.first_account.free_balance = Money::ZERO;
    });
    pictures(local.cli.folder.path(), 4);
    let ended = local.cli.call("run haze-removal p000.png p001.png p002.png p003.png -o out -j 1");
    assert_eq!(ended.code, exit::TASK_FAILED, "{ended}");
    assert_eq!(ended.stdout.matches("not_started").count(), 3, "{ended}");
    assert_eq!(local.cli.call("files stats --json=total_files").stdout.trim(), r#"{"total_files":1}"#);
}

#[test]
fn a_batch_that_costs_too_much_says_nothing_of_uploads() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let ended = local.cli.call("run haze-removal p000.png p001.png -o out --max-cost 0.001");
    assert_eq!(ended.code, exit::INPUT, "{ended}");
    assert!(!ended.to_string().contains("upload"), "{ended}");
    assert_eq!(local.cli.call("files stats -q").stdout, "0\n");
}

#[test]
fn a_batch_waits_while_the_service_limits_its_requests() {
    let local = Local::with(|config| config.request_rate = NonZeroU32::new(4));
    let names = pictures(local.cli.folder.path(), 8);
    let ended = local.cli.call(&format!("run haze-removal {} -o out -j 8", names.join(" ")));
    assert_eq!(ended.code, exit::DONE, "{ended}");
    assert!(ended.stdout.contains("8 of 8 succeeded"), "{ended}");
}

#[test]
fn a_batch_that_ran_some_of_its_files_does_not_say_that_nothing_was_sent() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 1);
    std::fs::write(local.cli.path("text.txt"), "no picture").expect("it can be written");
    for bad in ["text.txt", "missing.png"] {
        let ended = local.cli.call(&format!("run haze-removal p000.png {bad} -o {bad}-out/"));
        assert_eq!(ended.code, exit::FAILED, "{ended}");
        assert!(ended.stdout.contains("1 of 2 succeeded; cost 0.01"), "{ended}");
        assert!(!ended.stderr.contains("nothing was sent"), "{ended}");
    }
    let ended = local.cli.call("run haze-removal text.txt missing.png -o none");
    assert_eq!(ended.code, exit::INPUT, "nothing was created: {ended}");
}

#[test]
fn several_files_are_a_batch_with_a_summary() {
    let _filters = filters();
    let local = Local::start();
    pictures(local.cli.folder.path(), 3);
    std::fs::write(local.cli.path("text.png"), "no picture").expect("it can be written");
    let run = "run haze-removal p000.png p001.png p002.png -o out -j 1";
    let quiet = "run haze-removal p000.png p001.png p002.png -o out -q";
    insta::assert_snapshot!(
        "batch",
        local.cli.transcript(&[
            "run haze-removal p000.png p001.png p002.png -o out --dry-run",
            run,
            quiet,
            "run haze-removal p000.png text.png missing.png -o other -j 1",
            "run haze-removal p000.png p001.png",
            "run haze-removal p000.png p001.png -o one.png",
            "run haze-removal p000.png p001.png -o out --detach",
        ])
    );
    let tasks = local.cli.call("task list --all -q").stdout;
    let outputs = names_in(&local.cli.folder.path().join("out"));
    assert_eq!(outputs.len(), 4, "three pictures and the journal: {outputs:?}");
    assert_eq!(tasks.lines().count(), 5, "the second start ran nothing: {tasks}");
}

#[test]
fn a_batch_cancels_at_its_deadline_what_is_still_queued() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let run = "run face-mesh p000.png p001.png ./p000.png -o out --deadline 1s --cancel-at-deadline";
    for canceled in [2, 4] {
        let ended = local.cli.call(run);
        assert_eq!(ended.code, exit::DEADLINE, "{ended}");
        let tasks = local.cli.call("task list --status canceled -q").stdout;
        assert_eq!(tasks.lines().count(), canceled, "{ended}");
    }
}

#[test]
fn an_output_that_was_removed_is_downloaded_again_and_not_paid() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let run = "run haze-removal p000.png p001.png -o out --delete-inputs";
    assert_eq!(local.cli.call(run).code, exit::DONE);
    assert_eq!(local.cli.call("files stats -q").stdout, "0\n", "the inputs are deleted");
    std::fs::remove_file(local.cli.path("out/p001-haze-removal.png")).expect("it is there");
    assert_eq!(local.cli.call(run).code, exit::DONE);
    assert!(local.cli.folder.path().join("out/p001-haze-removal.png").is_file());
    assert_eq!(local.cli.call("task list --all -q").stdout.lines().count(), 2);
}

#[test]
fn inputs_that_a_batch_could_not_delete_are_deleted_by_its_next_start() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    let run = "run haze-removal p000.png p001.png -o out --delete-inputs";
    local
        .fault(serde_json::json!({"effect": "status", "status": 500, "operation": "deleteFile", "times": 2}));
    assert_eq!(local.cli.call(run).code, exit::DONE);
    assert_eq!(local.cli.call("files stats -q").stdout, "2\n", "the inputs are still stored");
    assert_eq!(local.cli.call(run).code, exit::DONE);
    assert_eq!(local.cli.call("files stats -q").stdout, "0\n", "the inputs are deleted");
    assert_eq!(local.cli.call("task list --all -q").stdout.lines().count(), 2);
}

#[cfg(feature = "controls")]
#[test]
fn an_input_of_an_organization_is_shown_as_stored_and_deleted_once() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    local.block_on(async {
        let service = local.service();
        service.add_account("studio", Scope::Organization).await.expect("the name is free");
        service.add_member("studio", "demo").await.expect("they exist");
    });
    // As a service that lets the organization alone delete them.
    local
        .fault(serde_json::json!({"effect": "status", "status": 404, "operation": "deleteFile", "times": 2}));
    let run = "run haze-removal p000.png p001.png -o out --org studio --delete-inputs";
    for still_stored in [2, 0] {
        let ended = local.cli.call(run);
        assert_eq!(ended.code, exit::DONE, "{ended}");
        assert_eq!(ended.stderr.matches("an input is still stored").count(), still_stored, "{ended}");
    }
}

#[cfg(feature = "controls")]
#[test]
fn an_upload_that_does_not_arrive_has_the_same_code_in_every_kind_of_run() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    local.fault(serde_json::json!({"side": "objects", "effect": "hang_up"}));
    for command in [
        "run haze-removal p000.png",
        "run haze-removal p000.png --detach",
        "run haze-removal p000.png p001.png -o out",
        "files upload samples p000.png",
    ] {
        let ended = local.cli.call(command);
        assert_eq!(ended.code, exit::NOT_REACHED, "{command}: {ended}");
    }
    assert_eq!(local.cli.call("task list -q").stdout, "");
}

#[test]
fn a_dry_run_counts_what_is_still_to_be_paid_and_makes_no_price_up() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 3);
    assert_eq!(local.cli.call("run haze-removal p000.png p001.png -o out").code, exit::DONE);
    let dry = "run haze-removal p000.png p001.png p002.png -o out --dry-run";
    let counted = local.cli.call(&format!("{dry} --json"));
    let cost = |ended: &Ended| -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(&ended.stdout).expect("it is JSON")["cost"].clone()
    };
    assert_eq!(cost(&counted), "0.01", "{counted}");
    assert!(counted.stderr.contains("2 of 3 files are paid already"), "{counted}");
    let body = r#"{"status": "success", "data": {}}"#;
    local.fault(
        serde_json::json!({"effect": "status", "status": 200, "body": body, "operation": "getModelCost"}),
    );
    let unknown = local.cli.call(&format!("{dry} --json"));
    assert!(cost(&unknown).is_null(), "{unknown}");
}

#[test]
fn an_output_without_files_is_in_table_record_and_standard_output() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let one = local.cli.call("run color-extraction p000.png -o -");
    assert!(one.code == exit::DONE && one.stdout.contains("output"), "{one}");
    let shown = local.cli.call("task show @last -o - -q");
    assert!(shown.code == exit::DONE && !shown.stdout.is_empty(), "{shown}");
    let run = "run color-extraction p000.png p001.png -o out";
    for _ in 0..2 {
        let ended = local.cli.call(&format!("{run} --json"));
        let records: serde_json::Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
        assert!(!records[1]["output"]["output"].is_null(), "{ended}");
        let output = records[1]["output"]["output"].to_string();
        let ended = local.cli.call(run);
        assert!(ended.stdout.contains(output.trim_matches('"')), "{output} is not in {ended}");
    }
    assert_eq!(local.cli.call("task list --all -q").stdout.lines().count(), 3);
}

#[test]
fn files_of_the_same_name_have_outputs_of_their_own() {
    let local = Local::start();
    let folder = local.cli.folder.path();
    for name in ["x/y", "x_y"] {
        std::fs::create_dir_all(folder.join(name)).expect("it can be made");
        picture(&folder.join(name).join("c.png"), name);
    }
    assert_eq!(local.cli.call("run haze-removal x/y/c.png x_y/c.png -o out --overwrite").code, exit::DONE);
    let outputs = names_in(&folder.join("out"));
    assert_eq!(outputs.len(), 3, "two pictures and the journal: {outputs:?}");
}

#[test]
fn standard_input_is_no_file_of_a_batch() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let ended = local.cli.call("run haze-removal p000.png - -o out");
    assert!(ended.code == exit::USAGE && ended.stderr.contains("standard input"), "{ended}");
    assert_eq!(local.cli.call("task list -q").stdout, "");
}

#[test]
fn a_dry_run_writes_nothing() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    for files in ["p000.png", "p000.png p001.png"] {
        let ended = local.cli.call(&format!("run haze-removal {files} -o new/out --dry-run"));
        assert_eq!(ended.code, exit::DONE, "{ended}");
        assert!(!local.cli.folder.path().join("new").exists(), "{files}");
    }
}

#[test]
fn a_task_that_a_deadline_leaves_is_unfinished_and_printed() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let run = "run face-mesh p000.png p001.png -o out --deadline 1s";
    let ended = local.cli.call(run);
    assert_eq!(ended.code, exit::DEADLINE, "{ended}");
    let tasks = local.cli.call("task list --all -q").stdout;
    assert!(tasks.lines().count() == 2 && tasks.lines().all(|task| ended.stdout.contains(task)), "{ended}");
    let ended = local.cli.call(&format!("{run} --json"));
    let records: Vec<serde_json::Value> = serde_json::from_str(&ended.stdout).expect("it is JSON alone");
    for record in records {
        let task = record["task"].as_str().expect("a text");
        assert!(record["status"] == "unfinished" && tasks.contains(task), "{record}");
    }
}

#[cfg(feature = "controls")]
#[test]
fn a_run_whose_output_cannot_be_saved_is_reported_with_what_it_cost() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    local.fault(serde_json::json!({"effect": "status", "status": 403, "operation": "getObject"}));
    let ended = local.cli.call("run haze-removal p000.png p001.png -o out --json");
    assert!(ended.code != exit::DONE, "{ended}");
    let records: Vec<serde_json::Value> = serde_json::from_str(&ended.stdout).expect("it is JSON");
    for record in records {
        assert_eq!(record["status"], "not_saved", "{record}");
        assert!(record["cost"] == "0.01" && record["task"].is_string(), "{record}");
    }
    let ended = local.cli.call("run haze-removal p000.png p001.png -o out");
    assert!(ended.stdout.contains("0 of 2 succeeded, 2 not saved; cost 0\n"), "the first start: {ended}");
    std::fs::copy(local.cli.path("hazy.png"), local.cli.path("p001.png")).expect("it can be copied");
    let ended = local.cli.call("run haze-removal p000.png p001.png -o out");
    assert!(ended.stdout.contains("0 of 2 succeeded, 2 not saved; cost 0.01"), "{ended}");
    let controls = local.service().controls().expect("they are on");
    controls.clear_faults();
    let ended = local.cli.call("run haze-removal p000.png p001.png -o out");
    assert!(ended.stdout.contains("2 of 2 succeeded, 2 of them earlier; cost 0\n"), "{ended}");
}

#[cfg(unix)]
#[test]
fn a_batch_of_200_files_that_is_killed_ten_times_is_paid_once() {
    const FILES: usize = 200;
    const KILLS: usize = 10;
    let local = Local::start();
    let folder = local.cli.folder.path();
    let names = pictures(folder, FILES);
    let run = format!("run haze-removal {} -o out -j 16 --settle 2s --poll 0.2", names.join(" "));
    let start = || local.command(&run).spawn().expect("it starts");
    let journal = folder.join("out/inferstore-batch.jsonl");
    let lines = || std::fs::read_to_string(&journal).unwrap_or_default();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut hits = 0;
    for _ in 0..KILLS {
        // At any step: after some lines of the journal, and a moment later.
        let wanted = lines().lines().count() + random.usize(..40);
        let pause = Duration::from_millis(random.u64(..20));
        let mut batch = start();
        while lines().lines().count() < wanted && batch.try_wait().expect("it can be asked").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(pause);
        // It may have ended already.
        let _ = batch.kill();
        let was_killed = batch.wait().expect("it ends").code().is_none();
        let text = lines();
        let is_running = text.matches(r#"{"Prepared""#).count() > text.matches(r#"{"Done""#).count();
        hits += usize::from(was_killed && is_running);
    }
    assert!(hits > 0, "seed {seed}: no kill came during the work");
    let ended = start().wait_with_output().expect("it ends");
    assert!(ended.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&ended.stderr));
    let tasks = local.cli.call("task list --all -q").stdout;
    assert_eq!(tasks.lines().count(), FILES, "seed {seed}, {hits} hits");
    let outputs = names_in(&folder.join("out"));
    let outputs = outputs.iter().filter(|name| name.ends_with("-haze-removal.png"));
    assert_eq!(outputs.count(), FILES, "seed {seed}, {hits} hits");
    let balance = local.cli.call("balance --json").stdout;
    let balance: serde_json::Value = serde_json::from_str(&balance).expect("it is JSON");
    assert_eq!(balance["free_balance"], "3", "seed {seed}: 200 runs of 0.01: {balance}");
}
