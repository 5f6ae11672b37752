//! What a task returned.

use inferstore_api::types::{self, TaskId};
use inferstore_api::{Decimal, ModelKind};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::transport::error::{Error, OutputMismatch, Result};

/// What a task returned. Its output is JSON unless a type was asked for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome<T = Value> {
    /// The task.
    pub task: TaskId,
    /// What the model returned.
    pub output: T,
    /// What the run cost, exactly.
    pub cost: Option<Decimal>,
}

impl Outcome {
    /// Of a task that succeeded.
    pub(crate) fn of(task: types::TaskDetail) -> Result<Self> {
        let output = task.result.and_then(|result| result.result).unwrap_or(Value::Null);
        Ok(Self { task: task.task_id, output, cost: task.cost })
    }

    /// The output as a type.
    ///
    /// # Errors
    ///
    /// [`Error::OutputType`], with the output in it, when it is of another shape.
    pub fn typed<T: DeserializeOwned>(self) -> Result<Outcome<T>> {
        // Through text, as an answer is read, so that types may read more than their strict form.
        match serde_json::from_str(&self.output.to_string()) {
            Ok(output) => Ok(Outcome { task: self.task, output, cost: self.cost }),
            Err(error) => Err(Error::OutputType(Box::new(OutputMismatch {
                task: self.task,
                output: self.output,
                problem: error.to_string(),
            }))),
        }
    }

    /// The output as that of a model kind.
    ///
    /// # Errors
    ///
    /// As [`typed`](Self::typed).
    pub fn typed_as<K: ModelKind>(self) -> Result<Outcome<K::Output>> {
        self.typed()
    }

    /// The fields of the output that are URLs, by name, and the URLs.
    pub fn urls(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.output.as_object().into_iter().flatten();
        fields.filter_map(|(name, value)| {
            let text = value.as_str()?;
            let is_url = text.starts_with("https://") || text.starts_with("http://");
            is_url.then_some((name.as_str(), text))
        })
    }
}
