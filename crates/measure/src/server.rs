//! Server in a process of its own while it is measured.

use std::io::{self, BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::peak;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Server process. Dropping it ends the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Words of its ready line.
    pub words: Vec<String>,
    /// Time from start to ready.
    pub start: Duration,
}

impl Server {
    /// Starts a program that prints `ready` and further words when it serves, and exits when its input closes.
    pub fn announced(command: &mut Command) -> io::Result<Self> {
        let begun = Instant::now();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let server = Self { child, words, start: begun.elapsed() };
        match server.words.first() {
            Some(word) if word == "ready" => Ok(server),
            _ => Err(io::Error::other(format!("{command:?} did not get ready"))),
        }
    }

    /// Starts a program that listens on this loopback port when it is ready.
    pub fn listening(command: &mut Command, port: u16) -> io::Result<Self> {
        let begun = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let mut server = Self { child, words: Vec::new(), start: Duration::ZERO };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("{command:?} ended with {status}")));
            }
            if begun.elapsed() > TIMEOUT {
                return Err(io::Error::other(format!("{command:?} does not listen on port {port}")));
            }
            thread::sleep(Duration::from_millis(1));
        }
        server.start = begun.elapsed();
        Ok(server)
    }

    /// Returns the peak memory in MiB.
    pub fn peak(&self) -> io::Result<f64> {
        peak(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that reads its standard input ends gracefully; the others have no state to lose, and are killed.
        if self.child.stdin.take().is_some() {
            let begun = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < TIMEOUT {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a free loopback port.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
