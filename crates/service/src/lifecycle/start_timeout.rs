//! Start timeout: waits for external engines, such as a restarting database or bucket.

use std::time::{Duration, Instant};

use crate::Result;

const RETRY_INTERVAL: Duration = Duration::from_secs(2);

pub(super) struct StartTimeout(Instant);

impl StartTimeout {
    pub(super) fn new(timeout: Duration) -> Self {
        Self(Instant::now() + timeout)
    }

    pub(super) async fn outlast<T, F>(&self, attempt: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        loop {
            match attempt().await {
                Err(cause) if cause.is_unavailable() && Instant::now() < self.0 => {
                    tracing::warn!(%cause, "the start waits");
                    let until = (Instant::now() + RETRY_INTERVAL).min(self.0);
                    tokio::time::sleep_until(until.into()).await;
                }
                done => return done,
            }
        }
    }
}
