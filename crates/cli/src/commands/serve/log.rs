//! Log of the service: to standard error, filtered, as text or JSON, and never blocking: a slow reader loses lines.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use clap::ValueEnum;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::failure::{Failure, Result};

pub(super) const FILTER_VARIABLE: &str = "INFERSTORE_LOG";

/// The number of lines that wait for a slow reader.
const MAX_PENDING_LINES: usize = 4_096;

/// Timeout of the pending log lines at the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// A writer that hands lines to a thread, and drops them when too many are pending.
#[derive(Clone)]
pub(super) struct Log {
    messages: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    pub(super) fn start(filter: Option<&str>, is_verbose: bool, format: LogFormat) -> Result<Self> {
        let targets = targets(filter, is_verbose)?;
        let log = Self::to(io::stderr());
        let writer = log.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let layer = match format {
            LogFormat::Text => layer.boxed(),
            LogFormat::Json => layer.json().flatten_event(true).with_span_list(false).boxed(),
        };
        // A second service in one process logs to where the first one does.
        let _ = tracing_subscriber::registry().with(layer.with_filter(targets)).try_init();
        Ok(log)
    }

    fn to(output: impl Write + Send + 'static) -> Self {
        let (messages, receiver) = sync_channel(MAX_PENDING_LINES);
        let dropped = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&dropped);
        std::thread::spawn(move || write_lines(&receiver, &counter, output));
        Self { messages, dropped }
    }

    /// Waits until the lines so far are written, unless standard error is not read.
    pub(super) fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        if self.messages.try_send(Message::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

fn targets(filter: Option<&str>, is_verbose: bool) -> Result<Targets> {
    // A target names everything that begins like it: all crates of ours.
    let default = if is_verbose { "warn,inferstore=debug" } else { "warn,inferstore=info" };
    let filter = filter.unwrap_or(default);
    let refused = |problem: String| {
        Failure::usage(format!("{FILTER_VARIABLE} is not a filter: {problem}"))
            .with_hint("for example `warn` or `info,inferstore_service=debug`")
    };
    // Such a word would be the name of a module, and turn the log of all others off.
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let mut words = filter.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains('='));
    if let Some(word) = words.find(|word| !is_level(word) && !word.starts_with("inferstore")) {
        let problem = format!("{word:?} is no level, such as error, warn, info, debug or trace");
        return Err(refused(problem));
    }
    filter.parse().map_err(|error: ParseError| refused(error.to_string()))
}

fn write_lines(messages: &Receiver<Message>, dropped: &AtomicU64, mut output: impl Write) {
    for message in messages {
        // A closed output is no reason to end.
        match message {
            Message::Line(line) => {
                let _ = output.write_all(&line);
                let lost = dropped.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    let why = "standard error was not read in time";
                    let _ = writeln!(output, "{lost} lines of the log were dropped: {why}");
                }
            }
            Message::Flush(done) => {
                let _ = output.flush();
                let _ = done.try_send(());
            }
        }
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.messages.try_send(Message::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// An output that takes nothing until it is released.
    struct Blocked(Receiver<()>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_unread_log_drops_lines_and_blocks_neither_writers_nor_the_end() {
        let (release, blocked) = channel();
        let mut log = Log::to(Blocked(blocked));
        for _ in 0..2 * MAX_PENDING_LINES {
            assert!(log.write_all(b"a line\n").is_ok());
        }
        assert!(log.dropped.load(Ordering::Relaxed) > 0);
        Log::flush(&log);
        drop(release);
    }

    #[test]
    fn verbose_is_debug_of_our_crates_alone_and_the_variable_replaces_both() -> Result {
        let verbose = targets(None, true)?;
        assert!(verbose.would_enable("inferstore_service::api", &tracing::Level::DEBUG));
        assert!(!verbose.would_enable("hyper::proto", &tracing::Level::INFO));
        let filtered = targets(Some("error"), true)?;
        assert!(!filtered.would_enable("inferstore_service::api", &tracing::Level::WARN));
        for wrong in ["inferstore=loud", "warning", "inof", "info;warn", "debug inferstore"] {
            assert!(targets(Some(wrong), false).is_err(), "{wrong}");
        }
        assert!(targets(Some("OFF, inferstore_service, hyper=debug"), false).is_ok());
        Ok(())
    }
}
