//! `files sync` compares contents, whatever the times of the files say, and continues after it was killed.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use inferstore_cli::exit;

use crate::support::{Local, names_in, pictures};

/// The actions of a sync, each as `upload a.txt`.
fn sync(local: &Local, words: &str) -> String {
    let ended = local.cli.call(&format!("files sync {words} --format jsonl"));
    assert_eq!(ended.code, exit::DONE, "{ended}");
    let records = ended.stdout.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
    let action =
        |record: serde_json::Value| format!("{} {}", record["action"], record["file"]).replace('"', "");
    records.map(action).collect::<Vec<_>>().join(", ")
}

fn write(local: &Local, path: &str, text: &str) {
    let path = local.cli.folder.path().join(path);
    fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

fn read(local: &Local, path: &str) -> String {
    fs::read_to_string(local.cli.path(path)).expect("it can be read")
}

/// Sets the time of the last change, in seconds from now.
fn change_time(local: &Local, path: &str, seconds: i64) {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let now = SystemTime::now();
    let time = if seconds < 0 { now - distance } else { now + distance };
    let file = File::options().write(true).open(local.cli.path(path)).expect("it is there");
    file.set_modified(time).expect("it can be set");
}

#[cfg(unix)]
#[test]
fn a_download_writes_through_no_symbolic_link() {
    let local = Local::start();
    for name in ["linked.txt", "broken.txt", "plain.txt"] {
        write(&local, &format!("stored/{name}"), "stored");
    }
    sync(&local, "stored documents");
    write(&local, "precious.txt", "precious");
    write(&local, "here/plain.txt", "changed");
    for (target, link) in [("../precious.txt", "here/linked.txt"), ("../nothing.txt", "here/broken.txt")] {
        std::os::unix::fs::symlink(target, local.cli.path(link)).expect("it can be made");
    }
    let ended = local.cli.call("files sync documents here");
    assert!(ended.stderr.contains("here/linked.txt is a symbolic link, or in one, and stays"), "{ended}");
    assert_eq!([read(&local, "precious.txt"), read(&local, "here/plain.txt")], ["precious", "stored"]);
    assert!(!local.cli.folder.path().join("nothing.txt").exists());
}

#[test]
fn the_inputs_of_runs_stay_when_a_sync_deletes() {
    let local = Local::start();
    write(&local, "here/a.txt", "one");
    write(&local, "inputs/0123456789abcdef0123456789abcdef-a.png", "an input");
    write(&local, "inputs/stale.txt", "two");
    sync(&local, "inputs samples");
    assert_eq!(sync(&local, "here samples --delete"), "upload a.txt, delete stale.txt");
}

#[cfg(unix)]
#[test]
fn what_a_link_led_to_is_not_deleted_when_its_target_is_away() {
    let local = Local::start();
    write(&local, "disk/a.txt", "one");
    write(&local, "here/b.txt", "two");
    write(&local, "here/inferstore-batch.jsonl", "a journal is for its owner alone");
    let link = |target: &str, link: &str| {
        std::os::unix::fs::symlink(target, local.cli.path(link)).expect("it can be made");
    };
    link("../disk/a.txt", "here/a.txt");
    write(&local, "stored/folder/c.txt", "three");
    sync(&local, "stored documents");
    link("../stored/folder", "here/folder");
    assert_eq!(sync(&local, "here documents"), "upload a.txt, upload b.txt");
    std::fs::rename(local.cli.path("disk"), local.cli.path("away")).expect("it can be renamed");
    let ended = local.cli.call("files sync here documents --delete");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "0 sent, 0 deleted\n"), "{ended}");
    assert!(ended.stderr.contains("here/a.txt leads to no file"), "{ended}");
    assert!(ended.stderr.contains("here/folder leads to no file"), "{ended}");
}

