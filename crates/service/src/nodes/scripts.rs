//! Scripts: scripted results of a model's tasks instead of runs.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::local_node::Replacement;
use super::switch::Held;
use crate::models::Failed;

/// Script for the tasks of a model.
///
/// ```
/// use inferstore_service::Script;
/// use std::time::Duration;
///
/// Script::fail("out of memory").times(2);
/// Script::run().after(Duration::from_secs(3));
/// Script::succeed(serde_json::json!({"output": "#102030"}));
/// ```
///
/// Without `times`, the script repeats until cleared. A `Succeed` or `Fail` script makes its model count as served,
/// even if no node runs the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    pub(crate) then: Then,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<u64>,
}

/// Action of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Then {
    /// Runs the model.
    Run,
    /// Fails the task.
    Fail,
    /// Completes the task with a given output without running the model.
    Succeed,
    /// Leaves the task in the queue.
    StayQueued,
}

impl Script {
    const fn new(then: Then) -> Self {
        Self { then, after_ms: None, message: None, output: None, times: None }
    }

    /// Runs the model; with `after`, after a delay.
    pub const fn run() -> Self {
        Self::new(Then::Run)
    }

    /// Fails the task with this message.
    pub fn fail(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::new(Then::Fail) }
    }

    /// Completes the task with this JSON object as its output.
    pub fn succeed(output: Value) -> Self {
        let output = match output {
            Value::Object(output) => Some(output),
            _ => None,
        };
        Self { output, ..Self::new(Then::Succeed) }
    }

    /// Leaves tasks in the queue until the script is cleared.
    pub const fn stay_queued() -> Self {
        Self::new(Then::StayQueued)
    }

    /// Keeps the task `computing` for this time first.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self { after_ms: Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)), ..self }
    }

    /// Applies the script to this number of tasks.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Applies the script to the next task.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    pub(crate) fn mistake(&self) -> Option<&'static str> {
        if self.then == Then::Succeed && self.output.is_none() {
            return Some("a success needs an output, a JSON object");
        }
        if self.times == Some(0) {
            return Some("times must be at least 1");
        }
        if self.then == Then::StayQueued && (self.times.is_some() || self.after_ms.is_some()) {
            return Some("tasks stay in the queue until this is cleared: it takes no times and no after_ms");
        }
        let has_foreign_output = self.output.is_some() && self.then != Then::Succeed;
        let has_foreign_message = self.message.is_some() && self.then != Then::Fail;
        (has_foreign_output || has_foreign_message)
            .then_some("an output goes with a success alone, and a message with a failure alone")
    }
}

impl Held<'_> {
    /// Returns the models that the node serves, given the models that it can run; None if the node is down.
    pub(crate) fn served(&self, models: Vec<String>) -> Option<Vec<String>> {
        if !self.is_up() {
            return None;
        }
        let mut served = BTreeSet::from_iter(models);
        let scripts = self.switch.scripts.lock();
        let scripted = scripts.iter().filter(|(_, script)| matches!(script.then, Then::Succeed | Then::Fail));
        served.extend(scripted.map(|(model, _)| model.clone()));
        Some(served.into_iter().collect())
    }

    pub(crate) fn claimable(&self, models: Vec<String>) -> Option<Vec<String>> {
        let mut models = self.served(models)?;
        let scripts = self.switch.scripts.lock();
        models.retain(|model| scripts.get(model).is_none_or(|script| script.then != Then::StayQueued));
        Some(models)
    }

    pub(crate) fn replacement(&self, model: &str) -> Option<Replacement> {
        let mut scripts = self.switch.scripts.lock();
        let script = scripts.get_mut(model)?;
        let Script { then, after_ms, message, output, .. } = script.clone();
        if let Some(times) = &mut script.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                scripts.remove(model);
            }
        }
        let outcome = match then {
            Then::Fail => {
                Some(Err(Failed::model(message.unwrap_or_else(|| "a tester wanted this".to_owned()))))
            }
            Then::Succeed => Some(Ok(output.unwrap_or_default())),
            Then::Run | Then::StayQueued => None,
        };
        Some(Replacement { delay: Duration::from_millis(after_ms.unwrap_or(0)), outcome })
    }
}
