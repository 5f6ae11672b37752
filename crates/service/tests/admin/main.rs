//! What operators rely on: administration of a running and of a stopped service, and backups.

mod backup;
#[cfg(unix)]
mod socket;
mod support;
