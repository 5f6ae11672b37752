//! Administration of a running and of a stopped service, and backups.

mod backup;
mod keys;
mod levers;
mod lists;
mod log;
mod money;
#[cfg(unix)]
mod socket;
mod support;
