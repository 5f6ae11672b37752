//! HTTP listeners: connections and their limits, timeouts of slow clients, limits of one account.

pub(crate) mod account_limit;
pub(crate) mod connections;
mod drain;
pub(crate) mod file_limit;
pub(crate) mod listener;
mod request;
pub(crate) mod slow_clients;
mod stream;
