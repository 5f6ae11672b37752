//! What operators rely on: administration of a running and of a stopped service, and backups.

mod backup;
mod lists;
#[cfg(unix)]
mod socket;
mod support;
