//! Batches: several files, each paid once, whenever the command is killed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use inferstore_cli::exit;

use crate::support::{Local, filters, names_in};

/// Of 32 by 24 pixels: the runs of hundreds of them end soon.
const SMALL_PICTURE: &[u8] = include_bytes!("small.png");

/// Writes this many pictures that differ.
fn pictures(folder: &Path, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|number| format!("p{number:03}.png")).collect();
    for (number, name) in names.iter().enumerate() {
        // Bytes behind the end of a PNG change its hash, and nothing that is seen.
        let content = [SMALL_PICTURE, number.to_string().as_bytes()].concat();
        std::fs::write(folder.join(name), content).expect("it can be written");
    }
    names
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
fn a_contact_sheet_shows_each_input_beside_its_output() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let run = "run haze-removal p000.png p001.png -o out --before-after sheet.png";
    let called = local.cli.call(run);
    assert_eq!(called.code, exit::DONE, "{}", called.stderr);
    assert!(called.stderr.contains("sheet.png shows 2 of 2 results"), "{}", called.stderr);
    assert!(std::fs::read(local.cli.path("sheet.png")).expect("it is there").starts_with(b"\x89PNG"));
    let tasks = || local.cli.call("task list --all -q").stdout.lines().count();
    let refused = local.cli.call("run haze-removal p000.png p001.png -o out --before-after none/sheet.png");
    assert_eq!((refused.code, tasks()), (exit::USAGE, 2), "{}", refused.stderr);
}

#[cfg(unix)]
#[test]
fn a_batch_of_200_files_that_is_killed_ten_times_is_paid_once() {
    const FILES: usize = 200;
    const KILLS: u64 = 10;
    let local = Local::start();
    let folder = local.cli.folder.path();
    let names = pictures(folder, FILES);
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_inferstore"))
            .args(["run", "haze-removal"])
            .args(&names)
            .args(["-o", "out", "-j", "16", "--settle", "2s", "--poll", "0.2"])
            .env("INFERSTORE_BASE_URL", local.service().base_url())
            .env("INFERSTORE_API_KEY", "the-key-of-the-tests")
            .env_remove("INFERSTORE_PROFILE")
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    // A seed that differs from run to run; a failure prints it.
    let seed = u64::from(std::process::id());
    for kill in 0..KILLS {
        let mut batch = start();
        let millis =
            100 + (seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(kill * 1_442_695_040)) % 400;
        std::thread::sleep(Duration::from_millis(millis));
        // It may have ended already.
        let _ = batch.kill();
        batch.wait().expect("it ends");
    }
    let ended = start().wait_with_output().expect("it ends");
    assert!(ended.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&ended.stderr));
    let tasks = local.cli.call("task list --all -q").stdout;
    assert_eq!(tasks.lines().count(), FILES, "seed {seed}");
    let outputs = names_in(&folder.join("out"));
    let outputs = outputs.iter().filter(|name| name.ends_with("-haze-removal.png"));
    assert_eq!(outputs.count(), FILES, "seed {seed}");
    let balance = local.cli.call("balance --json").stdout;
    let balance: serde_json::Value = serde_json::from_str(&balance).expect("it is JSON");
    assert_eq!(balance["free_balance"], "3", "200 runs of 0.01: {balance}");
}
