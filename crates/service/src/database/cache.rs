//! Caches of rows that every request reads. Writes invalidate them; those of other processes appear within `LIFETIME`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Result;
use crate::accounts::{Account, StoredKey};
use crate::catalog::{ModelPage, Published, Search};

const LIFETIME: Duration = Duration::from_secs(10);
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of cached catalog pages. A page of 100 models, each with a paragraph, has about 50 KiB.
const MAX_PAGES: usize = 500;

pub(super) struct Caches {
    pub(super) keys: Arc<Cache<(StoredKey, Account)>>,
    pub(super) models: Arc<Cache<Arc<Published>>>,
    pages: Arc<Cache<Arc<ModelPage>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CachedRows {
    Keys,
    Models,
}

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
    pub(super) async fn page<F>(&self, search: &Search, read: impl FnOnce() -> F) -> Result<ModelPage>
    where
        F: Future<Output = Result<ModelPage>>,
    {
        let Some(key) = search.cache_key() else { return read().await };
        let page = self.pages.get_or_read(&key, || async { Ok(Some(Arc::new(read().await?))) }).await?;
        Ok(page.map(Arc::unwrap_or_clone).unwrap_or_default())
    }

    /// Returns a guard that invalidates rows on drop. The write must own the guard: its caller may be dropped earlier.
    pub(super) fn invalidate(&self, rows: CachedRows) -> Box<dyn Send> {
        match rows {
            CachedRows::Keys => Box::new(self.keys.invalidate()),
            CachedRows::Models => Box::new((self.models.invalidate(), self.pages.invalidate())),
        }
    }
}

/// Cache of values by key. Keys without a row are not cached.
pub(crate) struct Cache<V> {
    state: Mutex<State<V>>,
    max_entries: usize,
}

struct State<V> {
    /// Counter of invalidations, by which a read that began before an invalidation is not cached.
    invalidations: u64,
    entries: HashMap<String, (Instant, V)>,
}

impl<V> Cache<V> {
    fn new(max_entries: usize) -> Self {
        Self { state: Mutex::new(State { invalidations: 0, entries: HashMap::new() }), max_entries }
    }
}

impl<V: Clone> Cache<V> {
    pub(crate) async fn get_or_read<F>(&self, key: &str, read: impl FnOnce() -> F) -> Result<Option<V>>
    where
        F: Future<Output = Result<Option<V>>>,
    {
        let invalidations = {
            let state = self.state.lock();
            match state.entries.get(key) {
                Some((since, value)) if since.elapsed() < LIFETIME => return Ok(Some(value.clone())),
                _ => state.invalidations,
            }
        };
        let value = read().await?;
        let mut state = self.state.lock();
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
    pub(crate) fn invalidate(self: &Arc<Self>) -> Invalidation<V> {
        Invalidation(Arc::clone(self))
    }
}

pub(crate) struct Invalidation<V>(Arc<Cache<V>>);

impl<V> Drop for Invalidation<V> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
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
        assert!(cache.state.lock().entries.len() <= 10);
        Ok(())
    }
}
