//! Cache of uploads: the URL of each content that was uploaded for a run.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use inferstore_api::types::UploadFolder;
use tokio::time::Instant;

use super::lock;

/// How many uploads are remembered.
const MAX_UPLOADS: usize = 1_000;

/// How long an upload is reused. A file may be deleted by another program meanwhile.
const TTL: Duration = Duration::from_secs(3_600);

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

/// Cache of uploads.
#[derive(Debug, Default)]
pub(crate) struct Uploads(Mutex<HashMap<UploadKey, (Instant, String)>>);

impl Uploads {
    pub(crate) fn get(&self, key: &UploadKey) -> Option<String> {
        let cache = lock(&self.0);
        let (uploaded, url) = cache.get(key)?;
        (uploaded.elapsed() < TTL).then(|| url.clone())
    }

    pub(crate) fn insert(&self, key: UploadKey, url: String) {
        let mut cache = lock(&self.0);
        if cache.len() >= MAX_UPLOADS {
            // A forgotten upload is made again; which one does not matter.
            cache.clear();
        }
        cache.insert(key, (Instant::now(), url));
    }

    /// Drops a URL that was deleted, or that a run failed with.
    pub(crate) fn forget(&self, url: &str) {
        lock(&self.0).retain(|_, (_, known)| known != url);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(content: u128) -> UploadKey {
        UploadKey { folder: UploadFolder::Samples, organization: None, mime: "image/png".to_owned(), content }
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_is_reused_for_an_hour_unless_it_is_forgotten() {
        let cache = Uploads::default();
        cache.insert(key(1), "https://a".to_owned());
        cache.insert(key(2), "https://b".to_owned());
        cache.forget("https://b");
        assert_eq!(cache.get(&key(1)).as_deref(), Some("https://a"));
        assert_eq!(cache.get(&key(2)), None);
        tokio::time::advance(TTL).await;
        assert_eq!(cache.get(&key(1)), None);
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = Uploads::default();
        for content in 0..=2 * MAX_UPLOADS as u128 {
            cache.insert(key(content), "https://a".to_owned());
        }
        assert!(lock(&cache.0).len() <= MAX_UPLOADS);
    }
}
