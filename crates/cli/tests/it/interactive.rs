//! Commands that go on until Ctrl-C, in a pseudo-terminal: each step of a test waits for what the command shows.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::console::catalog;
use crate::support::{Cli, Local};

/// Clears the screen, and goes to its first line.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Longest time for which a test waits for the next output.
const PATIENCE: Duration = Duration::from_secs(120);

/// A command in a pseudo-terminal, and everything that it has shown.
struct Terminal {
    process: Child,
    output: Receiver<Vec<u8>>,
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
        let mut process = script
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
        let mut stdout = process.stdout.take().expect("it is piped");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut chunk) {
                let _ = sender.send(chunk[..count].to_vec());
            }
        });
        Self { process, output, shown: Vec::new() }
    }

    /// Everything that was shown, once that contains this text.
    fn until(&mut self, text: &str) -> String {
        self.until_it(|shown| shown.contains(text))
    }

    /// Everything that was shown, once it is as wanted.
    fn until_it(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let shown = String::from_utf8_lossy(&self.shown).into_owned();
            if is_wanted(&shown) {
                return shown;
            }
            assert!(self.shows_more(), "the command ended too early: {shown}");
        }
    }

    /// Waits for the next output. False once the command has ended.
    fn shows_more(&mut self) -> bool {
        let more = self.output.recv_timeout(PATIENCE);
        if more == Err(RecvTimeoutError::Timeout) {
            let _ = self.process.kill();
        }
        let shown = String::from_utf8_lossy(&self.shown);
        assert_ne!(more, Err(RecvTimeoutError::Timeout), "the command shows nothing more after {shown}");
        let is_more = more.is_ok();
        self.shown.extend(more.unwrap_or_default());
        is_more
    }

    fn press_ctrl_c(&mut self) {
        self.type_in("\x03");
    }

    fn type_in(&mut self, text: &str) {
        let input = self.process.stdin.as_mut().expect("it is piped");
        input.write_all(text.as_bytes()).expect("it can be typed");
    }

    /// Ends the command with Ctrl-C.
    fn interrupt(mut self) -> ExitStatus {
        self.press_ctrl_c();
        while self.shows_more() {}
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
fn a_list_that_is_watched_clears_no_dumb_terminal() {
    let local = Local::start();
    let task = local.cli.call("run face-mesh hazy.png --detach -q").stdout;
    let variables = [
        ("INFERSTORE_BASE_URL", local.service().base_url()),
        ("INFERSTORE_API_KEY", "the-key-of-the-tests"),
        ("TERM", "dumb"),
    ];
    let mut terminal = Terminal::new("task list --watch", local.cli.folder.path(), &variables);
    let shown = terminal.until(task.trim());
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
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
    // A shell without a trap would end with the command.
    let line = "trap : INT; \"$INFERSTORE\" login http://127.0.0.1:9/api/v1 --no-check; echo \"status $?\"; stty -a; echo done";
    let mut terminal = Terminal::of_shell(line, cli.folder.path(), &[]);
    terminal.until("it is not shown");
    terminal.press_ctrl_c();
    let shown = terminal.until("done");
    assert!(shown.contains("status 130") && shown.contains(" echo "), "{shown}");
}

#[test]
fn a_prompt_for_a_key_ends_with_an_interrupt_of_another_process() {
    let cli = Cli::new();
    let line = "sh -c 'echo process $$.; exec \"$INFERSTORE\" login http://127.0.0.1:9/api/v1 --no-check'; \
                echo \"status $?\"; stty -a; echo done";
    let mut terminal = Terminal::of_shell(line, cli.folder.path(), &[]);
    let shown = terminal.until("it is not shown");
    let (_, process) = shown.split_once("process ").expect("a process");
    let (process, _) = process.split_once('.').expect("a number");
    let sent = Command::new("kill").args(["-INT", process]).status().expect("kill is there");
    assert!(sent.success());
    let shown = terminal.until("done");
    assert!(shown.contains("status 130") && shown.contains(" echo "), "{shown}");
}

#[test]
fn a_key_that_is_typed_is_stored_and_not_shown() {
    let cli = Cli::new();
    // A shell without a trap would end with the command.
    let line = "trap : INT; \"$INFERSTORE\" login http://127.0.0.1:9/api/v1 --no-check; echo \"status $?\"; stty -a; echo done";
    let mut terminal = Terminal::of_shell(line, cli.folder.path(), &[]);
    terminal.until("it is not shown");
    terminal.type_in("a-key-of-12-c\x7fcharacters\n");
    let shown = terminal.until("done");
    assert!(shown.contains("status 0") && shown.contains(" echo "), "{shown}");
    assert!(!shown.contains("a-key-of"), "{shown}");
    let profiles = std::fs::read_to_string(cli.folder.path().join("profiles.json")).expect("profiles");
    assert!(profiles.contains("\"a-key-of-12-characters\""), "{profiles}");
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
