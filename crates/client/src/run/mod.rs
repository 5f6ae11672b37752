//! Running a model: checks, uploads, the create, the wait, the outcome.

mod create;
mod execution;
mod outcome;
mod poll;
mod wait;
mod wait_all;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::types::{TaskId, TaskStatus, UploadFolder};
use inferstore_api::{Decimal, ModelKind};
use serde_json::{Map, Value};

pub use create::PreparedRun;
pub(crate) use create::adopt_or_start;
pub use outcome::Outcome;
pub use poll::PollInterval;
pub use wait::Wait;
pub use wait_all::WaitAll;

use crate::files::upload::UploadEvent;
use crate::inputs::{Input, Inputs};
use crate::resources::{Model, Task};
use crate::run::execution::Execution;
use crate::run::wait::{OFFLINE_TIMEOUT, WaitOptions};
use crate::transport::{Error, Events, Lazy, Result, Sink, ignored};

/// What happens while a model runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RunEvent {
    /// A file among the inputs is uploaded.
    Upload {
        /// The field that named it.
        field: String,
        /// The progress.
        event: UploadEvent,
    },
    /// An input is sent although it may be wrong.
    Warning(String),
    /// The create is sent next: a run that is dropped before it is polled again leaves no task.
    Creating,
    /// The task was created; from here on any process can pick it up by its identifier.
    Created(TaskId),
    /// The task has this status now. A word that this version does not know is not the end.
    Status(TaskStatus),
    /// The task could not be read, for this reason. The wait goes on.
    ReadFailed(String),
    /// The task is queued, and no node serves its model.
    ModelOffline,
}

/// The events of a run or a wait; [`finish`](Events::finish) returns the outcome.
pub type RunEvents<T = Value> = Events<RunEvent, Outcome<T>>;

/// A run of a model: set options, then await it for its [`Outcome`], or use one of
/// [`events`](Self::events), [`start`](Self::start), [`check`](Self::check), [`prepare`](Self::prepare).
/// Nothing is sent before that.
///
/// ```no_run
/// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
/// use std::time::Duration;
/// use inferstore::{Inputs, RunEvent};
///
/// let inputs = Inputs::new().file("input_image", "photo.jpg").set("template", "v_shape").set("angle", 30);
/// let run = client.model("color-harmonization").run(inputs);
/// let mut events = run.deadline(Duration::from_secs(300)).max_cost("0.10").events();
/// while let Some(event) = events.next().await {
///     if let RunEvent::Status(status) = event {
///         println!("{status}");
///     }
/// }
/// let outcome = events.finish().await?;
/// outcome.save_all("outputs").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// A run that is dropped before the create leaves no task. One that is dropped during the create or the
/// wait leaves the task running, and it is billed if it succeeds, unless
/// [`cancel_on_drop`](Self::cancel_on_drop) is set. One that was polled, as in a `select!`, goes on when it is polled
/// again, with the options that it began with; started, prepared or read as events it fails, because that would be a
/// second run.
#[must_use = "a run does nothing until it is awaited, started, checked or prepared"]
pub struct Run<T = Value> {
    model: Model,
    inputs: Result<Inputs, String>,
    options: RunOptions,
    convert: fn(Outcome) -> Result<Outcome<T>>,
    running: Lazy<Outcome<T>>,
}

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunOptions {
    pub(crate) wait: WaitOptions,
    pub(crate) max_cost: Option<Decimal>,
    pub(crate) require_serving: bool,
    pub(crate) skip_validation: bool,
    pub(crate) allow_undeclared: bool,
    pub(crate) retry_create_on_rejection: bool,
    pub(crate) retry_create_if_absent_after: Option<Duration>,
    pub(crate) upload_folder: Option<UploadFolder>,
    pub(crate) org_username: Option<String>,
    pub(crate) delete_inputs_after: bool,
    pub(crate) cancel_on_drop: bool,
    pub(crate) learn_from_history: bool,
}

