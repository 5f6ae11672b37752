//! The pages: every command on them exists, and has the arguments that it is shown with.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::error::ErrorKind;

const LIMITS: &str = include_str!("../../../../docs/limits-and-settings.md");
const TROUBLESHOOTING: &str = include_str!("../../../../docs/troubleshooting.md");
const WITHOUT_ROOT: &str = include_str!("../../../../docs/without-root.md");

const PAGES: [(&str, &str); 18] = [
    ("README.md", include_str!("../../../../README.md")),
    ("admin.md", include_str!("../../../../docs/admin.md")),
    ("admin-http.md", include_str!("../../../../docs/admin-http.md")),
    ("bucket.md", include_str!("../../../../docs/bucket.md")),
    ("capacity.md", include_str!("../../../../docs/capacity.md")),
    ("cluster.md", include_str!("../../../../docs/cluster.md")),
    ("console.md", include_str!("../../../../docs/console.md")),
    ("controls.md", include_str!("../../../../docs/controls.md")),
    ("deployment.md", include_str!("../../../../docs/deployment.md")),
    ("limits-and-settings.md", LIMITS),
    ("models.md", include_str!("../../../../docs/models.md")),
    ("monitoring.md", include_str!("../../../../docs/monitoring.md")),
    ("moving.md", include_str!("../../../../docs/moving.md")),
    ("node-protocol.md", include_str!("../../../../docs/node-protocol.md")),
    ("nodes.md", include_str!("../../../../docs/nodes.md")),
    ("own-model.md", include_str!("../../../../docs/own-model.md")),
    ("troubleshooting.md", TROUBLESHOOTING),
    ("without-root.md", WITHOUT_ROOT),
];

#[test]
fn every_command_on_the_pages_is_valid() {
    let mut found = 0;
    for (page, text) in PAGES {
        let text = text.replace("\\\n", " ");
        for line in text.lines() {
            if let Some(words) = words_of_line(line) {
                check(page, line, &words, &[]);
                found += 1;
            }
            // A command in a sentence may leave arguments out.
            let left_out = [
                ErrorKind::MissingSubcommand,
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                ErrorKind::MissingRequiredArgument,
            ];
            for code in line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("inferstore ")) {
                let words: Vec<&str> = code.split_whitespace().take_while(|word| *word != "…").collect();
                check(page, line, &words, &left_out);
                found += 1;
            }
        }
    }
    assert!(found > 50, "only {found} commands were found");
}

#[test]
fn the_function_on_the_page_is_that_of_a_new_model() {
    let (_, page) = PAGES.into_iter().find(|(name, _)| *name == "own-model.md").expect("the page is checked");
    let function = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next());
    assert!(
        include_str!("../../src/commands/model_init/model.py").contains(function.expect("a block in Python"))
    );
}

pub(super) fn check(page: &str, line: &str, words: &[&str], accepted: &[ErrorKind]) {
    if let Err(error) = inferstore_cli::command().try_get_matches_from(words) {
        assert!(accepted.contains(&error.kind()), "{page}: {line}\n{error}");
    }
}

/// The command of a line of a shell, or of a unit of systemd.
pub(super) fn words_of_line(line: &str) -> Option<Vec<&str>> {
    let line = line.strip_prefix("sudo -u inferstore ").unwrap_or(line);
    let line = line.strip_prefix("ExecStart=/usr/local/bin/").unwrap_or(line);
    let line = line.strip_prefix("ExecStart=%h/.local/bin/").unwrap_or(line);
    let is_of_shell = |word: &&str| !matches!(*word, "#" | ">" | "<" | "|" | "&&" | "$INFERSTORE_OPTIONS");
    let words = line.split_whitespace().take_while(is_of_shell).map(|word| word.trim_matches('\''));
    line.starts_with("inferstore ").then(|| words.collect())
}

