//! Coalesces reconciliations, which concurrent requests share: file URLs are public, so requests can pile up.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Error, Result};

const MIN_INTERVAL: Duration = Duration::from_millis(250);

/// Start and result of the latest reconciliation. The lock is held during a reconciliation.
#[derive(Default)]
pub(super) struct SharedListing(tokio::sync::Mutex<Option<(Instant, Result<()>)>>);

impl SharedListing {
    /// Waits for the current reconciliation, which may have missed an upload; then runs the next or shares another's.
    pub(super) async fn share(&self, listing: impl Future<Output = Result<()>>) -> Result<()> {
        let arrived = Instant::now();
        let mut latest = self.0.lock().await;
        if let Some((begun, ended)) = &*latest {
            if *begun > arrived {
                return ended.as_ref().copied().map_err(Error::again);
            }
            tokio::time::sleep_until(*begun + MIN_INTERVAL).await;
        }
        let begun = Instant::now();
        let ended = listing.await;
        *latest = Some((begun, ended.as_ref().copied().map_err(Error::again)));
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_that_came_during_a_look_share_the_failure_of_the_next_one() {
        let listings = SharedListing::default();
        let begun = AtomicU32::new(0);
        let request = || {
            listings.share(async {
                begun.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Err(Error::unavailable("looking for an object", "the store is away"))
            })
        };
        let ended = tokio::join!(request(), request(), request());
        for ended in [ended.0, ended.1, ended.2] {
            assert!(ended.is_err_and(|cause| cause.is_unavailable()));
        }
        assert_eq!(begun.into_inner(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_one_second_cause_a_few_looks_however_many_they_are() {
        let listings = SharedListing::default();
        let begun = AtomicU32::new(0);
        let request = async |number: u32| {
            tokio::time::sleep(Duration::from_millis(number.into())).await;
            let arrived = Instant::now();
            let listing = async {
                begun.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            listings.share(listing).await.is_ok() && arrived.elapsed() <= MIN_INTERVAL
        };
        let ended = futures_util::future::join_all((0..1_000).map(request)).await;
        assert!(ended.iter().all(|in_time| *in_time));
        assert_eq!(begun.into_inner(), 5);
    }
}
