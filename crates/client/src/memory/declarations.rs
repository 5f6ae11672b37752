//! Cache of what models declare as their inputs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inferstore_api::types::Descriptor;
use tokio::time::Instant;

use super::lock;

/// How many models are remembered.
const MAX_MODELS: usize = 1_000;

/// The declared inputs of a model, by name.
pub(crate) type DeclaredInputs = Arc<BTreeMap<String, Descriptor>>;

/// Cache of declared inputs, by model.
#[derive(Debug, Default)]
pub(crate) struct Declarations(Mutex<HashMap<String, (Instant, DeclaredInputs)>>);

impl Declarations {
    /// What was read of a model within the time to live.
    pub(crate) fn get(&self, model: &str, ttl: Duration) -> Option<DeclaredInputs> {
        let cache = lock(&self.0);
        let (read, declared) = cache.get(model)?;
        (read.elapsed() < ttl).then(|| Arc::clone(declared))
    }

    pub(crate) fn insert(&self, model: &str, declared: &DeclaredInputs) {
        let mut cache = lock(&self.0);
        if cache.len() >= MAX_MODELS {
            cache.clear();
        }
        cache.insert(model.to_owned(), (Instant::now(), Arc::clone(declared)));
    }

    /// Drops what may be outdated.
    pub(crate) fn forget(&self, model: &str) {
        lock(&self.0).remove(model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_declaration_is_known_until_its_time_to_live_has_passed() {
        let cache = Declarations::default();
        let ttl = Duration::from_secs(300);
        assert!(cache.get("m", ttl).is_none());
        cache.insert("m", &DeclaredInputs::default());
        tokio::time::advance(ttl - Duration::from_secs(1)).await;
        assert!(cache.get("m", ttl).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(cache.get("m", ttl).is_none());
        cache.insert("m", &DeclaredInputs::default());
        cache.forget("m");
        assert!(cache.get("m", ttl).is_none());
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = Declarations::default();
        for model in 0..=2 * MAX_MODELS {
            cache.insert(&model.to_string(), &DeclaredInputs::default());
        }
        assert!(lock(&cache.0).len() <= MAX_MODELS);
    }
}
