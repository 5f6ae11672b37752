//! Commands that go on until Ctrl-C, in a pseudo-terminal: each step of a test waits for what the command shows.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::console::catalog;
use crate::support::{Cli, Local};

/// Clears the screen, and goes to its first line.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// A command in a pseudo-terminal, and everything that it has shown.
struct Terminal {
    process: Child,
    shown: Vec<u8>,
}

impl Terminal {
    fn new(words: &str, folder: &Path, variables: &[(&str, &str)]) -> Self {
        Self::of_shell(&format!("exec \"$INFERSTORE\" {words}"), folder, variables)
    }

    /// Runs this line of a shell, in which `$INFERSTORE` is the command.
    fn of_shell(line: &str, folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut script = Command::new("script");
        for variable in ["BASE_URL", "API_KEY", "PROFILE", "FIRST_KEY", "LOG"] {
            script.env_remove(format!("INFERSTORE_{variable}"));
        }
        let process = script
            .args(["-qefc", &format!("stty cols 100 rows 40; {line}"), "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("INFERSTORE", env!("CARGO_BIN_EXE_inferstore"))
            .env("INFERSTORE_CONFIG", "profiles.json")
            .env("TERM", "xterm-256color")
            .envs(variables.iter().copied())
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script is installed");
        Self { process, shown: Vec::new() }
    }

    /// Everything that was shown, once that contains this text.
    fn until(&mut self, text: &str) -> String {
        self.until_it(|shown| shown.contains(text))
    }

    /// Everything that was shown, once it is as wanted.
    fn until_it(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        let mut chunk = [0; 4096];
        loop {
            let shown = String::from_utf8_lossy(&self.shown).into_owned();
            if is_wanted(&shown) {
                return shown;
            }
            let output = self.process.stdout.as_mut().expect("it is piped");
            let count = output.read(&mut chunk).expect("it can be read");
            assert!(count > 0, "the command ended too early: {shown}");
            self.shown.extend(&chunk[..count]);
        }
    }

    fn press_ctrl_c(&mut self) {
        let input = self.process.stdin.as_mut().expect("it is piped");
        input.write_all(b"\x03").expect("it can be typed");
    }

    /// Ends the command with Ctrl-C.
    fn interrupt(mut self) -> ExitStatus {
        self.press_ctrl_c();
        let output = self.process.stdout.as_mut().expect("it is piped");
        output.read_to_end(&mut self.shown).expect("it can be read");
        self.process.wait().expect("it ends")
    }
}

#[test]
fn a_list_that_is_watched_shows_every_new_task() {
    let local = Local::start();
    let task = || {
        let created = local.cli.call("run face-mesh hazy.png --detach -q");
        assert_eq!(created.code, 0, "{created}");
        created.stdout.trim().to_owned()
    };
    let first = task();
    let variables =
        [("INFERSTORE_BASE_URL", local.service().base_url()), ("INFERSTORE_API_KEY", "the-key-of-the-tests")];
    let mut terminal = Terminal::new("task list --watch", local.cli.folder.path(), &variables);
    let shown = terminal.until(&first);
    assert_eq!(shown.matches(CLEAR).count(), 1, "{shown}");
    let second = task();
    let shown = terminal.until(&second);
    let last = shown.rsplit(CLEAR).next().expect("a screen");
    assert!(last.contains(&second), "{shown}");
    // A canceled task changes the list, too.
    let canceled = local.cli.call(&format!("task cancel {second}"));
    assert_eq!(canceled.code, 0, "{canceled}");
    let shown = terminal.until("canceled");
    assert!(shown.matches(CLEAR).count() >= 3, "{shown}");
    assert_eq!(terminal.interrupt().code(), Some(130));
}

#[test]
fn a_list_that_is_watched_ends_with_its_reader() {
    let local = Local::start();
    let mut watch = local.command("task list --watch").spawn().expect("it starts");
    let mut stdout = watch.stdout.take().expect("it is piped");
    stdout.read_exact(&mut [0; b"0 of 0\n".len()]).expect("a list");
    drop(stdout);
    let begun = Instant::now();
    while watch.try_wait().expect("it was started").is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on without its reader");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(watch.wait().expect("it has ended").success());
}

#[test]
fn a_prompt_for_a_key_that_is_interrupted_leaves_the_terminal_as_it_was() {
    let cli = Cli::new();
    let line =
        "\"$INFERSTORE\" login http://127.0.0.1:9/api/v1 --no-check; echo \"status $?\"; stty -a; echo done";
    let mut terminal = Terminal::of_shell(line, cli.folder.path(), &[]);
    terminal.until("it is not shown");
    terminal.press_ctrl_c();
    let shown = terminal.until("done");
    assert!(shown.contains("status 130") && shown.contains(" echo "), "{shown}");
}

#[test]
fn a_mistake_is_readable_in_a_terminal() {
    let cli = Cli::new();
    let shown = Terminal::new("models lst", cli.folder.path(), &[]).until("try '--help'");
    assert!(shown.contains("error: ") && !shown.contains('\u{fffd}'), "{shown:?}");
}

#[test]
fn a_demo_ends_with_the_address_of_a_console_where_a_terminal_is_there() {
    let cli = Cli::new();
    let mut terminal = Terminal::new("demo --out pictures", cli.folder.path(), &[]);
    // The address is the last line.
    let shown = terminal.until_it(|shown| shown.contains("?token=") && shown.ends_with('\n'));
    let address = shown.split_whitespace().find(|word| word.contains("?token=")).expect("an address");
    assert!(address.starts_with("http://127.0.0.1:"), "{address}");
    assert!(catalog(address).contains("Color harmonization"));
    assert!(cli.folder.path().join("pictures").is_dir());
    assert!(terminal.interrupt().success());
}
