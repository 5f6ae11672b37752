//! A server in a process of its own, for as long as it is measured.

use std::io::{self, BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::peak;

/// How long a server may take to start, and to end by itself.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process that serves. It ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// What it said of itself when it was ready, word by word.
    pub words: Vec<String>,
    /// How long it took until it served.
    pub start: Duration,
}

impl Server {
    /// Starts a program that says `ready` and further words on a line of its standard output, and that ends
    /// when its standard input closes.
    ///
    /// # Errors
    /// When it cannot be run, or ends without a word.
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

    /// Starts a program that listens on this port of loopback when it is ready.
    ///
    /// # Errors
    /// When it cannot be run, or ends before.
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

    /// The most memory that it ever had, in MiB.
    ///
    /// # Errors
    /// When it has ended.
    pub fn peak(&self) -> io::Result<f64> {
        peak(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that reads its standard input ends in order; the others have nothing to lose.
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

/// A free port of loopback.
///
/// # Errors
/// When there is none.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
