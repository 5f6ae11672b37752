//! Completions load in the shells that people use.

use std::process::Command;

use crate::support::Cli;

/// Loads the completions in the shell, with a script that ends well only when they are there. It finds
/// their path in the variable COMPLETIONS.
fn load(shell: &str, script: &str) {
    let cli = Cli::new();
    let completions = cli.call(&format!("completions {shell}")).stdout;
    assert!(completions.contains("inferstore"), "{completions}");
    let path = cli.path("completions");
    std::fs::write(&path, completions).expect("it can be written");
    let output = Command::new(shell).arg("-c").arg(script).env("COMPLETIONS", &path).output();
    let output = output.expect("the shell is installed");
    assert!(output.status.success(), "{shell}: {output:?}");
}

#[test]
fn completions_load_in_bash_and_complete() {
    load(
        "bash",
        r#"set -eu; source "$COMPLETIONS"; complete -p inferstore
        COMP_WORDS=(inferstore mod); COMP_CWORD=1; COMP_LINE="inferstore mod"; COMP_POINT=14
        _inferstore inferstore mod inferstore; [ "${COMPREPLY[*]}" = models ]"#,
    );
}

#[test]
#[ignore = "needs zsh, which .ci/run installs"]
fn completions_load_in_zsh() {
    load(
        "zsh",
        r#"autoload -U compinit && compinit -u && source "$COMPLETIONS" && (( $+functions[_inferstore] ))"#,
    );
}

#[test]
#[ignore = "needs fish, which .ci/run installs"]
fn completions_load_in_fish() {
    load("fish", r#"source $COMPLETIONS; and complete -C 'inferstore mod' | string match -q 'models*'"#);
}
