//! Looks for the uploads to one name, each shared by the requests that came before it began: anyone may open the URL of
//! a file, and as often as they like.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use crate::{Error, Result};

/// The bucket and the key of a file.
type Name = (String, String);

/// When the latest look for a file began, and how it ended. Locked by the look in progress.
type Latest = tokio::sync::Mutex<Option<(Instant, Result<()>)>>;

/// The looks in progress.
#[derive(Default)]
pub(super) struct SharedLooks(Mutex<HashMap<Name, Weak<Latest>>>);

impl SharedLooks {
    /// Waits for the look in progress, which may have missed what was uploaded since it began, and then for the
    /// next one, which is this one unless another request was first.
    pub(super) async fn share(&self, name: Name, look: impl Future<Output = Result<()>>) -> Result<()> {
        let arrived = Instant::now();
        let latest = self.latest(name);
        let mut latest = latest.lock().await;
        if let Some((begun, ended)) = &*latest
            && *begun >= arrived
        {
            return ended.as_ref().copied().map_err(Error::again);
        }
        let begun = Instant::now();
        let ended = look.await;
        *latest = Some((begun, ended.as_ref().copied().map_err(Error::again)));
        ended
    }

    fn latest(&self, name: Name) -> Arc<Latest> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(latest) = all.get(&name).and_then(Weak::upgrade) {
            return latest;
        }
        all.retain(|_, latest| latest.strong_count() > 0);
        let latest = Arc::default();
        all.insert(name, Arc::downgrade(&latest));
        latest
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn requests_that_came_during_a_look_share_the_failure_of_the_next_one() {
        let looks = SharedLooks::default();
        let begun = AtomicU32::new(0);
        let request = || {
            looks.share(Name::default(), async {
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
}
