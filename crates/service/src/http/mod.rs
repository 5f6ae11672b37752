//! Limits of what a client may take: bodies that are slow or endless, and requests of one account.

pub(crate) mod account_limit;
pub(crate) mod slow_clients;
