//! The clock of processes that share a database: all of them follow the clock of the database, so that none takes a
//! lease for expired that another has just prolonged, and times in one history are in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Result;
use crate::clock::{Clock, Moment};
use crate::database::Database;
use crate::lifecycle::app::App;

/// How often the clock is corrected. A process that was suspended shows a wrong time for so long at most.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long a look at the clock may take to be exact enough.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(200);

/// Returns the clock of the database, where there is one, or else that of the system.
pub(super) async fn start(database: &dyn Database) -> Result<Clock> {
    Ok(database.time().await?.map(Clock::following).unwrap_or_default())
}

/// Corrects the clock of a shared database again and again.
pub(super) async fn follow(app: Arc<App>) {
    while app.database.is_shared() {
        match look(&*app.database).await {
            Ok(Some((shown, at))) => app.clock.correct(shown, at),
            Ok(None) => {}
            Err(cause) => tracing::debug!(%cause, "the clock of the database cannot be read"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Corrects the clock of a shared database now: it is late by the time of the response, at most until the next look.
pub(crate) async fn correct(app: &App) -> Result<()> {
    if let Some(shown) = app.database.time().await? {
        app.clock.correct(shown, Instant::now());
    }
    Ok(())
}

/// Reads the clock, and when it was read: half-way between question and response.
async fn look(database: &dyn Database) -> Result<Option<(Moment, Instant)>> {
    let asked = Instant::now();
    let shown = database.time().await?;
    let round_trip = asked.elapsed();
    Ok(shown.filter(|_| round_trip < MAX_ROUND_TRIP).map(|shown| (shown, asked + round_trip / 2)))
}
