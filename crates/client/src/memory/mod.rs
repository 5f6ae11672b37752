//! What a client remembers between calls: declared inputs, its tasks, its uploads, the durations of
//! models. Pure data, bounded, in this process alone.

mod caches;
mod fingerprint;
mod own_tasks;

pub(crate) use caches::{Declarations, DeclaredInputs, Durations, UPLOAD_TTL, UploadKey, Uploads};
pub(crate) use fingerprint::{Fingerprint, fingerprint};
pub(crate) use own_tasks::{CreateKey, OwnTasks, PendingCreate};

/// What a client remembers between calls.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) declarations: Declarations,
    pub(crate) durations: Durations,
    pub(crate) own_tasks: OwnTasks,
    pub(crate) uploads: Uploads,
}

/// A lock that a panic of another thread does not poison. For data that is valid at every moment.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
