//! Lifecycle of a service: the first start, start and shutdown.

pub(crate) mod admin_client;
mod bootstrap;
#[cfg(test)]
mod limits_page;
mod listeners;
pub(crate) mod service;
mod start_timeout;
mod wiring;
