//! Limits on clients: slow or endless bodies, and requests of one account.

pub(crate) mod share_limit;
pub(crate) mod slow_clients;
