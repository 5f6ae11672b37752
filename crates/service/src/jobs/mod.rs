//! Jobs: what a service does at intervals beside serving requests.

pub(crate) mod storage_billing;
