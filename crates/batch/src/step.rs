//! Steps of an item, as the journal records them.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use inferstore::types::{ModelId, TaskId};
use inferstore::{Decimal, PreparedRun};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A step of an item.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Step {
    /// The inputs are uploaded; the task may exist.
    Prepared(PreparedRun),
    /// The task exists.
    Started {
        /// The task.
        task: TaskId,
        /// URLs of the inputs uploaded for the task.
        uploaded: Vec<String>,
        /// Model. `None` in a journal of an earlier version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelId>,
        /// Maximum cost of the task, if the run had a limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_cost: Option<Decimal>,
    },
    /// The service returned 404 for the task. The next start reads the task again before the item is run
    /// again, because a gateway or a wrong key causes a 404 too.
    Gone {
        /// The task.
        task: TaskId,
        /// URLs of the inputs uploaded for the task.
        uploaded: Vec<String>,
        /// Maximum cost of the task, if the run had a limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_cost: Option<Decimal>,
    },
    /// The task has succeeded, and its outputs are about to be moved to these paths.
    Saving {
        /// The task.
        task: TaskId,
        /// URLs of the inputs uploaded for the task.
        uploaded: Vec<String>,
        /// Paths of the outputs.
        outputs: Vec<PathBuf>,
        /// Cost of the task. `None` in a journal of an earlier version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Decimal>,
    },
    /// The outputs are saved.
    Done {
        /// The task.
        task: TaskId,
        /// Cost of the task.
        cost: String,
        /// Paths of the outputs.
        outputs: Vec<PathBuf>,
        /// Size and modification time of each output. Empty in a journal of an earlier version.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stamps: Vec<String>,
        /// Output as the service returned it. As text, it takes a tenth of the memory.
        #[serde(default)]
        output: Box<RawValue>,
    },
    /// The item has no task, or a task that failed or was canceled and cost nothing.
    Failed(String),
    /// Inputs are being deleted; `then` is the step of the item otherwise.
    Deleting {
        /// URLs of the inputs.
        uploaded: Vec<String>,
        /// Step that follows.
        then: Box<Step>,
    },
    /// Hash of the content of a file. Its item is the [file](crate::Batch::record_content), and no task.
    Content(String),
    /// Step of an earlier version that is about no item.
    ContactSheet(Value),
}

impl Step {
    /// Returns the step without a pending deletion of inputs.
    pub fn last(&self) -> &Self {
        match self {
            Self::Deleting { then, .. } => then,
            step => step,
        }
    }

    /// Returns the step without a pending deletion of inputs.
    pub fn into_last(self) -> Self {
        match self {
            Self::Deleting { then, .. } => *then,
            step => step,
        }
    }

    /// Returns the task, if the step names one.
    pub fn task(&self) -> Option<&TaskId> {
        match self.last() {
            Self::Started { task, .. }
            | Self::Gone { task, .. }
            | Self::Saving { task, .. }
            | Self::Done { task, .. } => Some(task),
            _ => None,
        }
    }

    pub(crate) fn outputs_mut(&mut self) -> &mut [PathBuf] {
        match self {
            Self::Saving { outputs, .. } | Self::Done { outputs, .. } => outputs,
            Self::Deleting { then, .. } => then.outputs_mut(),
            _ => &mut [],
        }
    }

    /// Returns the saved outputs that nobody has changed since, by their sizes and modification times.
    pub fn unchanged_outputs(&self) -> Vec<PathBuf> {
        let Self::Done { outputs, stamps, .. } = self.last() else { return Vec::new() };
        let unchanged = |(path, saved): (&PathBuf, &String)| (stamp(path) == *saved).then(|| path.clone());
        outputs.iter().zip(stamps).filter_map(unchanged).collect()
    }

    /// Returns the cost of the task, or its maximum. `Some(None)`: the journal has no cost.
    pub(crate) fn charge(&self) -> Option<Option<Decimal>> {
        match self.last() {
            Self::Prepared(run) => Some(run.max_cost.clone()),
            Self::Started { max_cost, .. } | Self::Gone { max_cost, .. } => Some(max_cost.clone()),
            Self::Saving { cost, .. } => Some(cost.clone()),
            Self::Done { cost, .. } => Some(cost.parse().ok()),
            Self::Failed(_) | Self::Deleting { .. } | Self::Content(_) | Self::ContactSheet(_) => None,
        }
    }

    /// Returns the known part of `charge`.
    pub(crate) fn max_cost(&self) -> Option<Decimal> {
        self.charge().flatten()
    }

    /// Returns true if the step may replace an earlier one of the item. A task that may be paid, and whose
    /// outputs are not saved yet, stays with its item until the task has failed.
    pub(crate) fn may_follow(&self, earlier: Option<&Self>) -> bool {
        let earlier = earlier.map(Self::last);
        let Some(Self::Started { task, .. } | Self::Gone { task, .. } | Self::Saving { task, .. }) = earlier
        else {
            return true;
        };
        match self.last() {
            Self::Prepared(_) | Self::Content(_) => false,
            step => step.task().is_none_or(|own| own == task),
        }
    }

    /// Returns the uploaded inputs that are neither deleted nor being deleted.
    pub(crate) fn uploaded(&self) -> &[String] {
        match self {
            Self::Prepared(run) => &run.uploaded,
            Self::Started { uploaded, .. } | Self::Gone { uploaded, .. } | Self::Saving { uploaded, .. } => {
                uploaded
            }
            _ => &[],
        }
    }
}

pub(crate) fn stamp(path: &Path) -> String {
    let Ok(metadata) = std::fs::metadata(path) else { return String::new() };
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{} {}", metadata.len(), modified.unwrap_or_default().as_nanos())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may end when its set-up fails")]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_may_be_paid_is_not_replaced() {
        let started = |task: &str| Step::Started {
            task: task.into(),
            uploaded: Vec::new(),
            model: None,
            max_cost: None,
        };
        let deleting = Step::Deleting { uploaded: Vec::new(), then: Box::new(started("one")) };
        let (one, other) = (started("one"), started("other"));
        let failed = Step::Failed("it failed".to_owned());
        let run = include_str!("../tests/journal.jsonl").lines().next().unwrap();
        let (_, prepared): (String, Step) = serde_json::from_str(run).unwrap();
        for (earlier, step, may) in [
            (None, &prepared, true),
            (Some(&prepared), &one, true),
            (Some(&one), &one, true),
            (Some(&one), &deleting, true),
            (Some(&one), &failed, true),
            (Some(&failed), &prepared, true),
            (Some(&one), &prepared, false),
            (Some(&one), &other, false),
            (Some(&deleting), &other, false),
        ] {
            assert_eq!(step.may_follow(earlier), may, "{step:?} after {earlier:?}");
        }
    }
}