#[test]
fn an_empty_file_is_left_out_and_holds_nothing_back() {
    let local = Local::start();
    for (name, text) in [("a.txt", "one"), ("kept.txt", "two"), ("stale.txt", "three")] {
        write(&local, &format!("here/{name}"), text);
    }
    sync(&local, "here samples");
    fs::remove_file(local.cli.path("here/stale.txt")).expect("it is there");
    write(&local, "here/.gitkeep", "");
    write(&local, "here/kept.txt", "");
    write(&local, "here/b.txt", "four");
    for dry_run in [" --dry-run", ""] {
        let ended = local.cli.call(&format!("files sync here samples --delete{dry_run} --format jsonl"));
        assert!(ended.stderr.contains("here/.gitkeep is empty and is left out"), "{ended}");
        assert!(ended.code == exit::DONE && ended.stdout.lines().count() == 2, "{ended}");
        let table = local.cli.call("files sync here samples --dry-run").stdout;
        assert!(!table.contains("sent") && table.contains("to send"), "{table}");
        assert!(ended.stdout.contains("b.txt") && ended.stdout.contains("stale.txt"), "{ended}");
    }
    let listed = local.cli.call("files list samples -q").stdout;
    assert_eq!(listed.lines().count(), 3, "{listed}");
}

#[cfg(unix)]
#[test]
fn odd_names_are_stored_under_safe_ones_and_are_the_same_later() {
    use std::os::unix::ffi::OsStrExt;

    let local = Local::start();
    write(&local, "here/new\nline.txt", "one");
    let foreign = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(local.cli.folder.path().join("here").join(foreign), "two").expect("it can be written");
    assert_eq!(sync(&local, "here samples --dry-run"), "upload caf_.txt, upload new_line.txt");
    assert_eq!(sync(&local, "here samples"), "upload caf_.txt, upload new_line.txt");
    assert_eq!(sync(&local, "here samples --delete"), "");
    assert_eq!(sync(&local, "samples here --delete"), "");
    let uploaded = local.cli.call_with(&["files", "upload", "covers", "here/new\nline.txt", "--json=name"]);
    assert_eq!(uploaded.stdout.trim(), "[{\"name\":\"new_line.txt\"}]", "{uploaded}");
}

#[test]
fn contents_are_compared_whatever_sizes_times_and_names_say() {
    let local = Local::start();
    for (name, text) in [("a.txt", "one"), ("b.txt", "two"), ("c.txt", "one"), ("d.txt", "four")] {
        write(&local, &format!("here/{name}"), text);
    }
    assert_eq!(sync(&local, "here samples -j 2"), "upload a.txt, upload b.txt, upload c.txt, upload d.txt");

    // The same size, and a time before the upload.
    write(&local, "here/b.txt", "TWO");
    change_time(&local, "here/b.txt", -3600);
    change_time(&local, "here/d.txt", 3600);
    assert_eq!(sync(&local, "here samples --dry-run"), "upload b.txt");
    assert_eq!(sync(&local, "here samples"), "upload b.txt", "what was touched is the same");
    assert_eq!(sync(&local, "here samples"), "");

    fs::rename(local.cli.path("here/c.txt"), local.cli.path("here/e.txt")).expect("it can be renamed");
    assert_eq!(sync(&local, "here samples"), "upload e.txt");
    assert_eq!(sync(&local, "here samples --delete --dry-run"), "delete c.txt");
    assert_eq!(sync(&local, "here samples --delete"), "delete c.txt");
    assert_eq!(local.cli.call("files stats -q").stdout, "4\n");
}

#[test]
fn a_second_machine_has_the_same_files_and_sends_back_what_it_changes() {
    let local = Local::start();
    write(&local, "one/a.txt", "a");
    write(&local, "one/.env", "hidden");
    write(&local, "one/inner/x.txt", "x");
    assert_eq!(sync(&local, "one samples"), "upload .env, upload a.txt, upload inner-x.txt");
    assert_eq!(sync(&local, "samples two"), "download .env, download a.txt, download inner-x.txt");
    for words in
        ["samples two --delete", "two samples --delete", "samples one --delete", "one samples --delete"]
    {
        assert_eq!(sync(&local, words), "", "{words}");
    }

    write(&local, "two/inner-x.txt", "y");
    assert_eq!(sync(&local, "two samples"), "upload inner-x.txt");
    assert_eq!(sync(&local, "samples one"), "download inner-x.txt");
    assert_eq!(read(&local, "one/inner/x.txt"), "y", "the file is replaced where it is");
    assert_eq!(sync(&local, "one samples"), "");

    // A copy that was edited later than the upload is no copy.
    write(&local, "two/a.txt", "b");
    change_time(&local, "two/a.txt", 3600);
    write(&local, "two/own.txt", "own");
    assert_eq!(sync(&local, "samples two --delete --dry-run"), "download a.txt, delete own.txt");
    assert_eq!(sync(&local, "samples two --delete"), "download a.txt, delete own.txt");
    assert_eq!(read(&local, "two/a.txt"), "a");
}

