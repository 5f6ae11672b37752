//! Lifecycle of a service: its settings, its data folder, the first start, start and shutdown.

pub(crate) mod app;
pub(crate) mod bootstrap;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod folder;
#[cfg(test)]
mod limits_page;
pub(crate) mod listeners;
pub(crate) mod marker;
pub(crate) mod parts;
pub(crate) mod policies;
pub(crate) mod service;
pub(crate) mod shared_clock;
pub(crate) mod shared_files;
mod start_timeout;
