//! Completions load in the shells that people use, and ask the service.

#[cfg(target_os = "linux")]
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{Cli, Local};

/// Loads the completions in the shell, with a script that ends well only when they are there. It finds
/// their path in the variable COMPLETIONS.
fn load(shell: &str, script: &str) {
    let cli = Cli::new();
    let completions = cli.call(&format!("completions {shell}")).stdout;
    assert!(completions.contains("inferstore"), "{completions}");
    let path = cli.path("completions");
    std::fs::write(&path, completions).expect("it can be written");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_inferstore"));
    let mut folders = vec![program.parent().expect("it is in a folder").to_owned()];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let folders = std::env::join_paths(folders).expect("none has a colon");
    let mut command = Command::new(shell);
    let output = command.arg("-c").arg(script).env("COMPLETIONS", &path).env("PATH", folders).output();
    let output = output.expect("the shell is installed");
    assert!(output.status.success(), "{shell}: {output:?}");
}

#[test]
fn completions_load_in_bash() {
    load("bash", r#"set -eu; source "$COMPLETIONS"; complete -p inferstore"#);
}

/// Returns the completions of the last of these words.
fn offered(local: &Local, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inferstore"));
    let output = command
        .args(["--", "inferstore"])
        .args(words)
        .envs([("INFERSTORE_COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", &words.len().to_string())])
        .envs([("_CLAP_IFS", "\n"), ("_CLAP_COMPLETE_COMP_TYPE", "9"), ("_CLAP_COMPLETE_SPACE", "true")])
        .envs([
            ("INFERSTORE_BASE_URL", local.service().base_url()),
            ("INFERSTORE_API_KEY", "the-key-of-the-tests"),
        ])
        .current_dir(local.cli.folder.path())
        .output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn commands_models_inputs_files_tasks_and_folders_are_completed() {
    let local = Local::start();
    let task = local.cli.call("run haze-removal hazy.png --detach -q").stdout;
    for (words, expected) in [
        (&["bal"][..], "balance"),
        (&["run", "haze"], "haze-removal"),
        (&["models", "show", "color-h"], "color-harmonization"),
        (&["run", "color-harmonization", "templ"], "template="),
        (&["run", "color-harmonization", "template=v_"], "template=v_shape"),
        (&["run", "color-harmonization", "input_image=@ha"], "input_image=@hazy.png"),
        (&["run", "-j", "4", "--dry-run", "color-harmonization", "-o", "a/", "templ"], "template="),
        (&["--no-progress", "run", "--json=task_id", "color-harmonization", "templ"], "template="),
        (&["run", "haze-removal", "ha"], "hazy.png"),
        (&["task", "show", ""], task.trim()),
        (&["task", "show", "@"], "@last"),
        (&["files", "list", "sam"], "samples"),
    ] {
        let offered = offered(&local, words);
        assert!(offered.split_whitespace().any(|word| word == expected), "{words:?}: {offered}");
    }
}

/// A line of bash after these keys, with the words of the command in brackets.
#[cfg(target_os = "linux")]
fn typed(local: &Local, keys: &str) -> String {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_inferstore"));
    let folder = program.parent().expect("it is in a folder").display();
    let path = std::env::var("PATH").unwrap_or_default();
    std::fs::write(local.cli.path("completions"), local.cli.call("completions bash").stdout)
        .expect("it is ours");
    let mut script = Command::new("script")
        .args(["-qec", "bash --norc --noprofile -i", "/dev/null"])
        .env("PATH", format!("{folder}:{path}"))
        .env("INFERSTORE_BASE_URL", local.service().base_url())
        .env("INFERSTORE_API_KEY", "the-key-of-the-tests")
        .env("INFERSTORE_CONFIG", "profiles.json")
        .env("PS1", "")
        .current_dir(local.cli.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script is installed");
    // At the beginning of the line, a command that prints its words.
    let line = format!("source completions; bind 'set bell-style none'\n{keys}\u{1}printf '[%s]' \n\nexit\n");
    script.stdin.take().expect("it is piped").write_all(line.as_bytes()).expect("it can be typed");
    let output = script.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn values_and_files_of_inputs_are_completed_in_bash() {
    let local = Local::start();
    std::fs::write(local.cli.path("my $picture.png"), "").expect("it can be written");
    for (keys, words) in [
        ("inferstore run haz\t", "[inferstore][run][haze-removal]"),
        ("inferstore run color-harmonization templ\tv_\t", "[template=v_shape]"),
        ("inferstore run color-harmonization input_image=@ha\t", "[input_image=@hazy.png]"),
        ("inferstore run color-harmonization -i input_image=@my\t", "[input_image=@my $picture.png]"),
        ("inferstore task show @la\t", "[task][show][@last]"),
    ] {
        let shown = typed(&local, keys);
        assert!(shown.contains(words), "{keys:?}: {shown:?}");
    }
}

#[test]
#[ignore = "needs zsh, which .ci/run installs"]
fn completions_load_in_zsh() {
    load(
        "zsh",
        r#"autoload -U compinit && compinit -u && source "$COMPLETIONS" && (( $+functions[_clap_dynamic_completer_inferstore] ))"#,
    );
}

#[test]
#[ignore = "needs fish, which .ci/run installs"]
fn completions_load_in_fish() {
    load("fish", r#"source $COMPLETIONS; and complete -C 'inferstore mod' | string match -q 'models*'"#);
}
