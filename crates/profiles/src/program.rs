//! Runs the programs that print, store and remove keys, with a timeout and an output limit.

use std::io::{Read, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{iter, thread};

use inferstore::printable;

/// Timeout of a program, including a person who unlocks a keyring.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Limit on the output of a program, in bytes.
const MAX_OUTPUT: usize = 64 * 1024;

pub(crate) fn printed_key(command: &[String], timeout: Duration) -> Result<String, String> {
    let printed = run_program(command, "", timeout)?;
    match printed.lines().next().unwrap_or_default().trim() {
        "" => Err(format!("{} printed no key", command.first().map_or("", String::as_str))),
        key => Ok(key.to_owned()),
    }
}

pub(crate) fn run_program(command: &[String], input: &str, timeout: Duration) -> Result<String, String> {
    let (program, arguments) = command.split_first().ok_or("it names no program")?;
    let mut child = Command::new(program);
    child.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().map_err(|error| format!("{program} does not start: {error}"))?;
    let output = spawn_reader(child.stdout.take());
    let message = spawn_reader(child.stderr.take());
    // If the program exits without reading its input, its exit status decides.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let until = Instant::now() + timeout;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if Instant::now() >= until {
            // The program may have exited already.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{program} has not ended for {} seconds", timeout.as_secs()));
        }
        thread::sleep(Duration::from_millis(2));
    };
    if status.success() {
        return Ok(collect(&output));
    }
    Err(format!("{program} has failed ({status}) {:.200}", printable(&collect(&message))))
}

/// Reads a stream in a thread: a full pipe would block the program.
fn spawn_reader(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut stream = stream?;
        let mut chunk = vec![0; 4 * 1024];
        let mut kept = 0;
        while let Ok(length @ 1..) = stream.read(&mut chunk) {
            if kept < MAX_OUTPUT {
                kept += length;
                sender.send(chunk[..length].to_vec()).ok()?;
            }
        }
        Some(())
    });
    receiver
}

/// Returns the output after the program has exited. A child process may still hold the pipe open.
fn collect(chunks: &Receiver<Vec<u8>>) -> String {
    let until = Instant::now() + Duration::from_secs(1);
    let next = || chunks.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    let bytes: Vec<u8> = iter::from_fn(next).flatten().collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_a_command_prints_or_the_error_says_why_there_is_none() {
        let printed = |script: &str| {
            let command = ["sh", "-c", script].map(str::to_owned);
            printed_key(
                &command,
                Duration::from_millis(if script.contains("exec sleep") { 20 } else { 20_000 }),
            )
        };
        assert_eq!(printed("echo ' THE-KEY '; echo of mine"), Ok("THE-KEY".to_owned()));
        let begun = Instant::now();
        assert_eq!(printed("sleep 60 & echo THE-KEY"), Ok("THE-KEY".to_owned()), "an agent stays behind");
        let much = "yes | head -c 200000 >&2; echo THE-KEY; yes | head -c 200000";
        assert_eq!(printed(much), Ok("THE-KEY".to_owned()), "a pipe holds less");
        assert!(begun.elapsed() < Duration::from_secs(30));
        for (script, problem) in [
            ("exit 0", "sh printed no key"),
            ("printf 'it is \\033[31mlocked' >&2; exit 3", "(exit status: 3) it is [31mlocked"),
            ("printf 'it \\342\\200\\256\\342\\200\\217\\330\\234is' >&2; exit 3", "(exit status: 3) it is"),
            ("exec >&-; exec sleep 600", "sh has not ended"),
        ] {
            let result = printed(script);
            assert!(matches!(&result, Err(found) if found.contains(problem)), "{result:?}");
        }
        let nowhere = ["/nowhere/pass".to_owned()];
        for command in [&nowhere[..], &[]] {
            assert!(printed_key(command, TIMEOUT).is_err());
        }
    }
}
