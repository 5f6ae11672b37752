//! The operations of the service by noun: account, models, tasks, storage.

pub(crate) mod account;
pub(crate) mod models;
pub(crate) mod page;
pub(crate) mod raw;
pub(crate) mod segment;
pub(crate) mod storage;
pub(crate) mod tasks;
