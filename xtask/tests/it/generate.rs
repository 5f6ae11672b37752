//! From the document to the generated file, and the check that one fits the other.

use std::path::Path;

use crate::support::{Folder, Said, real_document, replaced, repository_file};

fn generated(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("document.yaml", &real_document());
    folder.generate(&[]).succeeded();
    folder
}

fn change_a_word(folder: &Folder) {
    let document = replaced(&real_document(), "description: Free credits.", "description: Unpaid credits.");
    folder.write("document.yaml", &document);
}

#[test]
fn the_checked_in_file_is_up_to_date() {
    let folder = Folder::new("checked_in");
    let mut command = folder.xtask(Path::new(env!("CARGO_MANIFEST_DIR")));
    let report = Said::by(command.args(["generate", "--check"])).succeeded();
    assert!(report.ends_with("generated.rs is up to date\n"), "{report}");
}

#[test]
fn the_output_depends_on_the_document_alone() {
    let folder = generated("one_run");
    assert_eq!(folder.read("generated.rs"), repository_file("crates/api/src/generated.rs"));
    let report = folder.generate(&[]).succeeded();
    assert!(report.ends_with("generated.rs is up to date\n"), "{report}");
}

#[test]
fn a_changed_word_fails_the_check_which_names_the_command_that_fixes_it() {
    let folder = generated("changed_word");
    let before = folder.read("generated.rs");
    change_a_word(&folder);

    let message = folder.generate(&["--check"]).failed();
    assert!(message.contains("generated.rs does not fit "), "{message}");
    assert!(message.contains("hint: run `cargo xtask generate` and commit both\n"), "{message}");
    assert!(message.contains("  -        /// Free credits.\n  +        /// Unpaid credits.\n"), "{message}");
    assert!(message.lines().count() < 20, "one word is shown by a few lines:\n{message}");
    assert_eq!(folder.read("generated.rs"), before, "a check changes nothing");
}

#[test]
fn generating_fixes_what_the_check_reports() {
    let folder = generated("fixed");
    change_a_word(&folder);

    let report = folder.generate(&[]).succeeded();
    assert!(report.contains("generated.rs written\n"), "{report}");
    assert!(report.contains("  +        /// Unpaid credits.\n"), "it reports what changed: {report}");
    folder.generate(&["--check"]).succeeded();
}

#[test]
fn a_long_difference_is_cut() {
    let folder = Folder::new("long_difference");
    folder.write("document.yaml", &real_document());
    let message = folder.generate(&["--check"]).failed();
    assert!(message.contains(" more lines\n"), "{message}");
    assert!(message.lines().count() < 50, "{message}");
}

#[test]
fn what_cannot_be_read_or_written_is_named() {
    let folder = Folder::new("unreadable");
    let message = folder.generate(&[]).failed();
    assert!(message.starts_with("error: cannot read ") && message.contains("document.yaml: "), "{message}");

    folder.write("document.yaml", &real_document());
    folder.write("generated.rs/in-the-way", "a folder");
    let message = folder.generate(&[]).failed();
    assert!(message.starts_with("error: cannot read ") && message.contains("generated.rs: "), "{message}");
}

#[test]
fn a_mistyped_command_is_refused_with_a_suggestion() {
    let folder = Folder::new("mistyped");
    let run = |arguments: &[&str]| {
        let said = Said::by(folder.xtask(Path::new(env!("CARGO_MANIFEST_DIR"))).args(arguments));
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{}", said.err);
        said.err
    };
    for (arguments, complaint) in [
        (&["generate", "--chek"][..], "a similar argument exists: '--check'"),
        (&["genrate"], "a similar subcommand exists: 'generate'"),
        (&["generate", "--document"], "a value is required for '--document <FILE>'"),
        (&[], "Usage: cargo xtask <COMMAND>"),
    ] {
        let message = run(arguments);
        assert!(message.contains(complaint), "{message}");
    }
}

#[test]
fn every_task_describes_itself() {
    let folder = Folder::new("help");
    let help = |arguments: &[&str]| {
        Said::by(folder.xtask(Path::new(env!("CARGO_MANIFEST_DIR"))).args(arguments)).succeeded()
    };
    let overview = help(&["--help"]);
    let tasks = overview.lines().skip_while(|line| *line != "Commands:").skip(1);
    let tasks: Vec<&str> = tasks
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()))
        .collect();
    assert!(tasks.len() >= 14, "{overview}");
    for task in tasks {
        let text = help(&[task, "--help"]);
        assert!(text.contains(&format!("Usage: cargo xtask {task}")), "{text}");
    }
}
