//! Log of a run: the end of the standard error of its program, which the node sends to the service while the model runs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::service::{Lease, Registered, Service};

const MAX_TEXT: usize = 64 << 10;
const MAX_TAIL: usize = 4 << 10;
const INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of the end of the standard error, after a program exited: its children may hold the pipe open.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// End of the standard error of a program. Clones share one buffer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Buffer>>);

#[derive(Debug, Default)]
struct Buffer {
    text: String,
    /// Number of bytes before `text`.
    dropped: u64,
    /// Position at which the run has begun: what stands before belongs to the task of somebody else.
    begin: u64,
    /// Beginning of a character whose other bytes have not been read.
    incomplete: Vec<u8>,
}

impl Buffer {
    fn end(&self) -> u64 {
        self.dropped + self.text.len() as u64
    }

    /// Returns what is left of the text of the run, and the number of its bytes before that.
    fn of_run(&self) -> (&str, u64) {
        let first = self.begin.max(self.dropped);
        let text = usize::try_from(first - self.dropped).ok().and_then(|first| self.text.get(first..));
        (text.unwrap_or_default(), first - self.begin)
    }

    fn push(&mut self, read: &[u8]) {
        let mut bytes = std::mem::take(&mut self.incomplete);
        bytes.extend_from_slice(read);
        let mut decoded = 0;
        for part in bytes.utf8_chunks() {
            self.text.push_str(part.valid());
            decoded += part.valid().len() + part.invalid().len();
            if decoded == bytes.len() {
                self.incomplete = part.invalid().to_vec();
            } else {
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        let mut surplus = self.text.len().saturating_sub(MAX_TEXT);
        while !self.text.is_char_boundary(surplus) {
            surplus += 1;
        }
        self.text.drain(..surplus);
        self.dropped += surplus as u64;
    }
}

impl Tail {
    pub(crate) async fn read(self, mut stderr: ChildStderr) {
        let mut chunk = vec![0; MAX_TAIL];
        while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
            self.0.lock().push(&chunk[..read]);
        }
    }

    pub(crate) fn begin_run(&self) {
        let mut buffer = self.0.lock();
        buffer.begin = buffer.end();
    }

    /// Adds the last line of the run to a message, and returns the end of its text too.
    pub(crate) fn explain(&self, what: String) -> (String, String) {
        let buffer = self.0.lock();
        let (text, _) = buffer.of_run();
        let mut begin = text.len().saturating_sub(MAX_TAIL);
        while !text.is_char_boundary(begin) {
            begin += 1;
        }
        let text = text[begin..].trim().to_owned();
        match text.lines().last() {
            Some(line) => (format!("{what}: {line}"), text),
            None => (what, text),
        }
    }
}

/// Waits until the rest of the standard error of an ended program is read.
pub(crate) async fn read_rest(reading: &mut JoinHandle<()>) {
    // A completed join handle must not be awaited again.
    if !reading.is_finished() && timeout(END_TIMEOUT, &mut *reading).await.is_err() {
        reading.abort();
    }
}

#[derive(Debug, Default)]
pub(crate) struct RunLog {
    following: Mutex<Option<Following>>,
    /// Held while a log is sent, so that an older one does not replace a newer one.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone)]
struct Following {
    tail: Tail,
    sent: u64,
}

impl RunLog {
    pub(crate) fn follow(&self, tail: &Tail) {
        let sent = tail.0.lock().end();
        *self.following.lock() = Some(Following { tail: tail.clone(), sent });
    }

    fn unsent(&self) -> Option<(Value, u64)> {
        let Following { tail, sent } = self.following.lock().clone()?;
        let buffer = tail.0.lock();
        let end = buffer.end();
        let (text, offset) = buffer.of_run();
        (end > sent).then(|| (json!({ "text": text, "offset": offset }), end))
    }

    /// Sends the log if the service does not have all of it. A failure is of no consequence for the run.
    pub(crate) async fn send(&self, service: &Service, registered: &Registered, lease: &Lease) {
        let _sending = self.sending.lock().await;
        let Some((log, end)) = self.unsent() else { return };
        match service.put_log(&registered.node, lease, &log).await {
            Ok(()) => {
                if let Some(following) = &mut *self.following.lock() {
                    following.sent = end;
                }
            }
            Err(refusal) => tracing::debug!(task = lease.task, ?refusal, "the log cannot be sent"),
        }
    }

    pub(crate) async fn keep_sending(&self, service: &Service, registered: &Registered, lease: &Lease) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.send(service, registered, lease).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_the_end_of_what_was_written_since_the_run_has_begun() {
        let tail = Tail::default();
        tail.0.lock().push(b"of an earlier run\n");
        let log = RunLog::default();
        assert!(log.unsent().is_none());
        tail.begin_run();
        log.follow(&tail);
        assert!(log.unsent().is_none(), "nothing is new");
        tail.0.lock().push(b"caf\xc3");
        tail.0.lock().push(b"\xa9 \xff!");
        let (sent, end) = log.unsent().unwrap_or_default();
        assert_eq!(sent, json!({ "text": "caf\u{e9} \u{fffd}!", "offset": 0 }));
        if let Some(following) = &mut *log.following.lock() {
            following.sent = end;
        }
        assert!(log.unsent().is_none());
        tail.0.lock().push("\u{e9}".repeat(MAX_TEXT / 2).as_bytes());
        let (sent, _) = log.unsent().unwrap_or_default();
        assert_eq!(sent["text"].as_str().map(str::len), Some(MAX_TEXT));
        assert_eq!(sent["offset"], 10);
        let (message, end) = tail.explain("it failed".to_owned());
        assert!(message.starts_with("it failed: \u{e9}") && end.len() == MAX_TAIL);
    }
}
