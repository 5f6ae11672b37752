//! Hook for controls: what a test may change about the runs of the local node. Absent in production.

use std::time::Duration;

use serde_json::{Map, Value};

use super::run::Failed;

/// What a test may change about the runs of the local node.
pub(crate) trait RunHook: Send + Sync {
    /// Returns the models that the node serves, given those that it runs.
    fn served(&self, models: &[String]) -> Vec<String>;
    /// Returns the models whose tasks the node may claim now, given those that it runs.
    fn claimable(&self, models: &[String]) -> Vec<String>;
    /// Returns what happens to a task of the model that was just claimed; `None` lets the model run.
    fn replacement(&self, model: &str) -> Option<Replacement>;
}

/// What happens to a task in place of its run.
pub(crate) struct Replacement {
    /// How long the task is computing before.
    pub(crate) delay: Duration,
    /// How the task ends; `None` lets the model run.
    pub(crate) outcome: Option<Result<Map<String, Value>, Failed>>,
}
