//! Completions load in the shells that are installed here.

use std::process::Command;

use crate::support::Cli;

/// Loads the completions in the shell, if it is installed, with a script that ends well only when they
/// are there.
fn load(shell: &str, script: &str) {
    let installed = Command::new(shell).arg("-c").arg("exit 0").status().is_ok_and(|status| status.success());
    let cli = Cli::new();
    let completions = cli.call(&format!("completions {shell}")).stdout;
    assert!(completions.contains("inferstore"), "{completions}");
    if !installed {
        skipped(shell);
        return;
    }
    let path = cli.path("completions");
    std::fs::write(&path, completions).expect("it can be written");
    let output = Command::new(shell).arg("-c").arg(script).arg(shell).arg(&path).output().expect("it starts");
    assert!(output.status.success(), "{shell}: {output:?}");
}

#[expect(clippy::print_stderr, reason = "a test that could not test says so")]
fn skipped(shell: &str) {
    eprintln!("{shell} is not installed, so that its completions load was not tested");
}

#[test]
fn completions_load_in_bash_and_complete() {
    load(
        "bash",
        r#"set -eu; source "$1"; complete -p inferstore
        COMP_WORDS=(inferstore mod); COMP_CWORD=1; COMP_LINE="inferstore mod"; COMP_POINT=14
        _inferstore inferstore mod inferstore; [ "${COMPREPLY[*]}" = models ]"#,
    );
}

#[test]
fn completions_load_in_zsh() {
    load("zsh", r#"autoload -U compinit && compinit -u && source "$1" && (( $+functions[_inferstore] ))"#);
}

#[test]
fn completions_load_in_fish() {
    load("fish", r#"source $argv[1]; and complete -C 'inferstore mod' | string match -q 'models*'"#);
}
