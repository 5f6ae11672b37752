//! Completions load in the shells that people use, and ask the service.

use std::process::Command;

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

/// What the command offers for the last of these words.
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
        (&["run", "haze-removal", "ha"], "hazy.png"),
        (&["task", "show", ""], task.trim()),
        (&["task", "show", "@"], "@last"),
        (&["files", "list", "sam"], "samples"),
    ] {
        let offered = offered(&local, words);
        assert!(offered.split_whitespace().any(|word| word == expected), "{words:?}: {offered}");
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
