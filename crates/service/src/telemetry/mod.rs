//! OpenTelemetry: a span of each API request and of each attempt to run a task, in builds with the feature `otel`.

#[cfg(feature = "otel")]
#[path = "otlp.rs"]
mod export;
#[cfg(not(feature = "otel"))]
#[path = "none.rs"]
mod export;

pub(crate) use export::{Spans, check_endpoint};

/// Outcomes of an attempt, beside `success` and `failure`.
pub(crate) mod outcome {
    pub(crate) const SUCCESS: &str = "success";
    pub(crate) const FAILURE: &str = "failure";
    /// The lease expired, or the result could not be written: the task runs again.
    pub(crate) const LOST: &str = "lost";
    /// The shutdown released the lease: the task runs again.
    pub(crate) const RELEASED: &str = "released";
}