#[cfg(target_os = "linux")]
#[test]
fn systemd_accepts_the_units_of_a_user() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let units: Vec<&str> =
        WITHOUT_ROOT.split("```ini\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(units.len(), 4);
    for unit in units {
        let path = unit.lines().next().and_then(|line| line.strip_prefix("# ~/.config/systemd/user/"));
        let file = folder.path().join(path.expect("the first line is the path"));
        let system_only = ["User=", "Group=", "multi-user.target", "StateDirectory="];
        assert!(system_only.iter().all(|setting| !unit.contains(setting)), "{unit}");
        // The programs of the test machine are elsewhere.
        let unit =
            unit.replace("%h/.local/bin/inferstore", "/bin/true").replace("/usr/sbin/nginx", "/bin/true");
        fs::write(&file, unit).expect("a file can be written");
        let mut command = std::process::Command::new("systemd-analyze");
        command.args(["verify", "--user", "--man=no"]).arg(&file).env("XDG_RUNTIME_DIR", folder.path());
        // A machine without systemd verifies nothing.
        let Ok(verified) = command.output() else { continue };
        let stderr = String::from_utf8_lossy(&verified.stderr);
        assert!(verified.status.success() && stderr.is_empty(), "{}: {stderr}", file.display());
    }
}

#[test]
fn the_page_of_settings_has_every_flag_of_serve_with_its_default() {
    let command = inferstore_cli::command();
    let serve = command.find_subcommand("serve").expect("it serves");
    let flags: Vec<_> = serve.get_arguments().filter(|flag| !flag.is_global_set()).collect();
    let mut on_page = BTreeSet::new();
    for row in LIMITS.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        for name in cells[2].split('`').filter_map(|code| code.strip_prefix("--")) {
            let flag = flags.iter().find(|flag| flag.get_long() == Some(name));
            assert!(flag.is_some(), "serve has no flag --{name}");
            let Some(flag) = flag else { continue };
            if let [default] = flag.get_default_values()
                && flag.get_action().takes_values()
            {
                let default = default.to_string_lossy();
                assert_eq!(cells[1].split(' ').next(), Some(&*default), "{row}");
            }
            on_page.insert(name);
        }
    }
    let left_out: Vec<_> = flags.iter().filter_map(|flag| flag.get_long()).collect();
    let left_out: Vec<_> =
        left_out.into_iter().filter(|name| *name != "help" && !on_page.contains(name)).collect();
    assert!(left_out.is_empty(), "the page leaves out {left_out:?}");
}

/// The text of every file with one of these endings, with lines that a string continues joined.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("it is a folder") {
        let path = entry.expect("it can be read").path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_dir() {
            sources(&path, text);
        } else if matches!(ending, Some("rs" | "snap")) {
            let source = fs::read_to_string(&path).expect("it is text");
            let mut parts = source.split("\\\n");
            text.push_str(parts.next().unwrap_or_default());
            parts.for_each(|part| text.push_str(part.trim_start()));
        }
    }
}

#[test]
fn every_text_of_the_page_of_troubles_is_one_that_a_program_prints() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("beside the others");
    let mut text = String::new();
    for of in fs::read_dir(crates).expect("it is a folder") {
        let of = of.expect("it can be read").path();
        for folder in ["src", "tests/it/snapshots"] {
            if of.join(folder).is_dir() {
                sources(&of.join(folder), &mut text);
            }
        }
    }
    let quoted: Vec<&str> = TROUBLESHOOTING.lines().filter_map(|line| line.strip_prefix("> ")).collect();
    assert!(quoted.len() > 15, "{quoted:?}");
    let unknown: Vec<_> = quoted.iter().filter(|quoted| !text.contains(**quoted)).collect();
    assert!(unknown.is_empty(), "no program prints {unknown:#?}");
    for section in TROUBLESHOOTING.split("\n## ").skip(1) {
        let helps = ["`inferstore doctor`", "`inferstore status`", "`inferstore admin audit`"];
        assert!(helps.iter().any(|help| section.contains(help)), "no command in: {section}");
    }
}
