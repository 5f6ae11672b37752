//! Caches of rows that every request reads. A write of this process invalidates them; what another process
//! writes is seen when an entry expires.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Result;
use crate::accounts::{Account, KeptKey};
use crate::catalog::{ModelPage, Published, Search};

/// How long an entry is used without a look at the database.
const LIFETIME: Duration = Duration::from_secs(10);
/// How many keys and how many models are kept.
const MAX_ENTRIES: usize = 10_000;
/// How many pages of the catalog are kept. One of 100 models, each with a paragraph, has some 50 KiB.
const MAX_PAGES: usize = 500;

/// What every request reads.
pub(super) struct Caches {
    pub(super) keys: Arc<Cache<(KeptKey, Account)>>,
    pub(super) models: Arc<Cache<Arc<Published>>>,
    pages: Arc<Cache<Arc<ModelPage>>>,
}

/// Invalidates what is known of models when it is dropped.
type ModelsInvalidation = (Invalidation<Arc<Published>>, Invalidation<Arc<ModelPage>>);

impl Default for Caches {
    fn default() -> Self {
        Self {
            keys: Arc::new(Cache::new(MAX_ENTRIES)),
            models: Arc::new(Cache::new(MAX_ENTRIES)),
            pages: Arc::new(Cache::new(MAX_PAGES)),
        }
    }
}

impl Caches {
    /// The page of this search, from the cache or else from the database.
    pub(super) async fn page<F>(&self, search: &Search, read: impl FnOnce() -> F) -> Result<ModelPage>
    where
        F: Future<Output = Result<ModelPage>>,
    {
        let Some(key) = search.cache_key() else { return read().await };
        let page = self.pages.get_or_read(&key, || async { Ok(Some(Arc::new(read().await?))) }).await?;
        Ok(page.map(Arc::unwrap_or_clone).unwrap_or_default())
    }

    pub(super) fn invalidate_models(&self) -> ModelsInvalidation {
        (self.models.invalidate(), self.pages.invalidate())
    }
}

/// Values by their key. Keys that are not in the database take no place.
pub(crate) struct Cache<V> {
    state: Mutex<State<V>>,
    max_entries: usize,
}

struct State<V> {
    /// Counts invalidations, so that a read that began before one is not kept after it.
    invalidations: u64,
    entries: HashMap<String, (Instant, V)>,
}

impl<V> Cache<V> {
    fn new(max_entries: usize) -> Self {
        Self { state: Mutex::new(State { invalidations: 0, entries: HashMap::new() }), max_entries }
    }
}

impl<V: Clone> Cache<V> {
    /// Returns the value of the key, from the cache or else from the database.
    pub(crate) async fn get_or_read<F>(&self, key: &str, read: impl FnOnce() -> F) -> Result<Option<V>>
    where
        F: Future<Output = Result<Option<V>>>,
    {
        let invalidations = {
            let state = self.lock();
            match state.entries.get(key) {
                Some((since, value)) if since.elapsed() < LIFETIME => return Ok(Some(value.clone())),
                _ => state.invalidations,
            }
        };
        let value = read().await?;
        let mut state = self.lock();
        match &value {
            Some(value) if state.invalidations == invalidations => {
                if state.entries.len() >= self.max_entries {
                    state.entries.clear();
                }
                state.entries.insert(key.to_owned(), (Instant::now(), value.clone()));
            }
            _ => {}
        }
        Ok(value)
    }
}

impl<V> Cache<V> {
    /// Invalidates all entries when the guard is dropped, after a write. The write itself has to own it: the caller
    /// may go away before.
    pub(crate) fn invalidate(self: &Arc<Self>) -> Invalidation<V> {
        Invalidation(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Invalidates a cache when it is dropped.
pub(crate) struct Invalidation<V>(Arc<Cache<V>>);

impl<V> Drop for Invalidation<V> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.invalidations += 1;
        state.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(cache: &Cache<u32>, stored: u32) -> Result<Option<u32>> {
        cache.get_or_read("key", || async move { Ok(Some(stored)) }).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_used_until_it_expires_or_is_invalidated() -> Result<()> {
        let cache = Arc::new(Cache::new(10));
        assert_eq!(read(&cache, 1).await?, Some(1));
        assert_eq!(cache.get_or_read("other", || async { Ok(Some(7)) }).await?, Some(7));
        assert_eq!(read(&cache, 2).await?, Some(1));
        tokio::time::advance(LIFETIME).await;
        assert_eq!(read(&cache, 3).await?, Some(3));
        drop(cache.invalidate());
        assert_eq!(read(&cache, 4).await?, Some(4));
        Ok(())
    }

    #[tokio::test]
    async fn a_read_that_began_before_a_write_is_not_kept() -> Result<()> {
        let cache = Arc::new(Cache::new(10));
        let begun_before = cache.get_or_read("key", || async {
            drop(cache.invalidate());
            Ok(Some(1))
        });
        assert_eq!(begun_before.await?, Some(1));
        assert_eq!(read(&cache, 2).await?, Some(2));
        Ok(())
    }

    #[tokio::test]
    async fn what_is_not_there_is_read_again_and_the_cache_stays_small() -> Result<()> {
        let cache = Cache::<u32>::new(10);
        for number in 0..=10 {
            let key = number.to_string();
            assert_eq!(cache.get_or_read(&key, || async { Ok(None) }).await?, None);
            cache.get_or_read(&key, || async { Ok(Some(1)) }).await?;
        }
        assert!(cache.lock().entries.len() <= 10);
        Ok(())
    }
}
