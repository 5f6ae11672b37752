//! Models that do what a tester wants instead of running.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Controls, Held};
use crate::nodes::Failed;
use crate::{Error, Result};

/// What becomes of the tasks of a model.
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
/// One that names no number of times goes on until it is cleared. A model that no node runs is served
/// as long as its tasks are to succeed or to fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    pub(super) then: Then,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) times: Option<u64>,
}

/// How a task of a model goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Then {
    /// The model runs.
    Run,
    /// The task fails.
    Fail,
    /// The task succeeds with a given output; the model does not run.
    Succeed,
    /// The task stays in the queue.
    StayQueued,
}

impl Script {
    const fn new(then: Then) -> Self {
        Self { then, after_ms: None, message: None, output: None, times: None }
    }

    /// The model runs; with `after`, a slow one.
    pub const fn run() -> Self {
        Self::new(Then::Run)
    }

    /// The task fails, and this is why.
    pub fn fail(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::new(Then::Fail) }
    }

    /// The task succeeds, and this JSON object is its output.
    pub fn succeed(output: Value) -> Self {
        let output = match output {
            Value::Object(output) => Some(output),
            _ => None,
        };
        Self { output, ..Self::new(Then::Succeed) }
    }

    /// The task stays in the queue until this is cleared.
    pub const fn stay_queued() -> Self {
        Self::new(Then::StayQueued)
    }

    /// The task is `computing` for so long first.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self { after_ms: Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)), ..self }
    }

    /// The next so many tasks.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }

    /// The next task.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    fn mistake(&self) -> Option<&'static str> {
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

/// What happens to a task in place of its run.
#[derive(Clone)]
pub(crate) struct Replacement {
    /// How long the task is computing before.
    pub(crate) delay: Duration,
    /// How the task ends; None lets the model run.
    pub(crate) outcome: Option<Result<Map<String, Value>, Failed>>,
}

impl Held<'_> {
    /// Returns the models that the node serves, given those that it runs; None when it is down.
    pub(crate) fn served(&self, models: Vec<String>) -> Option<Vec<String>> {
        if !self.is_up() {
            return None;
        }
        let mut served = BTreeSet::from_iter(models);
        let scripts = self.switch.scripts();
        let scripted = scripts.iter().filter(|(_, script)| matches!(script.then, Then::Succeed | Then::Fail));
        served.extend(scripted.map(|(model, _)| model.clone()));
        Some(served.into_iter().collect())
    }

    /// Returns the models whose tasks the node may claim now, given those that it runs; None when it is down.
    pub(crate) fn claimable(&self, models: Vec<String>) -> Option<Vec<String>> {
        let mut models = self.served(models)?;
        let scripts = self.switch.scripts();
        models.retain(|model| scripts.get(model).is_none_or(|script| script.then != Then::StayQueued));
        Some(models)
    }

    /// Returns what happens to a task of the model that was just claimed; None lets the model run.
    pub(crate) fn replacement(&self, model: &str) -> Option<Replacement> {
        let mut scripts = self.switch.scripts();
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

impl Controls {
    /// What becomes of the tasks of a model from now on, in place of what was said of it before.
    ///
    /// # Errors
    /// When there is no such model, the script contradicts itself, or the database cannot be used.
    pub async fn let_model(&self, model: &str, script: Script) -> Result<()> {
        let doing = || format!("writing a script for {model:?}");
        if let Some(mistake) = script.mistake() {
            return Err(Error::new(doing(), mistake));
        }
        if self.app.database.published(model).await?.is_none() {
            return Err(Error::not_found(doing(), "there is no such model"));
        }
        // A claim under way has read the scripts before: a task that is created after this must not meet it.
        let paused = self.tester.switch.pause().await;
        self.tester.switch.scripts().insert(model.to_owned(), script);
        drop(paused);
        self.scripts_changed().await
    }

    /// Clears the script of a model; false when it had none.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn clear_script(&self, model: &str) -> Result<bool> {
        let was_there = self.tester.switch.scripts().remove(model).is_some();
        self.scripts_changed().await?;
        Ok(was_there)
    }

    /// What was said of models and still stands, with the times that are left.
    pub fn scripts(&self) -> BTreeMap<String, Script> {
        self.tester.switch.scripts().clone()
    }

    /// Who serves what is known at once, and tasks that waited are looked at again.
    async fn scripts_changed(&self) -> Result<()> {
        self.app.node.heartbeat(&self.app).await?;
        self.app.dispatcher.look_for_all();
        Ok(())
    }
}
