//! HTTP listeners: accepting connections, timeouts and limits of slow clients, limits of one account.

pub(crate) mod account_limit;
pub(crate) mod listener;
pub(crate) mod slow_clients;
