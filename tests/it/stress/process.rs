//! Service in a process of its own, which can be killed, kept from writing, and observed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

#[derive(Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) ports: [u16; 2],
    /// Shell command that starts the service: `"$@"`, or a wrapper around it.
    pub(crate) by: &'a str,
    pub(crate) settings: &'a [String],
}

pub(crate) const PLAIN: &str = r#"exec "$@""#;

impl<'a> Start<'a> {
    pub(crate) fn plain(folder: &'a Path, ports: [u16; 2]) -> Self {
        Self { folder, ports, by: PLAIN, settings: &[] }
    }

    fn spawn(&self, errors: Stdio) -> Child {
        Command::new("sh")
            .args(["-c", self.by, "sh", env!("CARGO_BIN_EXE_service-under-test")])
            .arg(self.folder)
            .args(self.ports.map(|port| port.to_string()))
            .args(self.settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the service under test is built with the tests")
    }

    pub(crate) fn ready(&self) -> Process {
        self.ready_or_not().unwrap_or_else(|said| panic!("the service did not start: {said}"))
    }

    pub(crate) fn failure(&self) -> String {
        match self.ready_or_not() {
            Ok(_) => panic!("it started, and should not"),
            Err(said) => said,
        }
    }

    fn ready_or_not(&self) -> Result<Process, String> {
        let mut child = self.spawn(Stdio::piped());
        let complaints = Complaints::of(&mut child);
        let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("its output can be read");
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ready", base_url, api_key, further_keys @ ..] = &words[..] else {
            let status = child.wait().expect("it ends");
            return Err(format!("{status}: {line}{}", complaints.all()));
        };
        Ok(Process {
            base_url: (*base_url).to_owned(),
            api_key: (*api_key).to_owned(),
            further_keys: further_keys.iter().map(|key| (*key).to_owned()).collect(),
            input: child.stdin.take(),
            _output: output,
            complaints: Some(complaints),
            child,
        })
    }

    pub(crate) fn and_kill_after(&self, moment: Duration) {
        let mut child = self.spawn(Stdio::inherit());
        std::thread::sleep(moment);
        child.kill().expect("the process is ours");
        child.wait().expect("a killed process ends");
    }
}

pub(crate) struct Process {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    _output: BufReader<ChildStdout>,
    complaints: Option<Complaints>,
    pub(crate) base_url: String,
    pub(crate) api_key: String,
    pub(crate) further_keys: Vec<String>,
}

impl Process {
    pub(crate) fn complaints(&self) -> String {
        self.complaints.as_ref().map(Complaints::so_far).unwrap_or_default()
    }

    pub(crate) fn peak_memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells the peak");
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kibibytes * 1024
    }

    pub(crate) fn handles(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("the process runs").count()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("a killed process ends");
    }

    /// Shuts the process down gracefully, and asserts that its standard error is empty.
    pub(crate) fn end(self) {
        assert_eq!(self.end_having_complained(), "", "the service complained");
    }

    pub(crate) fn end_having_complained(mut self) -> String {
        drop(self.input.take());
        let status = self.child.wait().expect("the process ends");
        let complaints = self.complaints.take().map(Complaints::all).unwrap_or_default();
        assert!(status.success(), "the service did not end in order: {status}, {complaints}");
        complaints
    }
}

/// Standard error of a process. A pipe, because a limit on file sizes applies to every process that writes to
/// a file.
struct Complaints {
    text: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Complaints {
    fn of(child: &mut Child) -> Self {
        let mut pipe = BufReader::new(child.stderr.take().expect("its errors are piped"));
        let text = Arc::<Mutex<String>>::default();
        let kept = Arc::clone(&text);
        let reader = spawn(move || {
            let mut line = String::new();
            while pipe.read_line(&mut line).is_ok_and(|length| length > 0) {
                kept.lock().expect("no thread panicked").push_str(&std::mem::take(&mut line));
            }
        });
        Self { text, reader }
    }

    fn so_far(&self) -> String {
        self.text.lock().expect("no thread panicked").clone()
    }

    fn all(self) -> String {
        self.reader.join().expect("the reader does not panic");
        std::mem::take(&mut *self.text.lock().expect("no thread panicked"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns free ports below the ephemeral range, whose ports a client could take before the service listens.
pub(crate) fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    const FIRST: u32 = 12_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97);
    [0; COUNT].map(|_| {
        loop {
            let tried = begin.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
            let port = u16::try_from(FIRST + tried % 20_000).expect("it is below 32,000");
            if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
    })
}
