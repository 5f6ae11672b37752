//! Batches that are started again: what was changed between the starts, and what may not be replaced.

use std::time::Duration;

use inferstore_cli::exit;
use inferstore_service::Script;
use inferstore_wire::until;
use serde_json::json;

use crate::support::{Local, names_in, picture, pictures};

/// The records of a batch.
fn records(stdout: &str) -> Vec<serde_json::Value> {
    serde_json::from_str(stdout).expect("it is a list of JSON")
}

fn tasks(local: &Local) -> usize {
    local.cli.call("task list --all -q").stdout.lines().count()
}

/// Removes from the journal that outputs were saved.
fn forget_done(local: &Local) {
    let journal = local.cli.path("out/inferstore-batch.jsonl");
    let text = std::fs::read_to_string(&journal).expect("it is there");
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains(r#"{"Done""#)).collect();
    std::fs::write(&journal, kept.join("\n") + "\n").expect("it can be written");
}

#[test]
fn a_batch_with_refused_creates_obeys_the_limits_of_its_next_start() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    local.fault(json!({"effect": "status", "status": 402, "operation": "createTask", "times": 1}));
    let run = "run haze-removal p000.png p001.png -o out -j 1 --settle 1s --max-cost 100";
    let refused = local.cli.call(run);
    assert_eq!(refused.code, exit::REFUSED, "{refused}");
    assert!(refused.stdout.contains("not_started"), "the second file: {refused}");
    local.price("haze-removal", "900");
    let refused = local.cli.call(run);
    assert_eq!((refused.code, tasks(&local)), (exit::INPUT, 0), "{refused}");
    local.price("haze-removal", "0.01");
    assert_eq!(local.cli.call(run).code, exit::DONE);
    assert_eq!(tasks(&local), 2);
}

#[test]
fn a_create_in_doubt_is_resent_within_the_limits_of_the_next_start() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    // Each create is sent five times.
    local.fault(json!({"effect": "status", "status": 502, "operation": "createTask", "times": 10}));
    let run = "run haze-removal p000.png p001.png -o out --settle 1s --json";
    let unknown = local.cli.call(run);
    assert_eq!(unknown.code, exit::OUTCOME_UNKNOWN, "{unknown}");
    assert_eq!(records(&unknown.stdout)[0]["status"], "unknown", "{unknown}");
    let refused = local.cli.call(&format!("{run} --max-cost 0.001"));
    assert_eq!((refused.code, tasks(&local)), (exit::INPUT, 0), "{refused}");
}

#[test]
fn a_batch_that_goes_on_replaces_no_output_of_another_one() {
    let local = Local::with_controls();
    let out = local.cli.folder.path().join("out");
    pictures(local.cli.folder.path(), 2);
    let run = |angle: u32| {
        format!(
            "run color-harmonization p000.png p001.png template=v_shape angle={angle} -o out --settle 1s --poll 0.1"
        )
    };
    assert_eq!(local.cli.call(&run(30)).code, exit::DONE);
    let first = names_in(&out);
    let content = |name: &String| std::fs::read(out.join(name)).expect("it is there");
    let contents: Vec<Vec<u8>> = first.iter().map(content).collect();
    local.script("color-harmonization", Script::run().after(Duration::from_secs(3)));
    let mut batch = local.command(&run(60)).spawn().expect("it starts");
    let journal = || std::fs::read_to_string(out.join("inferstore-batch.jsonl")).unwrap_or_default();
    let are_started = || async { journal().matches("\"Started\"").count() >= 4 };
    local.block_on(until("the tasks of both runs are started", are_started));
    batch.kill().expect("it runs");
    batch.wait().expect("it ends");
    let ended = local.cli.call(&run(60));
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 4), "{ended}");
    for (name, content) in first.iter().zip(contents).filter(|(name, _)| name.ends_with(".png")) {
        assert!(std::fs::read(out.join(name)).expect("it is there") == content, "{name} was replaced");
    }
    assert_eq!(names_in(&out).len(), 2 * first.len() - 1, "{:?}", names_in(&out));
}

#[test]
fn an_output_that_was_saved_just_before_a_kill_is_not_saved_twice() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let run = "run haze-removal p000.png p001.png -o out --settle 1s";
    assert_eq!(local.cli.call(run).code, exit::DONE);
    forget_done(&local);
    assert_eq!(local.cli.call(run).code, exit::DONE);
    let outputs = names_in(&local.cli.folder.path().join("out"));
    assert_eq!((outputs.len(), tasks(&local)), (3, 2), "{outputs:?}");
}

