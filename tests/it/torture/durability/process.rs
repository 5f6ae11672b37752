//! A service in a process of its own that can be killed without warning, and kept from writing.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How to start the service on a folder and two ports.
pub(crate) struct Start<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) ports: [u16; 2],
    /// A command of the shell that starts it: `"$@"`, or something around that.
    pub(crate) by: &'a str,
}

impl Start<'_> {
    fn spawn(&self, errors: Stdio) -> Child {
        Command::new("sh")
            .args(["-c", self.by, "sh", env!("CARGO_BIN_EXE_service-under-test")])
            .arg(self.folder)
            .args(self.ports.map(|port| port.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the service under test is built with the tests")
    }

    /// Starts it, and waits until it is ready.
    pub(crate) fn ready(&self) -> Process {
        self.ready_or_not(Stdio::inherit()).unwrap_or_else(|said| panic!("the service did not start: {said}"))
    }

    /// The same, with what it logs.
    pub(crate) fn ready_and_heard(&self) -> (Process, ChildStderr) {
        let mut process = self
            .ready_or_not(Stdio::piped())
            .unwrap_or_else(|said| panic!("the service did not start: {said}"));
        let errors = process.child.stderr.take().expect("its errors are piped");
        (process, errors)
    }

    /// What it says about its failure to start.
    pub(crate) fn failure(&self) -> String {
        match self.ready_or_not(Stdio::piped()) {
            Ok(_) => panic!("it started, and should not"),
            Err(said) => said,
        }
    }

    fn ready_or_not(&self, errors: Stdio) -> Result<Process, String> {
        let mut child = self.spawn(errors);
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
        output.read_line(&mut line).expect("its output can be read");
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ready", base_url, api_key] = words[..] else {
            if let Some(mut errors) = child.stderr.take() {
                errors.read_to_string(&mut line).expect("it is text");
            }
            let status = child.wait().expect("it ends");
            return Err(format!("{status}: {line}"));
        };
        let (base_url, api_key) = (base_url.to_owned(), api_key.to_owned());
        Ok(Process { input: child.stdin.take(), child, _output: output, base_url, api_key })
    }

    /// Starts it and kills it this much later, however far it has come.
    pub(crate) fn and_kill_after(&self, moment: Duration) {
        let mut child = self.spawn(Stdio::inherit());
        std::thread::sleep(moment);
        child.kill().expect("the process is ours");
        child.wait().expect("a killed process ends");
    }
}

/// A running service process.
pub(crate) struct Process {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    _output: BufReader<ChildStdout>,
    pub(crate) base_url: String,
    pub(crate) api_key: String,
}

impl Process {
    /// Ends the process at once, as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("a killed process ends");
    }

    /// Asks the process to end in order.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        let status = self.child.wait().expect("the process ends");
        assert!(status.success(), "the service did not end in order: {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports that are free now.
pub(crate) fn free_ports() -> [u16; 2] {
    let sockets = [0, 0].map(|port| std::net::TcpListener::bind(("127.0.0.1", port)).expect("a free port"));
    sockets.map(|socket| socket.local_addr().expect("it is bound").port())
}
