//! Test doubles and callers: scripted services, clusters, and a caller that validates every response of the service.

pub(crate) mod caller;
pub(crate) mod cluster;
pub(crate) mod deployment;
pub(crate) mod picture;
pub(crate) mod scripted;
pub(crate) mod upload_memory;
