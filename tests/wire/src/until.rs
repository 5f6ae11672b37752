//! Bounded waiting for a condition.

use std::time::{Duration, Instant};

/// Maximum wait, by the real clock: a busy machine needs much less.
const LIMIT: Duration = Duration::from_mins(1);

/// Waits until a condition holds, checked every few milliseconds; panics after a minute.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < LIMIT, "this was waited for in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
