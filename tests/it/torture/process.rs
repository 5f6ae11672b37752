//! A service in a process of its own, that can be killed without warning and looked at from outside.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A running service process.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    /// What the process has written to its standard error, where panics are told.
    complaints: File,
    pub(crate) base_url: String,
    pub(crate) api_key: String,
    /// The key of a second account and the key of a node, where the settings ask for nodes.
    pub(crate) further_keys: Vec<String>,
}

impl Process {
    /// Starts the service on a folder and two ports, and waits until it is ready. The settings are told by
    /// the program.
    pub(crate) fn start(folder: &Path, ports: [u16; 2], settings: &[String]) -> Self {
        let complaints = tempfile::tempfile().expect("a temporary file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_service-under-test"))
            .arg(folder)
            .args(ports.map(|port| port.to_string()))
            .args(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints.try_clone().expect("a second handle"))
            .spawn()
            .expect("the service under test is built with the tests");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is piped");
        BufReader::new(output).read_line(&mut line).expect("it says that it is ready");
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ready", base_url, api_key, further_keys @ ..] = &words[..] else {
            panic!("the service did not start: it said {line:?} and {:?}", read(complaints));
        };
        Self {
            input: child.stdin.take(),
            child,
            complaints,
            base_url: (*base_url).to_owned(),
            api_key: (*api_key).to_owned(),
            further_keys: further_keys.iter().map(|key| (*key).to_owned()).collect(),
        }
    }

    /// How much memory the process has held at most, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells the peak");
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kibibytes * 1024
    }

    /// How many files and sockets the process has open.
    pub(crate) fn handles(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("the process runs").count()
    }

    /// Ends the process at once, as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("a killed process ends");
    }

    /// Asks the process to end in order. It may not have panicked meanwhile.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        let status = self.child.wait().expect("the process ends");
        let complaints = read(self.complaints.try_clone().expect("a second handle"));
        assert!(status.success(), "the service did not end in order: {status}, {complaints}");
        assert_eq!(complaints, "", "the service complained");
    }
}

fn read(mut file: File) -> String {
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("what was written can be read");
    text
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// So many ports that are free now.
pub(crate) fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let sockets =
        [0; COUNT].map(|port| std::net::TcpListener::bind(("127.0.0.1", port)).expect("a free port"));
    sockets.map(|socket| socket.local_addr().expect("it is bound").port())
}
