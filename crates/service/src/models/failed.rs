//! Failure of a run, with its kind for programs.

use crate::Error;

/// Kind of a failure that does not end the task, because another attempt may succeed.
pub(crate) const NODE: &str = "node";

#[derive(Clone)]
pub(crate) struct Failed {
    /// Kind for programs: `input`, `model`, `limit`, `service` or `NODE`.
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

impl Failed {
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self { kind: "input", message: message.into() }
    }

    pub(crate) fn model(message: impl Into<String>) -> Self {
        Self { kind: "model", message: message.into() }
    }

    pub(crate) fn node(message: impl Into<String>) -> Self {
        Self { kind: NODE, message: message.into() }
    }
}

impl From<Error> for Failed {
    fn from(cause: Error) -> Self {
        tracing::error!(%cause, "a task failed inside the service");
        Self { kind: "service", message: "the service failed while it ran this task".to_owned() }
    }
}

impl From<inferstore_models::Error> for Failed {
    fn from(cause: inferstore_models::Error) -> Self {
        use inferstore_models::Error as Cause;
        let kind = match cause {
            Cause::TimedOut | Cause::TooLarge { .. } => "limit",
            Cause::Failed { .. } => "model",
            _ => "input",
        };
        Self { kind, message: cause.to_string() }
    }
}
