//! Lifecycle of a service: its settings, its data folder, the first start, start and shutdown.

pub(crate) mod app;
pub(crate) mod bootstrap;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod folder;
mod listeners;
pub(crate) mod marker;
pub(crate) mod parts;
pub(crate) mod service;
mod shared_clock;
mod shared_files;