#[test]
fn a_dry_run_of_an_interrupted_batch_counts_paid_and_begun_items() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let run = "run haze-removal p000.png p001.png -o out";
    assert_eq!(local.cli.call(run).code, exit::DONE);
    let path = local.cli.path("out/inferstore-batch.jsonl");
    let journal = std::fs::read_to_string(&path).expect("it is there");
    let of_first: Vec<&str> = journal.lines().filter(|line| !line.contains("p001.png")).collect();
    for (last, cost, words) in [
        ("Saving", "0.01", "1 of 2 files are paid already"),
        ("Started", "0.02", "the tasks of 1 of 2 files may be created already"),
        ("Prepared", "0.02", "the tasks of 1 of 2 files may be created already"),
    ] {
        let end = of_first.iter().position(|line| line.contains(&format!(r#"{{"{last}""#)));
        let cut = of_first.iter().take(end.expect("it is a step") + 1);
        std::fs::write(&path, cut.map(|line| format!("{line}\n")).collect::<String>()).expect("it is ours");
        let ended = local.cli.call(&format!("{run} --dry-run --json"));
        let quote: serde_json::Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
        assert_eq!(quote["cost"], cost, "{last}: {ended}");
        assert!(ended.stderr.contains(words), "{last}: {ended}");
    }
}

#[test]
fn an_output_left_unsaved_by_a_kill_replaces_no_newer_file() {
    let local = Local::start();
    let folder = local.cli.folder.path();
    for name in ["x", "y"] {
        std::fs::create_dir(folder.join(name)).expect("it can be made");
    }
    picture(&folder.join("x/c.png"), "x");
    std::fs::copy(local.cli.path("hazy.png"), local.cli.path("y/c.png")).expect("it can be copied");
    pictures(folder, 2);
    let first = "run haze-removal x/c.png p000.png -o out --settle 1s";
    assert_eq!(local.cli.call(first).code, exit::DONE);
    // As if the kill had come between the journal and the move of the outputs.
    forget_done(&local);
    let saved = local.cli.path("out/c-haze-removal.png");
    let of_x = std::fs::read(&saved).expect("it is there");
    std::fs::remove_file(&saved).expect("it is there");
    assert_eq!(local.cli.call("run haze-removal y/c.png p001.png -o out --settle 1s").code, exit::DONE);
    let of_y = std::fs::read(&saved).expect("it has the place");
    assert!(of_x != of_y, "pictures that differ");

    let ended = local.cli.call(first);
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 4), "{ended}");
    assert!(std::fs::read(&saved).is_ok_and(|content| content == of_y), "the output of y was replaced");
    let numbered = std::fs::read(local.cli.path("out/c-haze-removal-2.png"));
    assert!(numbered.is_ok_and(|content| content == of_x), "{ended}");
    assert_eq!(names_in(&folder.join("out")).len(), 5, "{:?}", names_in(&folder.join("out")));
}

#[test]
fn a_removed_output_of_several_is_saved_again_beside_the_others() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let run = "run color-harmonization p000.png p001.png template=v_shape angle=30 -o out";
    assert_eq!(local.cli.call(run).code, exit::DONE);
    let out = local.cli.folder.path().join("out");
    let names = names_in(&out);
    std::fs::remove_file(out.join("p001-color-harmonization-output_hue.png")).expect("it is there");
    assert_eq!(local.cli.call(run).code, exit::DONE);
    assert_eq!((names_in(&out), tasks(&local)), (names, 2));
}

#[test]
fn a_file_is_run_again_when_another_input_has_changed() {
    let local = Local::start();
    let folder = local.cli.folder.path();
    pictures(folder, 2);
    picture(&folder.join("new.png"), "one");
    let run = "run background-replacement p000.png p001.png input=@new.png -o out";
    assert_eq!(local.cli.call(run).code, exit::DONE);
    assert_eq!((local.cli.call(run).code, tasks(&local)), (exit::DONE, 2), "nothing has changed");
    picture(&folder.join("new.png"), "another");
    assert_eq!((local.cli.call(run).code, tasks(&local)), (exit::DONE, 4), "another picture");
}

#[test]
fn a_file_is_run_again_for_a_task_with_other_inputs() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    for (angle, count) in [(30, 3), (60, 6)] {
        let run = format!("run color-harmonization hazy.png template=v_shape angle={angle} -q");
        assert_eq!(local.cli.call(&run).code, exit::DONE);
        let id = local.cli.call("task list --limit 1 -q").stdout;
        let again = format!("task rerun {} p000.png p001.png -o out", id.trim());
        for _ in 0..2 {
            let ended = local.cli.call(&again);
            assert_eq!((ended.code, tasks(&local)), (exit::DONE, count), "{ended}");
        }
    }
}

#[test]
fn a_budget_holds_across_starts_with_one_file() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 1);
    let run = "run haze-removal p000.png -o out/ --budget 0.01";
    for _ in 0..2 {
        let ended = local.cli.call(run);
        assert_eq!((ended.code, tasks(&local)), (exit::DONE, 1), "{ended}");
    }
    let ended = local.cli.call("run haze-removal hazy.png -o out/ --budget 0.01");
    assert!(ended.code != exit::DONE && tasks(&local) == 1, "{ended}");
}

#[test]
fn a_file_is_run_again_on_another_service() {
    let (mut local, other) = (Local::start(), Local::start());
    pictures(local.cli.folder.path(), 2);
    let run = "run haze-removal p000.png p001.png -o out";
    assert_eq!((local.cli.call(run).code, tasks(&other)), (exit::DONE, 0));
    local.cli.set("INFERSTORE_BASE_URL", other.service().base_url());
    assert_eq!((local.cli.call(run).code, tasks(&other)), (exit::DONE, 2));
}

