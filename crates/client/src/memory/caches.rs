//! Caches: bounded maps whose entries expire, and the latest durations of models.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inferstore_api::types::{Descriptor, ModelId, UploadFolder};
use tokio::time::Instant;

use super::lock;

/// How many entries a cache holds. A full one is emptied: an entry that is read again costs a request.
const MAX_ENTRIES: usize = 1_000;

/// How many durations of a model count.
const MAX_DURATIONS: usize = 20;

/// A bounded map whose entries expire.
#[derive(Debug)]
pub(crate) struct Cache<K, V>(Mutex<HashMap<K, (Instant, V)>>);

/// The declared inputs of models, by identifier.
pub(crate) type Declarations = Cache<String, DeclaredInputs>;

/// The declared inputs of a model, by name.
pub(crate) type DeclaredInputs = Arc<BTreeMap<String, Descriptor>>;

/// The URLs of contents that were uploaded for runs.
pub(crate) type Uploads = Cache<UploadKey, String>;

/// How long an upload is reused. Another program may delete it meanwhile.
pub(crate) const UPLOAD_TTL: Duration = Duration::from_secs(3_600);

/// What makes two uploads interchangeable: the same bytes, declared as the same type, for the same
/// readers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UploadKey {
    pub(crate) folder: UploadFolder,
    pub(crate) organization: Option<String>,
    pub(crate) mime: String,
    /// A hash of the content.
    pub(crate) content: u128,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// The value, unless it is older than its time to live.
    pub(crate) fn get(&self, key: &K, ttl: Duration) -> Option<V> {
        let entries = lock(&self.0);
        let (inserted, value) = entries.get(key)?;
        (inserted.elapsed() < ttl).then(|| value.clone())
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        let mut entries = lock(&self.0);
        if entries.len() >= MAX_ENTRIES {
            entries.clear();
        }
        entries.insert(key, (Instant::now(), value));
    }

    /// Drops an entry that may be outdated.
    pub(crate) fn forget(&self, key: &K) {
        lock(&self.0).remove(key);
    }

    /// Drops every entry with this value.
    pub(crate) fn forget_value<W: ?Sized>(&self, value: &W)
    where
        V: PartialEq<W>,
    {
        lock(&self.0).retain(|_, (_, known)| *known != *value);
    }
}

/// How long tasks of each model took lately, newest last.
#[derive(Debug, Default)]
pub(crate) struct Durations(Mutex<HashMap<ModelId, VecDeque<Duration>>>);

impl Durations {
    pub(crate) fn insert(&self, model: &ModelId, duration: Duration) {
        let mut durations = lock(&self.0);
        if durations.len() >= MAX_ENTRIES && !durations.contains_key(model) {
            durations.clear();
        }
        let samples = durations.entry(model.clone()).or_default();
        samples.push_back(duration);
        if samples.len() > MAX_DURATIONS {
            samples.pop_front();
        }
    }

    /// The remembered durations of a model, shortest first.
    pub(crate) fn of(&self, model: &ModelId) -> Vec<Duration> {
        let durations = lock(&self.0);
        let mut samples: Vec<_> = durations.get(model).into_iter().flatten().copied().collect();
        samples.sort_unstable();
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(300);

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_known_until_its_time_to_live_has_passed_or_it_is_forgotten() {
        let cache = Cache::default();
        assert_eq!(cache.get(&1, TTL), None);
        for key in 1..=3 {
            cache.insert(key, format!("value {key}"));
        }
        cache.forget(&2);
        cache.forget_value("value 3");
        tokio::time::advance(TTL - Duration::from_secs(1)).await;
        assert_eq!(cache.get(&1, TTL).as_deref(), Some("value 1"));
        assert_eq!(cache.get(&2, TTL).or(cache.get(&3, TTL)), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(&1, TTL), None);
    }

    #[test]
    fn a_cache_is_bounded() {
        let cache = Cache::default();
        for key in 0..=2 * MAX_ENTRIES {
            cache.insert(key, ());
        }
        assert!(lock(&cache.0).len() <= MAX_ENTRIES);
    }

    #[test]
    fn the_latest_durations_of_a_model_are_remembered_in_order_of_length() {
        let durations = Durations::default();
        let model = ModelId::from("m");
        for seconds in (1..=25).rev() {
            durations.insert(&model, Duration::from_secs(seconds));
        }
        let expected: Vec<_> = (1..=20).map(Duration::from_secs).collect();
        assert_eq!(durations.of(&model), expected);
        assert!(durations.of(&ModelId::from("n")).is_empty());
    }
}
