//! The signals that end a command in order.

#[cfg(unix)]
use std::io;

#[cfg(unix)]
use futures_util::future::select_all;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use tokio::time::{Duration, Instant};

use crate::exit;
use crate::failure::{Failure, Result};

/// Interval within which a second signal is a duplicate of the first one.
const DUPLICATE_INTERVAL: Duration = Duration::from_millis(100);

/// Ctrl-C, SIGTERM and SIGHUP, received from `new` on: before that, a signal ends the process at once.
pub(crate) struct Signals(#[cfg(unix)] Vec<Signal>);

impl Signals {
    #[cfg(unix)]
    pub(crate) fn new() -> Result<Self> {
        // The caller may ignore it, as `nohup` does.
        let hangup = receives_hangup().then(SignalKind::hangup);
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()].into_iter().chain(hangup);
        let signals: io::Result<_> = kinds.map(signal).collect();
        signals.map(Self).map_err(|error| Failure::local_failure("signals cannot be received", error))
    }

    pub(crate) async fn next(&mut self) {
        self.next_is_ctrl_c().await;
    }

    /// Waits for a signal that is no duplicate of the last one: `timeout` sends SIGTERM to its child and to its group.
    pub(crate) async fn next_deliberate(&mut self) {
        let begun = Instant::now();
        while begun.elapsed() <= DUPLICATE_INTERVAL {
            self.next().await;
        }
    }

    /// Waits for the next one; true for Ctrl-C, which may be pressed again.
    #[cfg(unix)]
    pub(crate) async fn next_is_ctrl_c(&mut self) -> bool {
        let (_, index, _) = select_all(self.0.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
        index == 0
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> Result<Self> {
        Ok(Self())
    }

    #[cfg(not(unix))]
    pub(crate) async fn next_is_ctrl_c(&mut self) -> bool {
        tokio::signal::ctrl_c().await.is_ok()
    }
}

/// The result of a download, which removes the part of a file that it has when a signal ends it.
pub(crate) async fn interruptible<T>(download: impl Future<Output = Result<T>>) -> Result<T> {
    let mut signals = Signals::new()?;
    tokio::select! {
        biased;
        () = signals.next() => {
            let headline = "interrupted; what was downloaded in part is removed";
            Err(Failure::new(exit::FAILED, headline).with_hint("the same command starts it again"))
        }
        done = download => done,
    }
}

/// Returns true when SIGHUP ends this process; false where that cannot be read.
#[cfg(unix)]
fn receives_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP has number 1 and the lowest bit.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 0)
}
