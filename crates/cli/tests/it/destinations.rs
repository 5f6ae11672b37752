//! Destinations of outputs: no paid output replaces another one, and what cannot be saved is not paid.

use std::path::Path;

use inferstore_cli::exit;

use crate::support::{Local, names_in, picture, pictures};

fn tasks(local: &Local) -> usize {
    local.cli.call("task list --all -q").stdout.lines().count()
}

/// The outputs in a folder, without the journal.
fn outputs(folder: &Path) -> Vec<String> {
    let names = names_in(folder).into_iter();
    names.filter(|name| !name.starts_with('.') && !name.ends_with(".jsonl")).collect()
}

#[test]
fn long_names_and_names_of_rows_have_outputs_of_their_own() {
    let local = Local::start();
    let folder = local.cli.folder.path();
    let long = "会議の議事録と写真のまとめ資料二〇二六年十一月二十九日東京本社第一会議室";
    let names = [1, 2].map(|number| format!("{long}-{number}.png"));
    names.iter().for_each(|name| picture(&folder.join(name), name));
    let ended = local.cli.call(&format!("run haze-removal {} -o long/ --overwrite", names.join(" ")));
    assert_eq!((ended.code, outputs(&folder.join("long")).len()), (exit::DONE, 2), "{ended}");

    let sweep = format!("run color-harmonization {} template=v_shape angle=10..30:10", names[0]);
    let ended = local.cli.call(&format!("{sweep} -o sweep/ --overwrite"));
    let saved = outputs(&folder.join("sweep"));
    let of_angle = |angle: &str| saved.iter().filter(|name| name.contains(angle)).count();
    let counts = ["-angle-10-", "-angle-20-", "-angle-30-"].map(of_angle);
    assert_eq!((ended.code, counts), (exit::DONE, [2, 2, 2]), "{saved:?}");

    ["x-row-4.png", "x.png"].iter().for_each(|name| picture(&folder.join(name), name));
    let rows = "input_image,template,angle\nx-row-4.png,v_shape,10\nx.png,v_shape,20\nx.png,v_shape,30\n";
    std::fs::write(folder.join("rows.csv"), rows).expect("it can be written");
    let ended = local.cli.call("run color-harmonization --rows rows.csv -o rows/ --overwrite");
    assert_eq!((ended.code, outputs(&folder.join("rows")).len()), (exit::DONE, 6), "{ended}");
}

#[test]
fn a_template_that_gives_two_outputs_one_path_is_refused_before_payment() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    for files in ["p000.png", "p000.png p001.png"] {
        let ended = local.cli.call(&format!(
            "run color-harmonization {files} template=v_shape angle=10 -o out/{{input}}.png --overwrite"
        ));
        assert!(ended.code == exit::USAGE && ended.stderr.contains("{name}"), "{ended}");
    }
    assert_eq!(tasks(&local), 0);
}

#[test]
fn an_output_that_exists_is_an_error_before_payment() {
    let local = Local::start();
    let folder = local.cli.folder.path();
    pictures(folder, 3);
    std::fs::create_dir(folder.join("out")).expect("it can be made");
    std::fs::write(folder.join("out/p000.png"), "mine").expect("it can be written");
    std::fs::write(folder.join("c-output_hue.png"), "mine").expect("it can be written");
    for words in [
        "run haze-removal p000.png -o out/{input}.png",
        "run color-harmonization p000.png template=v_shape angle=10 -o c.png",
    ] {
        let ended = local.cli.call(words);
        assert_eq!((ended.code, tasks(&local)), (exit::INPUT, 0), "{ended}");
    }
    let batch = "run haze-removal p000.png p001.png p002.png -o out/{input}.png";
    for _ in 0..2 {
        let ended = local.cli.call(batch);
        assert!(ended.stderr.contains("p000.png exists already"), "{ended}");
        assert_eq!((ended.code, tasks(&local)), (exit::FAILED, 2), "{ended}");
    }
    assert!(std::fs::read(folder.join("out/p000.png")).is_ok_and(|content| content == b"mine"));
}

#[cfg(unix)]
#[test]
fn an_input_that_is_away_or_a_pipe_is_not_taken_for_the_former_one() {
    let local = Local::start();
    let folder = local.cli.folder.path();
    pictures(folder, 2);
    let run = "run haze-removal p000.png p001.png -o out/";
    assert_eq!(local.cli.call(run).code, exit::DONE);
    std::fs::rename(folder.join("p000.png"), folder.join("away.png")).expect("it can be renamed");
    let ended = local.cli.call(run);
    assert!(ended.code != exit::DONE && ended.stdout.contains("1 of 2 succeeded"), "{ended}");
    // A link that leads nowhere yet is a path to write to.
    std::os::unix::fs::symlink("target.png", folder.join("link.png")).expect("it can be made");
    assert_eq!(local.cli.call("run haze-removal p001.png -o link.png").code, exit::DONE);
    assert!(folder.join("target.png").is_file());
    let pipe = folder.join("pipe.png");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()));
    let content = std::fs::read(folder.join("away.png")).expect("it is there");
    let writer = std::thread::spawn(move || std::fs::write(pipe, content));
    let ended = local.cli.call("run haze-removal pipe.png -o out/");
    let is_read = writer.is_finished();
    assert!(is_read || ended.code != exit::DONE, "{ended}");
}

