//! Sending requests: retries, deadlines, middleware, errors, and redaction of foreign text.

pub(crate) mod call;
pub(crate) mod core;
pub(crate) mod deadline;
pub(crate) mod envelope;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod file_error;
pub(crate) mod middleware;
pub(crate) mod redact;
pub(crate) mod retry;
pub(crate) mod violation;
