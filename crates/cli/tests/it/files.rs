//! Stored files: lists in several orders, patterns, standard input, several at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

use inferstore_cli::exit;
use serde_json::{Value, json};

use crate::support::{Local, answering, pictures};

/// Lines without what precedes the file name.
fn names(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.rsplit('/').next()).collect()
}

fn stored(count: usize) -> Local {
    let local = Local::start();
    let names = pictures(local.cli.folder.path(), count);
    let words: Vec<&str> = ["files", "upload", "samples", "-j", "1"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect();
    assert_eq!(local.cli.call_with(&words).code, exit::DONE);
    local
}

#[test]
fn the_latest_upload_is_listed_first_and_other_orders_are_chosen() {
    let local = stored(5);
    let cli = &local.cli;
    std::fs::copy(cli.path("hazy.png"), cli.path("large.png")).expect("it can be copied");
    assert_eq!(cli.call("files upload samples large.png").code, exit::DONE);
    let matching = |keys: &str| {
        let ended = cli.call(&format!("files list -q {keys}"));
        assert_eq!(ended.code, exit::DONE, "{ended}");
        names(&ended.stdout).join(" ")
    };
    let list = |options: &str| matching(&format!("samples {options}"));
    assert_eq!(list("--limit 2"), "large.png p004.png");
    assert_eq!(list("--limit 2 --offset 1"), "p004.png p003.png");
    assert_eq!(list("--limit 2 --sort oldest"), "p000.png p001.png");
    assert_eq!(list("--limit 2 --offset 3 --sort oldest"), "p003.png p004.png");
    assert_eq!(list("--limit 2 --sort name"), "large.png p000.png");
    assert_eq!(list("--limit 1 --sort size"), "large.png");
    assert_eq!(list("--prefix p00 --limit 2"), "p004.png p003.png");
    assert_eq!(list("--prefix samples/p00 --limit 1"), "p004.png");
    assert_eq!(list("--search ARGE"), "large.png");
    assert_eq!(matching("samples/p00[01].png"), "p001.png p000.png");
    assert_eq!(matching("samples/*.png --limit 2 --sort name"), "large.png p000.png");
    assert_eq!(matching("samples/large.png"), "large.png");
    assert_eq!(matching("samples/*.jpg"), "");
    assert_eq!(matching("samples/ --limit 1"), "large.png");
    let no_folder = cli.call("files list --prefix samples/p");
    assert!(no_folder.code == exit::USAGE && no_folder.stderr.contains("FOLDER|PATTERN"), "{no_folder}");
    let unknown = cli.call("files list sample");
    assert!(unknown.code == exit::INPUT && unknown.stderr.contains("did you mean `samples`?"), "{unknown}");
    assert_eq!(list("--search none"), "");
    assert_eq!(list("--all"), "large.png p004.png p003.png p002.png p001.png p000.png");
    let folders = cli.call("files list --json").stdout;
    let folders: Value = serde_json::from_str(&folders).expect("it is JSON");
    assert!(folders.as_array().is_some_and(|all| all.contains(&json!({"folder": "samples", "total": 6}))));
}

#[test]
fn patterns_and_beginnings_choose_files_to_download_and_to_delete() {
    let local = stored(4);
    let cli = &local.cli;
    assert_eq!(cli.call("files upload samples hazy.png").code, exit::DONE);
    let saved = cli.call("files download samples/p00[01].png out/ -q");
    assert_eq!(saved.stdout, "out/p000.png\nout/p001.png\n", "{saved}");
    let original = std::fs::read(cli.path("p001.png")).expect("it is there");
    assert!(std::fs::read(cli.path("out/p001.png")).is_ok_and(|content| content == original));
    let printed = cli.call("files download samples/p00[01].png -");
    assert!(printed.code == exit::USAGE && printed.stderr.contains("takes one file"), "{printed}");
    let folder = cli.call("files download samples/p00*.png x.png");
    assert!(folder.code == exit::USAGE && folder.stderr.contains("write x.png/"), "{folder}");
    let printed = cli.call("files download samples/p00[1].png -");
    assert!(printed.code == exit::DONE && !cli.folder.path().join("-").exists(), "{printed}");
    let again = cli.call("files download -r samples/p out/ -q");
    assert_eq!((again.code, names(&again.stdout)), (exit::INPUT, vec!["p002.png", "p003.png"]), "{again}");

    let dry = cli.call("files delete samples/p*.png --dry-run -q");
    assert_eq!((dry.code, dry.stdout.lines().count()), (exit::DONE, 4), "{dry}");
    let refused = cli.call("files delete samples --yes");
    assert!(refused.code == exit::INPUT && refused.stderr.contains("-r"), "{refused}");
    let missing = cli.call("files delete samples/x*.png --yes");
    assert!(missing.code == exit::INPUT && missing.stderr.contains("there is no file"), "{missing}");
    assert_eq!(cli.call("files stats -q").stdout, "5\n");
    let deleted = cli.call("files delete samples/p*.png samples/p000.png --yes -q");
    assert_eq!((deleted.code, deleted.stdout.lines().count()), (exit::DONE, 4), "{deleted}");
    assert_eq!(cli.call("files delete -r samples --yes").code, exit::DONE);
    assert_eq!(cli.call("files stats -q").stdout, "0\n");
}

#[test]
fn standard_input_is_uploaded_under_a_name() {
    let mut local = Local::start();
    let picture = std::fs::read(local.cli.path("hazy.png")).expect("it is there");
    local.cli.stdin_bytes(&picture);
    let ended = local.cli.call("files upload samples -");
    assert!(ended.code == exit::USAGE && ended.stderr.contains("--name"), "{ended}");
    let ended = local.cli.call("files upload samples - --name a.png -q");
    assert_eq!(names(&ended.stdout), ["a.png"], "{ended}");
    assert_eq!(local.cli.call("files download samples/a.png b.png").code, exit::DONE);
    assert!(std::fs::read(local.cli.path("b.png")).is_ok_and(|content| content == picture));
}

#[test]
fn an_upload_replaces_a_stored_file_only_if_it_is_told_to() {
    let local = Local::start();
    let cli = &local.cli;
    let write = |text: &str| std::fs::write(cli.path("a.txt"), text).expect("it can be written");
    let stored = || cli.call("files download samples/a.txt -").stdout;
    write("first");
    assert_eq!(cli.call("files upload samples a.txt").code, exit::DONE);
    write("second");
    let kept = cli.call("files upload samples a.txt hazy.png -q");
    assert_eq!((kept.code, names(&kept.stdout)), (exit::INPUT, vec!["hazy.png"]), "{kept}");
    assert!(kept.stderr.contains("samples/a.txt is stored already"), "{kept}");
    assert!(kept.stderr.contains("--overwrite"), "{kept}");
    assert_eq!(stored(), "first");
    write("first");
    let again = cli.call("files upload samples a.txt -q");
    assert_eq!((again.code, names(&again.stdout)), (exit::DONE, vec!["a.txt"]), "{again}");
    assert!(!cli.call("files upload samples a.txt").stderr.contains("uploading"), "nothing is sent");
    write("tsrif");
    assert_eq!(cli.call("files upload samples a.txt").code, exit::INPUT, "of the same size");
    write("second");
    assert_eq!(cli.call("files upload samples a.txt --overwrite").code, exit::DONE);
    assert_eq!(stored(), "second");
    assert_eq!(cli.call("files upload covers a.txt").code, exit::DONE, "another folder");
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_utf_8_is_refused_before_anything_is_uploaded() {
    use std::os::unix::ffi::OsStrExt;

    let local = Local::start();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.png");
    std::fs::copy(local.cli.path("hazy.png"), local.cli.folder.path().join(name)).expect("it can be copied");
    let mut command = local.command("files upload samples hazy.png");
    let output = command.arg(name).output().expect("it starts");
    assert_eq!(output.status.code(), Some(exit::INPUT.into()));
    assert_eq!(local.cli.call("files stats -q").stdout, "0\n");
    let mut command = local.command("files upload samples --name coffee.png");
    assert!(command.arg(name).output().is_ok_and(|output| output.status.success()));
}

#[test]
fn a_sync_sends_what_is_new_and_deletes_what_is_gone_in_both_directions() {
    let local = Local::start();
    let cli = &local.cli;
    std::fs::create_dir_all(cli.path("pictures/inner")).expect("it can be made");
    let folder = cli.folder.path().join("pictures");
    pictures(&folder, 3);
    std::fs::copy(cli.path("hazy.png"), folder.join("inner/x.png")).expect("it can be copied");
    let sync = |words: &str| {
        let ended = cli.call(&format!("files sync {words} -q"));
        assert_eq!(ended.code, exit::DONE, "{ended}");
        ended.stdout.lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(sync("pictures samples --dry-run"), "inner-x.png p000.png p001.png p002.png");
    assert_eq!(cli.call("files stats -q").stdout, "0\n");
    assert_eq!(sync("pictures samples/"), "inner-x.png p000.png p001.png p002.png");
    assert_eq!(sync("pictures samples"), "", "nothing is new");
    std::fs::copy(cli.path("hazy.png"), folder.join("p000.png")).expect("it can be copied");
    std::fs::remove_file(folder.join("p001.png")).expect("it is there");
    assert_eq!(sync("pictures samples"), "p000.png");
    assert_eq!(sync("pictures samples --delete"), "p001.png");
    assert_eq!(cli.call("files stats -q").stdout, "3\n");

    assert_eq!(sync("samples copy"), "inner-x.png p000.png p002.png");
    assert_eq!(sync("samples copy"), "");
    let original = std::fs::read(folder.join("p000.png")).expect("it is there");
    assert!(std::fs::read(cli.path("copy/p000.png")).is_ok_and(|content| content == original));
    std::fs::write(cli.path("copy/own.txt"), "own").expect("it can be written");
    std::fs::write(cli.path("copy/p002.png"), "changed").expect("it can be written");
    assert_eq!(sync("samples copy"), "p002.png");
    assert_eq!(sync("samples copy --delete"), "own.txt");
    let near = cli.call("files sync pictures covrs");
    assert!(near.stderr.contains("did you mean `covers`?"), "{near}");
    for wrong in ["samples covers", "a b", "missing samples"] {
        assert_eq!(cli.call(&format!("files sync {wrong}")).code, exit::USAGE, "{wrong}");
    }
}

#[test]
fn a_copy_has_the_names_of_the_stored_files() {
    let local = Local::start();
    let cli = &local.cli;
    std::fs::copy(cli.path("hazy.png"), cli.path("a b.png")).expect("it can be copied");
    assert_eq!(cli.call_with(&["files", "upload", "samples", "a b.png"]).code, exit::DONE);
    let saved = |words: &str| {
        let ended = cli.call(words);
        assert_eq!(ended.code, exit::DONE, "{ended}");
        ended.stdout
    };
    assert_eq!(saved("files sync samples copy --delete -q"), "a b.png\n");
    assert_eq!(saved("files sync samples copy --delete -q"), "", "nothing is new");
    assert_eq!(saved("files download samples/a*.png out -q"), "out/a b.png\n");
    let copied = cli.call_with(&["files", "download", "samples/a b.png", "-q"]);
    assert!(copied.code == exit::INPUT && copied.stderr.contains("a b.png exists already"), "{copied}");
    assert!(std::fs::read_dir(cli.path("copy")).is_ok_and(|files| files.count() == 1));
}

/// A service with 120 files, which returns at most 50 of them at once.
fn capped_service() -> String {
    let origin = answering(|request| {
        let number = |name: &str| {
            let (_, rest) = request.split_once(&format!("{name}="))?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
        };
        let size = number("pageSize").unwrap_or(10).min(50);
        let start = (number("page").unwrap_or(1) - 1) * size;
        let file = |number: usize| {
            let key = format!("samples/f{number:03}.png");
            json!({"id": number.to_string(), "key": key, "download_url": format!("http://host/{key}")})
        };
        let files: Vec<Value> = (start..120.min(start + size)).map(file).collect();
        json!({"files": files, "total": 120})
    });
    format!("{origin}/api/v1")
}

#[test]
fn a_service_with_short_pages_loses_no_file_and_repeats_none() {
    let mut cli = crate::support::Cli::new();
    cli.set("INFERSTORE_BASE_URL", &capped_service());
    cli.set("INFERSTORE_API_KEY", "key");
    let numbers = |options: &str| {
        let ended = cli.call(&format!("files list samples -q {options}"));
        assert_eq!(ended.code, exit::DONE, "{ended}");
        let number = |name: &str| name.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().ok();
        names(&ended.stdout).into_iter().filter_map(number).collect::<Vec<_>>()
    };
    assert_eq!(numbers("--all --sort oldest"), (0..120).collect::<Vec<_>>());
    assert_eq!(numbers("--all"), (0..120).rev().collect::<Vec<_>>());
    assert_eq!(numbers("--limit 60"), (60..120).rev().collect::<Vec<_>>());
    assert_eq!(numbers("--limit 70 --offset 45 --sort oldest"), (45..115).collect::<Vec<_>>());
    assert_eq!(numbers("--limit 70 --offset 45"), (5..75).rev().collect::<Vec<_>>());
    assert_eq!(numbers("--limit 3 --offset 118 --sort oldest"), [118, 119]);
    assert_eq!(numbers("--search 11"), [119, 118, 117, 116, 115, 114, 113, 112, 111, 110, 11]);
}

#[test]
fn files_that_are_deleted_while_they_are_listed_hide_no_other_file() {
    let pages = AtomicUsize::new(0);
    let origin = answering(move |request| {
        // The oldest file is deleted behind the first page.
        let first = usize::from(pages.fetch_add(1, Ordering::Relaxed) > 0);
        let start = if request.contains("page=1&") { first } else { first + 100 };
        let file = |number: usize| {
            let (id, key) = (number.to_string(), format!("samples/{number}"));
            json!({"id": id, "key": key, "download_url": format!("http://host/{number}")})
        };
        let files: Vec<Value> = (start..150.min(start + 100)).map(file).collect();
        json!({"files": files, "total": 150 - first})
    });
    let mut cli = crate::support::Cli::new();
    cli.set("INFERSTORE_BASE_URL", &format!("{origin}/api/v1"));
    cli.set("INFERSTORE_API_KEY", "key");
    let listed = cli.call("files delete -r samples --dry-run -q");
    let expected: String = (1..150).map(|number| format!("http://host/{number}\n")).collect();
    assert_eq!(listed.stdout, expected, "{listed}");
}

#[test]
fn two_stored_files_are_not_downloaded_as_one() {
    let local = Local::start();
    let folder = local.cli.folder.path().join("two");
    std::fs::create_dir(&folder).expect("it can be made");
    for name in [".same.txt", "same.txt"] {
        std::fs::write(folder.join(name), name).expect("it can be written");
    }
    assert_eq!(local.cli.call("files upload -r documents two").code, exit::DONE);
    let copied = local.cli.call("files download -r documents copy --overwrite");
    assert_eq!(copied.code, exit::INPUT, "{copied}");
    assert!(copied.stderr.contains("same.txt would be one file in "), "{copied}");
    let alone = local.cli.call("files download documents/.same.txt other.txt -q");
    assert_eq!(alone.stdout, "other.txt\n", "{alone}");
}

#[test]
fn a_key_with_the_characters_of_a_pattern_is_its_own_file() {
    let local = Local::start();
    for name in ["a[1].txt", "a1.txt"] {
        std::fs::write(local.cli.path(name), name).expect("it can be written");
        assert_eq!(local.cli.call_with(&["files", "upload", "samples", name]).code, exit::DONE);
    }
    let key = "samples/a[1].txt";
    let saved = local.cli.call_with(&["files", "download", key, "saved"]);
    assert_eq!(saved.code, exit::DONE, "{saved}");
    assert_eq!(std::fs::read_to_string(local.cli.path("saved")).ok().as_deref(), Some("a[1].txt"));
    let printed = local.cli.call_with(&["files", "download", key, "-"]);
    assert_eq!(printed.stdout, "a[1].txt", "{printed}");
    let deleted = local.cli.call_with(&["files", "delete", key, "-y"]);
    assert_eq!(deleted.code, exit::DONE, "{deleted}");
    let listed = local.cli.call("files list samples").stdout;
    assert!(listed.contains("a1.txt") && !listed.contains("a[1].txt"), "{listed}");
}
