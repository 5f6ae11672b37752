//! Shared clock of processes over one database: no lease expires early, and the times in one history are in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Result;
use crate::clock::{Clock, Moment};
use crate::database::Database;

/// Interval of clock corrections, and the longest time for which a process shows a wrong time after a suspension.
const INTERVAL: Duration = Duration::from_secs(2);

/// Maximum round trip of an accurate reading of the database's clock.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(200);

pub(crate) async fn start(database: &dyn Database) -> Result<Clock> {
    Ok(database.time().await?.map(Clock::following).unwrap_or_default())
}

pub(crate) async fn follow(database: Arc<dyn Database>, clock: Clock) {
    while database.is_shared() {
        match look(&*database).await {
            Ok(Some((shown, at))) => clock.correct(shown, at),
            Ok(None) => {}
            Err(cause) => tracing::debug!(%cause, "the clock of the database cannot be read"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Corrects the clock of a shared database now, late by the latency of the response until the next correction.
pub(crate) async fn correct(database: &dyn Database, clock: &Clock) -> Result<()> {
    if let Some(shown) = database.time().await? {
        clock.correct(shown, Instant::now());
    }
    Ok(())
}

async fn look(database: &dyn Database) -> Result<Option<(Moment, Instant)>> {
    let asked = Instant::now();
    let shown = database.time().await?;
    let round_trip = asked.elapsed();
    Ok(shown.filter(|_| round_trip < MAX_ROUND_TRIP).map(|shown| (shown, asked + round_trip / 2)))
}