#[test]
fn one_file_into_a_folder_is_paid_once() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    for (files, count) in [("p000.png", 1), ("p000.png", 1), ("p000.png p001.png", 2)] {
        let ended = local.cli.call(&format!("run haze-removal {files} -o out/"));
        assert_eq!((ended.code, tasks(&local)), (exit::DONE, count), "{ended}");
    }
    assert_eq!(outputs(&local.cli.folder.path().join("out")).len(), 2);
}

#[test]
fn a_budget_counts_files_that_are_named_and_folders_of_templates() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    for [first, second] in [
        ["p000.png -o a/{input}.{ext}", "p001.png -o a/{input}.{ext}"],
        ["input_image=@p000.png -o b/", "input_image=@p001.png -o b/"],
        ["p000.png -o c/", "input_image=@p001.png -o c/"],
    ] {
        let before = tasks(&local);
        let run = |words: &str| local.cli.call(&format!("run haze-removal {words} --budget 0.01"));
        assert_eq!(run(first).code, exit::DONE);
        let ended = run(second);
        assert!(ended.code == exit::INPUT && ended.stderr.contains("budget"), "{ended}");
        assert_eq!(tasks(&local), before + 1, "{second}");
    }
    let ended = local.cli.call("task rerun @last -o c/ --budget 0.01");
    assert_eq!((ended.code, tasks(&local)), (exit::INPUT, 3), "{ended}");
    let ended = local.cli.call("task rerun @last -o d/ --budget 0.01");
    let names = outputs(&local.cli.folder.path().join("d"));
    assert!(ended.code == exit::DONE && !names[0].starts_with('-'), "{names:?} {ended}");
}

#[test]
fn a_file_whose_name_begins_with_an_at_sign_is_that_file() {
    let local = Local::start();
    let folder = local.cli.folder.path();
    ["@x.png", "x.png", "@only.png"].iter().for_each(|name| picture(&folder.join(name), name));
    let ended = local.cli.call("run haze-removal @x.png x.png @only.png -o out/");
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 3), "{ended}");
    std::fs::write(folder.join("rows.csv"), "input_image\n@x.png\nx.png\n").expect("it can be written");
    let ended = local.cli.call("run haze-removal --rows rows.csv -o rows/");
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 5), "{ended}");
    let ended = local.cli.call("run haze-removal input_image=@@only.png -o one.png");
    assert!(ended.stderr.contains("write input_image=@./@only.png"), "{ended}");
}

#[test]
fn a_sweep_with_a_value_that_is_refused_is_not_begun() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 1);
    let ended = local.cli.call("run color-harmonization p000.png template=v_shape angle=80..100:10 -o out/");
    assert!(ended.code == exit::INPUT && ended.stderr.contains("angle=100"), "{ended}");
    assert_eq!(tasks(&local), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_working_folder_whose_name_is_not_utf_8_has_the_outputs() {
    use std::os::unix::ffi::OsStrExt as _;

    let local = Local::start();
    let folder = local.cli.folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&folder).expect("it can be made");
    pictures(&folder, 2);
    for words in ["p000.png p001.png -o out/", "p000.png -o out/single.png"] {
        let mut command = local.command(&format!("run haze-removal {words}"));
        let ended = command.current_dir(&folder).output().expect("it starts");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(outputs(&folder.join("out")).len(), 3);
    assert_eq!(names_in(local.cli.folder.path()).iter().filter(|name| name.starts_with("caf")).count(), 1);
}

#[test]
fn a_journal_of_another_program_stays() {
    let local = Local::start();
    let folder = local.cli.folder.path();
    pictures(folder, 2);
    std::fs::create_dir(folder.join("out")).expect("it can be made");
    let journal = folder.join("out/inferstore-batch.jsonl");
    std::fs::write(&journal, "my notes").expect("it can be written");
    let ended = local.cli.call("run haze-removal p000.png p001.png -o out/");
    assert!(ended.code == exit::FAILED && ended.stderr.contains("journal"), "{ended}");
    assert_eq!(std::fs::read(&journal).ok().as_deref(), Some(b"my notes".as_slice()));
    assert_eq!(tasks(&local), 0);
}
