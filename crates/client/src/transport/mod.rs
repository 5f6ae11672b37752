//! Sending a call: retries, deadlines, errors, and what errors may show.

pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod deadline;
pub(crate) mod envelope;
pub(crate) mod error;
pub(crate) mod mask;
pub(crate) mod redact;
pub(crate) mod retry;
pub(crate) mod text;
pub(crate) mod violation;