#[test]
fn a_file_whose_task_is_gone_is_run_again() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    let run = "run haze-removal p000.png p001.png -o out --settle 1s --json";
    // At both starts, for both files.
    local.fault(json!({"effect": "status", "status": 404, "operation": "getTask", "times": 4}));
    let gone = local.cli.call(run);
    assert!(gone.code != exit::DONE && gone.stdout.contains("does not know its task"), "{gone}");
    let ended = local.cli.call(run);
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 4), "{ended}");
}

#[test]
fn a_file_whose_task_seemed_to_be_gone_is_not_paid_twice() {
    let local = Local::with_controls();
    pictures(local.cli.folder.path(), 2);
    let run = "run haze-removal p000.png p001.png -o out --settle 1s --json";
    local.fault(json!({"effect": "status", "status": 404, "operation": "getTask", "times": 2}));
    assert_eq!(local.cli.call(run).code, exit::FAILED);
    let ended = local.cli.call(run);
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 2), "{ended}");
}

#[test]
fn the_output_of_a_file_that_has_changed_is_replaced() {
    let local = Local::start();
    let folder = local.cli.folder.path();
    pictures(folder, 2);
    let run = "run haze-removal p000.png p001.png -o out";
    assert_eq!(local.cli.call(run).code, exit::DONE);
    let output = local.cli.path("out/p001-haze-removal.png");
    let before = std::fs::read(&output).expect("it is there");
    std::fs::copy(local.cli.path("p001.png"), local.cli.path("old.png")).expect("it can be copied");
    std::fs::copy(local.cli.path("hazy.png"), local.cli.path("p001.png")).expect("it can be copied");
    let ended = local.cli.call(run);
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 3), "{ended}");
    let after = std::fs::read(&output).expect("it is there");
    assert!(before != after, "the output of another picture");
    assert_eq!(names_in(&folder.join("out")).len(), 3, "{:?}", names_in(&folder.join("out")));
    // Nothing is paid again, also where both contents are in the journal.
    assert_eq!((local.cli.call(run).code, tasks(&local)), (exit::DONE, 3));
    assert!(std::fs::read(&output).is_ok_and(|content| content == after));
}

/// Sets the time of a file, and leaves its content.
fn touch(local: &Local, name: &str, seconds: u64) {
    let file = std::fs::File::options().append(true).open(local.cli.path(name)).expect("it is there");
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(seconds)).expect("its time can be set");
}

#[test]
fn a_file_with_a_new_time_and_the_same_content_is_not_paid_again() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    picture(&local.cli.folder.path().join("new.png"), "one");
    for (run, count) in [
        ("run haze-removal p000.png p001.png -o out --budget 0.02", 2),
        ("run background-replacement p000.png p001.png input=@new.png -o both", 4),
    ] {
        for seconds in [1_000_000_000, 1_100_000_000, 1_200_000_000] {
            ["p000.png", "new.png"].iter().for_each(|name| touch(&local, name, seconds));
            let ended = local.cli.call(run);
            assert_eq!((ended.code, tasks(&local)), (exit::DONE, count), "{ended}");
        }
        let ended = local.cli.call(&format!("{run} --dry-run"));
        assert!(ended.stderr.contains("2 of 2 files are paid already"), "{ended}");
    }
    picture(&local.cli.folder.path().join("new.png"), "two");
    let ended = local.cli.call("run background-replacement p000.png p001.png input=@new.png -o both");
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 6), "{ended}");
}

#[test]
fn an_output_that_was_edited_stays_when_its_file_changes() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let run = "run haze-removal p000.png p001.png -o out";
    assert_eq!(local.cli.call(run).code, exit::DONE);
    let output = local.cli.path("out/p001-haze-removal.png");
    std::fs::write(&output, "edited").expect("it can be written");
    for start in ["hazy.png", "p000.png"] {
        std::fs::copy(local.cli.path(start), local.cli.path("p001.png")).expect("it can be copied");
        let ended = local.cli.call(run);
        let named =
            "out/p001-haze-removal.png exists and stays; the new output is out/p001-haze-removal-2.png";
        assert!(ended.code == exit::DONE && ended.stderr.contains(named), "{ended}");
        assert_eq!(std::fs::read(&output).ok().as_deref(), Some(b"edited".as_slice()));
    }
    let outputs = names_in(&local.cli.folder.path().join("out"));
    assert_eq!((outputs.len(), tasks(&local)), (4, 4), "the second one is replaced: {outputs:?}");
}

#[test]
fn an_output_that_stays_beside_a_new_one_is_named() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let run =
        |angle| format!("run color-harmonization p000.png p001.png template=v_shape angle={angle} -o out");
    assert_eq!(local.cli.call(&run(30)).code, exit::DONE);
    let ended = local.cli.call(&run(31));
    let named = "out/p000-color-harmonization-output_image.png exists and stays; the new output is \
                 out/p000-color-harmonization-output_image-2.png";
    assert!(ended.code == exit::DONE && ended.stderr.contains(named), "{ended}");
}
