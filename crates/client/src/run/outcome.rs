//! Outcome of a run: output, price and files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use inferstore_api::types::{TaskDetail, TaskId};
use inferstore_api::{Decimal, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files::download::{Download, Limits};
use crate::inputs::is_http;
use crate::memory::Uncompared;
use crate::transport::{Core, Deadline, Error, MAX_MESSAGE, OutputMismatch, Redactor, Result, awaited};

const MAX_CONCURRENT_DOWNLOADS: usize = 4;

/// Outcome of a task that succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome<T = Value> {
    /// Identifier of the task.
    pub task: TaskId,
    /// Output, whose shape depends on the model.
    pub output: T,
    /// Price, if the service stated it.
    pub cost: Option<Decimal>,
    /// Duration of the task from creation to end, by the clock of the service.
    pub duration: Option<Duration>,
    /// URLs of inputs that were uploaded for this run and are still stored. Storage is billed: see
    /// [`delete_inputs_after`](crate::RunOptions::delete_inputs_after).
    #[serde(default)]
    pub stored_inputs: Vec<String>,
    #[serde(default)]
    pub(crate) is_adopted: bool,
    /// Client for downloads. `None` in an outcome that was deserialized or made by hand.
    #[serde(skip)]
    core: Uncompared<Option<Arc<Core>>>,
}

impl<T> Outcome<T> {
    /// Makes an outcome, for tests.
    pub fn new(task: impl Into<TaskId>, output: T) -> Self {
        Self {
            task: task.into(),
            output,
            cost: None,
            duration: None,
            stored_inputs: Vec::new(),
            is_adopted: false,
            core: Uncompared(None),
        }
    }

    /// Returns true if the response to the create was lost, and the task was found in the history instead.
    /// Without an upload among its inputs, it may be the task of another program with the same inputs.
    pub fn is_adopted(&self) -> bool {
        self.is_adopted
    }
}

impl Outcome {
    pub(crate) fn of(task: TaskDetail, core: &Arc<Core>) -> Self {
        let duration = between(task.created_at.as_ref(), task.updated_at.as_ref());
        let output = task.result.and_then(|result| result.result).unwrap_or(Value::Null);
        let core = Uncompared(Some(Arc::clone(core)));
        Self { cost: task.cost, duration, core, ..Self::new(task.task_id, output) }
    }

    /// Converts the output to a type: that of a model kind, or one of your own.
    ///
    /// # Errors
    ///
    /// [`Error::OutputType`] with the output, if the output does not have that type.
    pub fn typed<T: DeserializeOwned>(self) -> Result<Outcome<T>> {
        // Through text, like a response, so that types deserialize leniently.
        match serde_json::from_str(&self.output.to_string()) {
            Ok(output) => {
                let Self { task, cost, duration, stored_inputs, is_adopted, core, .. } = self;
                Ok(Outcome { task, output, cost, duration, stored_inputs, is_adopted, core })
            }
            Err(error) => {
                let redactor = self.core.0.as_ref().map(|core| core.redactor.clone()).unwrap_or_default();
                // The parser quotes values of the output.
                let problem = redactor.foreign(&error.to_string(), MAX_MESSAGE);
                Err(Error::OutputType(Box::new(OutputMismatch::new(self.task, self.output, problem))))
            }
        }
    }

    /// Returns the fields of the output that are URLs, by name.
    pub fn urls(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.output.as_object().into_iter().flatten();
        let urls = fields.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        urls.filter(|(_, text)| is_http(text))
    }

    /// Returns the URL in this field of the output.
    ///
    /// # Errors
    ///
    /// [`Error::OutputType`] if the output has no such field, or the field is no URL.
    pub fn url(&self, name: &str) -> Result<&str> {
        let url = self.urls().find_map(|(field, url)| (field == name).then_some(url));
        url.ok_or_else(|| {
            let names: Vec<_> = self.urls().map(|(field, _)| field).collect();
            let names = Redactor::default().foreign(&names.join(", "), MAX_MESSAGE);
            let problem = format!("it has no URL {name:?}; its URLs: {names}");
            let mismatch = OutputMismatch::new(self.task.clone(), self.output.clone(), problem);
            Error::OutputType(Box::new(mismatch))
        })
    }

    /// Starts the download of this field of the output: into memory, a file or a stream.
    ///
    /// ```no_run
    /// # async fn example(outcome: inferstore::Outcome) -> Result<(), inferstore::Error> {
    /// let picture = outcome.download("output_image")?.bytes().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`url`](Self::url); also for an outcome that no client returned.
    pub fn download(&self, name: &str) -> Result<Download> {
        let url = self.url(name)?;
        let no_client = "only an outcome that a client returned can be downloaded";
        let core = self.core.0.clone().ok_or_else(|| Error::InvalidArgument(no_client.to_owned()))?;
        Ok(Download::new(core, url))
    }

    /// Downloads every URL of the output into the folder, each under the name of its field with the extension
    /// of its MIME type. Await it for the paths, in the order of the fields.
    pub fn save_all(&self, folder: impl AsRef<Path>) -> SaveAll {
        let folder = folder.as_ref().to_owned();
        SaveAll { outcome: self.clone(), folder, limits: Limits::default() }
    }
}

/// Download of all files of an outcome: await it for their paths.
///
/// # Errors
///
/// [`Error::File`] if a URL cannot be read, or a file cannot be written; completed files stay.
#[derive(Clone, Debug)]
#[must_use = "nothing is downloaded until it is awaited"]
pub struct SaveAll {
    outcome: Outcome,
    folder: PathBuf,
    limits: Limits,
}

impl SaveAll {
    /// Changes the limits of each file; the deadline applies to all files together.
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    async fn run(&self) -> Result<Vec<PathBuf>> {
        let files = self.outcome.urls().map(|(name, _)| {
            let download = self.outcome.download(name);
            async move {
                let download = download?.limits(|limits| *limits = self.limits.clone());
                Ok(download.to_dir(&self.folder, name).await?.path)
            }
        });
        let files: Vec<_> = files.collect();
        let saved = stream::iter(files).buffered(MAX_CONCURRENT_DOWNLOADS).try_collect();
        Deadline::of_transfer(self.limits.deadline).bound(saved).await
    }
}

awaited!(SaveAll => Vec<PathBuf>, |save| async move { save.run().await }.boxed());

pub(super) fn between(created: Option<&Timestamp>, ended: Option<&Timestamp>) -> Option<Duration> {
    let created = created?.to_system_time()?;
    ended?.to_system_time()?.duration_since(created).ok()
}
