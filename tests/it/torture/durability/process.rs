//! A service in a process of its own that can be killed without warning.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A running service process.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    pub(crate) base_url: String,
    pub(crate) api_key: String,
}

impl Process {
    /// Starts the service on a folder and two ports, and waits until it is ready.
    pub(crate) fn start(folder: &Path, ports: [u16; 2]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_service-under-test"))
            .arg(folder)
            .args(ports.map(|port| port.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the service under test is built with the tests");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is piped");
        BufReader::new(output).read_line(&mut line).expect("it says that it is ready");
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ready", base_url, api_key] = words[..] else {
            panic!("the service did not start: it said {line:?}");
        };
        let (base_url, api_key) = (base_url.to_owned(), api_key.to_owned());
        Self { input: child.stdin.take(), child, base_url, api_key }
    }

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
