//! A folder that fills: each file is run once, across restarts.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use inferstore_cli::exit;
use inferstore_service::Script;
use serde_json::json;

use crate::support::{Local, names_in, picture, send};

/// Waits for a state that comes soon, and fails when it does not.
fn eventually(what: &str, mut is_reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_reached() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn tasks(local: &Local) -> usize {
    local.cli.call("task list --all -q").stdout.lines().count()
}

fn outputs(folder: &Path) -> usize {
    names_in(folder).iter().filter(|name| name.ends_with("-haze-removal.png")).count()
}

/// Makes the folders of the inputs and of the outputs.
fn folders(local: &Local) -> [PathBuf; 2] {
    let folders = ["in", "out"].map(|name| local.cli.folder.path().join(name));
    folders.iter().for_each(|folder| std::fs::create_dir(folder).expect("a folder can be made"));
    folders
}

fn watch(local: &Local) -> Child {
    local.command("run haze-removal --watch in -o out --poll 0.1").spawn().expect("it starts")
}

fn end(mut watching: Child) -> Option<i32> {
    send("INT", watching.id());
    watching.wait().expect("it ends").code()
}

#[test]
fn each_file_that_comes_is_run_once_across_restarts() {
    let local = Local::start();
    let [incoming, out] = folders(&local);
    picture(&incoming.join("a.png"), "a");
    std::fs::write(incoming.join(".hidden.png"), "no picture").expect("it can be written");
    let foreign = std::os::unix::ffi::OsStrExt::from_bytes(b"caf\xe9.png");
    let foreign: &std::ffi::OsStr = foreign;
    std::fs::write(incoming.join(foreign), "no picture").expect("it can be written");
    let mut watching = watch(&local);
    let mut stderr = std::io::BufReader::new(watching.stderr.take().expect("it is a pipe")).lines();
    let note = stderr.next().and_then(Result::ok).unwrap_or_default();
    assert!(note.contains("\\xE9") && note.contains("left out"), "{note}");
    std::thread::spawn(move || stderr.count());
    eventually("the file that was there", || outputs(&out) == 1);
    picture(&incoming.join("b.png"), "b");
    eventually("the file that came", || outputs(&out) == 2);
    assert_eq!(end(watching), Some(0));

    picture(&incoming.join("c.png"), "c");
    let watching = watch(&local);
    eventually("the file that came meanwhile", || outputs(&out) == 3);
    assert_eq!((end(watching), tasks(&local)), (Some(0), 3));
}

#[test]
fn a_file_that_changes_replaces_its_output() {
    let local = Local::start();
    let [incoming, out] = folders(&local);
    let output = || std::fs::read(out.join("a-haze-removal.png")).unwrap_or_default();
    picture(&incoming.join("a.png"), "a");
    let watching = watch(&local);
    eventually("the first output", || outputs(&out) == 1 && !output().is_empty());
    let first = output();
    std::fs::copy(local.cli.path("hazy.png"), incoming.join("a.png")).expect("it can be copied");
    eventually("the output of the changed file", || output() != first);
    assert_eq!(end(watching), Some(0));

    picture(&incoming.join("a.png"), "a");
    let watching = watch(&local);
    eventually("the output of the first content", || output() == first);
    assert_eq!((end(watching), tasks(&local)), (Some(0), 2), "it is paid already");

    picture(&incoming.join("a.png"), "after a restart");
    let watching = watch(&local);
    eventually("the task of the file that changed meanwhile", || tasks(&local) == 3);
    end(watching);
    assert_eq!((outputs(&out), tasks(&local)), (1, 3));
}

#[test]
fn a_file_that_comes_while_another_one_is_run_does_not_wait_for_it() {
    let local = Local::with_controls();
    let [incoming, out] = folders(&local);
    local.script("haze-removal", Script::run().after(Duration::from_secs(3600)));
    picture(&incoming.join("slow.png"), "slow");
    let watching = watch(&local);
    eventually("the task of the slow file", || tasks(&local) == 1);
    local.script("haze-removal", Script::run());
    picture(&incoming.join("quick.png"), "quick");
    eventually("the output of the quick file", || outputs(&out) == 1);
    assert_eq!((end(watching), tasks(&local)), (Some(i32::from(exit::DETACHED)), 2));
}

#[test]
fn a_file_that_comes_while_the_service_is_away_is_run_later() {
    let local = Local::with_controls();
    let [incoming, out] = folders(&local);
    picture(&incoming.join("first.png"), "first");
    let watching = watch(&local);
    eventually("the first output", || outputs(&out) == 1);
    // Five requests of one attempt.
    local.fault(json!({"effect": "status", "status": 503, "operation": "createTask", "times": 5}));
    picture(&incoming.join("second.png"), "second");
    eventually("the output of the second file", || outputs(&out) == 2);
    assert_eq!((end(watching), tasks(&local)), (Some(0), 2));
}

#[test]
fn a_folder_that_is_its_own_output_is_refused() {
    let local = Local::start();
    for (words, problem) in [
        ("run haze-removal --watch . -o ./", "would become inputs"),
        ("run haze-removal --watch missing -o out", "missing cannot be read"),
        ("run haze-removal hazy.png --watch . -o out", "beside --watch"),
        ("run haze-removal --watch .", "--out"),
        ("run haze-removal --watch . -o out --detach", "--detach"),
    ] {
        let ended = local.cli.call(words);
        assert!(ended.code != exit::DONE && ended.stderr.contains(problem), "{words}: {ended}");
    }
    assert_eq!(tasks(&local), 0);
}