#[test]
fn a_killed_sync_continues_and_leaves_nothing_that_is_sent_later() {
    let local = Local::start();
    fs::create_dir(local.cli.path("here")).expect("it can be made");
    pictures(&local.cli.folder.path().join("here"), 60);
    let stored = || local.cli.call("files list samples --all -q").stdout.lines().count();
    let mut process = local.command("files sync here samples -j 1").spawn().expect("it starts");
    while stored() < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    process.kill().expect("it can be killed");
    process.wait().expect("it ends");
    let before = stored();
    assert!(before < 60, "it was killed too late");
    let left = sync(&local, "here samples --dry-run").split(", ").count();
    sync(&local, "here samples -j 16");
    assert_eq!(stored(), 60);
    // An upload may have arrived just after the kill.
    assert!((60 - before - 1..=60 - before).contains(&left), "{left} were left after {before}");

    // What a killed download leaves, and one that goes on.
    write(&local, "here/.inferstore-8SbnTq.part", "half of a pict");
    write(&local, "here/.inferstore-a1b2c3.part", "half of a pict");
    change_time(&local, "here/.inferstore-8SbnTq.part", -3600);
    assert_eq!(sync(&local, "here samples"), "");
    assert_eq!(sync(&local, "samples here"), "");
    let left = names_in(&local.cli.folder.path().join("here"));
    assert!(!left.contains(&".inferstore-8SbnTq.part".to_owned()), "{left:?}");
    assert!(left.contains(&".inferstore-a1b2c3.part".to_owned()), "{left:?}");
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere", local.cli.path("here/broken")).expect("it can be made");
    assert_eq!(sync(&local, "here samples --delete"), "");
    assert_eq!(sync(&local, "samples there -j 16").split(", ").count(), 60);
    assert_eq!(names_in(&local.cli.folder.path().join("there")).len(), 60);
}

#[test]
fn a_journal_is_neither_sent_nor_replaced_nor_deleted() {
    const JOURNAL: &str = "inferstore-batch.jsonl";
    let local = Local::start();
    write(&local, &format!("stale/{JOURNAL}"), "an earlier journal");
    write(&local, "stale/a.txt", "a");
    let stale = local.cli.call(&format!("files upload thumbnails stale/{JOURNAL} stale/a.txt"));
    assert_eq!(stale.code, exit::DONE, "{stale}");
    write(&local, &format!("out/{JOURNAL}"), "the journal of paid runs");
    assert_eq!(sync(&local, "thumbnails out --delete"), "download a.txt");
    let copied = local.cli.call("files download -r thumbnails out --overwrite");
    assert!(copied.code == exit::DONE && copied.stderr.contains("is left out"), "{copied}");
    assert_eq!(read(&local, &format!("out/{JOURNAL}")), "the journal of paid runs");
    assert_eq!(sync(&local, "out thumbnails --delete"), "", "the stored one stays, too");

    let uploaded = local.cli.call("files upload -r covers out -q");
    assert_eq!(uploaded.stdout.lines().count(), 1, "{uploaded}");
    // The end of a name makes no journal.
    write(&local, &format!("own/my-{JOURNAL}"), "my own");
    write(&local, &format!("own/inner/{JOURNAL}"), "the journal of paid runs");
    assert_eq!(sync(&local, "own samples --delete"), format!("upload my-{JOURNAL}"));
    assert_eq!(sync(&local, "samples copy"), format!("download my-{JOURNAL}"));
    assert_eq!(sync(&local, "samples copy"), "");
}

#[cfg(feature = "controls")]
#[test]
fn a_sync_that_cannot_compare_contents_fails() {
    let local = Local::with_controls();
    write(&local, "here/a.txt", "one");
    sync(&local, "here samples");
    write(&local, "here/a.txt", "two");
    change_time(&local, "here/a.txt", -3600);
    local.fault(serde_json::json!({"effect": "hang_up", "operation": "headObject", "times": 20}));
    let ended = local.cli.call("files sync here samples");
    assert!(ended.code != exit::DONE && ended.stderr.contains("samples/a.txt: "), "{ended}");
    // What is left of the faults is met by other requests.
    while local.cli.call("files sync here samples --dry-run").code != exit::DONE {}
    assert_eq!(sync(&local, "here samples"), "upload a.txt");
}
