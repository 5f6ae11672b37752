//! The GitHub action `.github/actions/service`: its script, as a runner calls it.

use std::fmt;
use std::fs;
use std::process::{Command, Stdio};

use inferstore_wire::{Reaction, Server};
use tempfile::TempDir;

use crate::support::Cli;

const ACTION: &str = include_str!("../../../../.github/actions/service/action.yml");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.github/actions/service/start");
const NAME: &str = "inferstore-1.2.3-x86_64-unknown-linux-gnu";

/// A runner with an archive whose program is the command of this build.
struct Runner {
    folder: TempDir,
}

/// The end of a step.
struct Step {
    is_success: bool,
    stdout: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stdout)
    }
}

impl Runner {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let bin = folder.path().join(NAME).join("bin");
        fs::create_dir_all(&bin).expect("a folder can be made");
        // The process keeps its number, by which the test ends it.
        let program = format!(
            "#!/bin/sh\necho $$ > \"$PID_FILE\"\nexec '{}' \"$@\"\n",
            env!("CARGO_BIN_EXE_inferstore")
        );
        fs::write(bin.join("inferstore"), program).expect("a file can be written");
        let run = |program: &str, arguments: &[&str]| {
            let ended = Command::new(program).args(arguments).current_dir(folder.path()).status();
            assert!(ended.is_ok_and(|status| status.success()), "{program} {arguments:?}");
        };
        run("chmod", &["+x", &format!("{NAME}/bin/inferstore")]);
        run("tar", &["-czf", "archive.tar.gz", NAME]);
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Runs the script with these inputs. Standard output of a runner is the log of the job.
    fn step(&self, inputs: &[(&str, &str)]) -> Step {
        let mut command = Command::new("bash");
        command.arg(SCRIPT).current_dir(self.folder.path()).stderr(Stdio::null());
        for name in ["GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "PID_FILE", "RUNNER_TEMP"] {
            command.env(name, self.path(name));
        }
        // A runner sets every variable of the action, to nothing where an input is not given.
        for name in ["ACTION_REPOSITORY", "ACTION_REF", "ARCHIVE", "ARCHIVE_SHA256", "SERVE_OPTIONS"] {
            command.env(name, "");
        }
        let output =
            command.env("GITHUB_SERVER_URL", "https://host.example").envs(inputs.iter().copied()).output();
        let output = output.expect("bash starts");
        Step {
            is_success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        }
    }

    /// The variables of the later steps, in an environment of the command.
    fn later_step(&self) -> Cli {
        let mut cli = Cli::new();
        for (name, value) in self.read("GITHUB_ENV").lines().filter_map(|line| line.split_once('=')) {
            cli.set(name, value);
        }
        cli
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let service = self.read("PID_FILE");
        if !service.is_empty() {
            let _ = Command::new("kill").arg(service.trim()).status();
        }
    }
}

#[test]
fn the_later_steps_have_a_service_its_command_and_its_controls() {
    let runner = Runner::new();
    let archive = fs::read(runner.path("archive.tar.gz")).expect("it was made");
    let sums = Command::new("sha256sum").arg(runner.path("archive.tar.gz")).output().expect("it starts");
    let sum = String::from_utf8_lossy(&sums.stdout).split(' ').next().unwrap_or_default().to_owned();
    let server = Server::start(move |_| Reaction::Answer(200, Vec::new(), archive.clone()));
    let url = format!("{}/file", server.origin());
    let options = "--balance 7 --insufficient-balance fail-task";
    let step = runner.step(&[("ARCHIVE", &url), ("ARCHIVE_SHA256", &sum), ("SERVE_OPTIONS", options)]);
    assert!(step.is_success, "{step}");

    let balance = runner.later_step().call("balance --jq .balance");
    assert!(balance.stdout.contains('7'), "{balance}");
    let variables = runner.read("GITHUB_ENV");
    let value = |name: &str| variables.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    for (name, output) in [("INFERSTORE_BASE_URL", "base-url"), ("INFERSTORE_CONTROLS_URL", "controls-url")] {
        let value = value(name).expect("it is set");
        assert!(runner.read("GITHUB_OUTPUT").contains(&format!("{output}={value}\n")), "{name}");
        assert!(ACTION.contains(&format!("steps.start.outputs.{output}")), "{output}");
    }
    for name in ["INFERSTORE_API_KEY", "INFERSTORE_CONTROLS_TOKEN"] {
        let value = value(name).expect("it is set");
        assert_eq!(step.stdout.matches(value).count(), 1, "{step}");
        assert!(step.stdout.contains(&format!("::add-mask::{value}\n")), "{step}");
    }
    assert_eq!(runner.read("GITHUB_PATH"), format!("{}/inferstore/bin\n", runner.path("RUNNER_TEMP")));
}

#[test]
fn a_step_that_cannot_start_a_service_fails_and_says_why() {
    let runner = Runner::new();
    let archive = runner.path("archive.tar.gz");
    for (inputs, message) in [
        (vec![("ACTION_REF", "main")], "give the input archive"),
        (vec![("ARCHIVE", "nothing.tar.gz")], "there is no archive nothing.tar.gz"),
        (vec![("ARCHIVE", SCRIPT)], "is no archive of a release"),
        (vec![("ARCHIVE", "http://127.0.0.1:1/a.tar.gz")], "cannot be downloaded"),
        (vec![("ARCHIVE", &*archive), ("ARCHIVE_SHA256", "00")], "has not the SHA-256 00"),
        (vec![("ARCHIVE", &*archive), ("SERVE_OPTIONS", "--no-such-option")], "the service did not start"),
    ] {
        let step = runner.step(&inputs);
        let is_said = step.stdout.lines().any(|line| line.starts_with("::error") && line.contains(message));
        assert!(!step.is_success && is_said, "{message}: {step}");
    }
}

#[test]
fn the_action_gives_its_script_every_variable() {
    let script = fs::read_to_string(SCRIPT).expect("it is there");
    for name in ["ACTION_REPOSITORY", "ACTION_REF", "ARCHIVE", "ARCHIVE_SHA256", "SERVE_OPTIONS"] {
        assert!(ACTION.contains(&format!("        {name}: ${{{{ ")) && script.contains(name), "{name}");
    }
    for input in ["archive", "sha256", "options"] {
        assert!(
            ACTION.contains(&format!("\n  {input}:\n")) && ACTION.contains(&format!("inputs.{input} ")),
            "{input}"
        );
    }
}