impl Model {
    /// Runs the model. The run starts when it is awaited.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use inferstore::Inputs;
    ///
    /// let inputs = Inputs::new().file("input", "photo.jpg");
    /// let outcome = client.model("background-removal").run(inputs).await?;
    /// println!("{}", outcome.url("output")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(&self, inputs: impl Into<Inputs>) -> Run {
        Run::new(self.clone(), Ok(inputs.into()), Ok)
    }

    /// Runs a model of a known kind: typed inputs, typed outputs. A file input takes a path, a URL or a
    /// [`File`](crate::File).
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use inferstore::types::ColorExtractionInput;
    ///
    /// let input = ColorExtractionInput { input: "photo.jpg" }; // or a `PathBuf`, a `File`, a URL
    /// let outcome = client.model("color-extraction").run_typed(input).await?;
    /// println!("{}", outcome.output.output);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When awaited, it fails with [`Error::OutputType`](crate::Error::OutputType) if the model returned
    /// something else.
    pub fn run_typed<K: ModelKind<File: Into<Input>>>(&self, input: K) -> Run<K::Output> {
        let inputs = input.into_parts().map(|(values, files)| {
            files.into_iter().fold(Inputs::from(values), |inputs, (name, file)| inputs.file(name, file))
        });
        let inputs = inputs.map_err(|error| format!("the inputs cannot be written as JSON: {error}"));
        Run::new(self.clone(), inputs, Outcome::typed)
    }

    /// Checks the inputs and uploads the files, so that the task can be created once, even across a
    /// crash: see [`PreparedRun`].
    pub fn prepare(&self, inputs: impl Into<Inputs>) -> BoxFuture<'static, Result<PreparedRun>> {
        Box::pin(self.run(inputs).prepare())
    }
}

impl<T> std::fmt::Debug for Run<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("model", &self.model.id)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<T> Run<T> {
    fn new(model: Model, inputs: Result<Inputs, String>, convert: fn(Outcome) -> Result<Outcome<T>>) -> Self {
        let mut options = RunOptions::default();
        options.wait.offline_timeout = Some(OFFLINE_TIMEOUT);
        Self { model, inputs, options, convert, running: Lazy::default() }
    }

    /// Ends the run after this time: uploads, the create, retries and the wait. Default: none.
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.options.wait.deadline = deadline.into();
        self
    }

    /// How often the task is read. Default: [`PollInterval::Adaptive`].
    pub fn poll(mut self, interval: PollInterval) -> Self {
        self.options.wait.poll = interval;
        self
    }

    /// Cancels the task at the deadline if it is still queued. Otherwise it stays, and is billed if it
    /// succeeds. The same applies after [`offline_timeout`](Self::offline_timeout). Default: `false`.
    pub fn cancel_at_deadline(mut self, cancel: bool) -> Self {
        self.options.wait.cancel_at_deadline = cancel;
        self
    }

    /// Fails with [`Error::ModelOffline`](crate::Error::ModelOffline) when the task stays queued for this
    /// time while no node serves the model; `None` waits on. Default: 10 minutes.
    pub fn offline_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.options.wait.offline_timeout = timeout.into();
        self
    }

    /// Fails before anything is created when a run costs more, or the service states no price: `"0.10"`, or a
    /// [`Decimal`]. Default: no limit.
    pub fn max_cost<Cost: TryInto<Decimal>>(mut self, max_cost: Cost) -> Self {
        match max_cost.try_into() {
            Ok(max_cost) => self.options.max_cost = Some(max_cost),
            Err(_) => self.inputs = Err("max_cost is no decimal number".to_owned()),
        }
        self
    }

    /// Fails before anything is created when no node serves the model now. Default: `false`.
    pub fn require_serving(mut self, require: bool) -> Self {
        self.options.require_serving = require;
        self
    }

    /// Cancels the task when the run is dropped before its end: a create that is under way finishes in
    /// the background, and its task is canceled if it is still queued. Default: `false`.
    ///
    /// Needs the Tokio runtime that polls the run.
    pub fn cancel_on_drop(mut self, cancel: bool) -> Self {
        self.options.cancel_on_drop = cancel;
        self
    }

    /// Sends the inputs as they are, without reading what the model declares. Default: `false`.
    pub fn skip_validation(mut self, skip: bool) -> Self {
        self.options.skip_validation = skip;
        self
    }

    /// Sends inputs that the model does not declare, instead of refusing them: a mistyped name would
    /// cost a run. Default: `false`.
    pub fn allow_undeclared(mut self, allow: bool) -> Self {
        self.options.allow_undeclared = allow;
        self
    }

    /// Deletes the uploaded inputs when the task has ended, or when none is created; they are not shared with other
    /// runs then. The deletions take up to 10 seconds, also after the deadline. What is still stored is in
    /// [`Outcome::stored_inputs`], and after an error in an event of `tracing`; a run that is dropped deletes nothing.
    /// [`start`](Self::start), which waits for no end, refuses it; a [`PreparedRun`] lists its uploads, and deleting
    /// them is up to you. Files of an organization are deleted with its own key alone: those that a member uploads
    /// for it stay, and are reported. Default: `false`.
    pub fn delete_inputs_after(mut self, delete: bool) -> Self {
        self.options.delete_inputs_after = delete;
        self
    }

    /// The folder that the files among the inputs are uploaded into. Default: `samples`.
    pub fn upload_folder(mut self, folder: UploadFolder) -> Self {
        self.options.upload_folder = Some(folder);
        self
    }

    /// The organization that the files are uploaded for, with a key of personal scope. Default: none.
    pub fn org_username(mut self, org_username: impl Into<Option<String>>) -> Self {
        self.options.org_username = org_username.into();
        self
    }

    /// Learns from the task history how long the model takes, if this client has not run it yet: one or
    /// two requests more, so that the task is read when it is likely to end. Default: `false`.
    pub fn learn_from_history(mut self, learn: bool) -> Self {
        self.options.learn_from_history = learn;
        self
    }

    /// Sends the create again after a 429 or 503. Only for a service that promises that such a rejection
    /// created nothing. Default: `false`.
    pub fn retry_create_on_rejection(mut self, retry: bool) -> Self {
        self.options.retry_create_on_rejection = retry;
        self
    }

    /// Sends the create again when its response was lost and the task history, read once more after this
    /// time, shows no task that could be it. Default: never.
    ///
    /// **The history is no proof.** A create that a gateway held up can appear after the last read; then
    /// both tasks run, and both are billed. Choose more time than anything on the way holds a request.
    /// Without it such a create ends in [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown), and you
    /// decide.
    pub fn retry_create_if_absent_after(mut self, delay: impl Into<Option<Duration>>) -> Self {
        self.options.retry_create_if_absent_after = delay.into();
        self
    }

    /// Creates the task and returns its handle, without waiting for its end.
    ///
    /// # Errors
    ///
    /// Those of the run up to the create; [`Error::InvalidArgument`] with
    /// [`delete_inputs_after`](Self::delete_inputs_after). Dropping the future during the create may leave a task.
    pub fn start(self) -> BoxFuture<'static, Result<Task>> {
        start(self.execution(ignored()))
    }

    /// Checks everything that the run would check before its first upload, and returns the inputs as they
    /// would be sent. Files are read, and are not among them: their URLs are known after the upload.
    /// Nothing is stored, created or billed.
    ///
    /// # Errors
    ///
    /// Those of the run up to the first upload.
    pub fn check(self) -> BoxFuture<'static, Result<Map<String, Value>>> {
        check(self.execution(ignored()))
    }

    /// Checks the inputs and uploads the files, so that the task can be created once, even across a
    /// crash: see [`PreparedRun`]. A failure deletes what was uploaded, which takes up to 10 seconds, also after the
    /// deadline.
    ///
    /// # Errors
    ///
    /// Those of the run up to the create.
    pub fn prepare(self) -> BoxFuture<'static, Result<PreparedRun>> {
        prepare(self.execution(ignored()))
    }

    fn execution(&self, sink: Sink<RunEvent>) -> Result<Execution> {
        self.running.check_unused()?;
        let inputs = self.inputs.clone().map_err(Error::InvalidArgument)?;
        Ok(Execution::new(self.model.clone(), inputs.into_fields()?, self.options.clone(), sink))
    }
}

// Not generic and boxed, so that this crate compiles them once, and not each crate that runs a model.

fn start(execution: Result<Execution>) -> BoxFuture<'static, Result<Task>> {
    async move { execution?.begin().start().await }.boxed()
}

fn check(execution: Result<Execution>) -> BoxFuture<'static, Result<Map<String, Value>>> {
    async move { execution?.begin().check().await }.boxed()
}

fn prepare(execution: Result<Execution>) -> BoxFuture<'static, Result<PreparedRun>> {
    async move { execution?.begin().prepare().await }.boxed()
}

fn finish(execution: Result<Execution>) -> BoxFuture<'static, Result<Outcome>> {
    async move { execution?.begin().finish().await }.boxed()
}

impl<T: Send + 'static> Run<T> {
    /// The run as a stream of events.
    pub fn events(self) -> RunEvents<T> {
        Events::new(|sink| self.finish(sink))
    }

    fn finish(&self, sink: Sink<RunEvent>) -> BoxFuture<'static, Result<Outcome<T>>> {
        let finished = finish(self.execution(sink));
        let convert = self.convert;
        async move { convert(finished.await?) }.boxed()
    }
}

impl<T: Send + 'static> Future for Run<T> {
    type Output = Result<Outcome<T>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let run = self.get_mut();
        let running = run.running.0.take().unwrap_or_else(|| run.finish(ignored()));
        run.running.0.insert(running).poll_unpin(context)
    }
}
