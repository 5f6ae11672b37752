//! Running a model: checks, uploads, the create, the wait, the outcome.

mod create;
mod execution;
mod history;
mod outcome;
mod poll;
mod prepared;
mod task;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::Decimal;
use inferstore_api::types::{TaskId, TaskStatus, UploadFolder};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tracing::{Instrument, Span, info_span};

pub use outcome::{Outcome, SaveAll};
pub use poll::PollInterval;
pub use prepared::{Adopt, PreparedRun};
pub use task::{Task, TaskPoll, Wait};

use crate::files::upload::UploadEvent;
use crate::inputs::Inputs;
use crate::run::execution::Execution;
use crate::transport::{Core, Deadline, Error, Events, Result, Sink, awaited, ignored, model_id};

/// Event of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RunEvent {
    /// A file among the inputs is being uploaded.
    Upload {
        /// Field of the file.
        field: String,
        /// Progress of the upload.
        event: UploadEvent,
    },
    /// The create is sent next: dropping the run before its next poll leaves no task.
    Creating,
    /// The task exists; any process can pick it up by its identifier.
    Created(TaskId),
    /// The task has this status. A word unknown to this version is not final.
    Status(TaskStatus),
    /// A read of the task failed, for this reason. The wait continues.
    ReadFailed(String),
}

/// Events of a run or a wait; [`finish`](Events::finish) returns the outcome.
pub type RunEvents<T = Value> = Events<RunEvent, Outcome<T>>;

/// A run of a model: set options, then await it for its [`Outcome`], or call [`events`](Self::events),
/// [`start`](Self::start), [`check`](Self::check) or [`prepare`](Self::prepare). Nothing is sent before that.
///
/// ```no_run
/// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
/// use std::time::Duration;
/// use inferstore::{File, Inputs, RunEvent};
///
/// let inputs = Inputs::new().file("input_image", File::path("photo.jpg")).set("template", "v_shape").set("angle", 30);
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
/// A run that is dropped before the create leaves no task. Dropping the run during the create or the wait
/// leaves the task running, which is billed if it succeeds, unless [`on_abandon`](Self::on_abandon) sets
/// another policy. In a `select!` within a loop, poll one [`into_future`](IntoFuture::into_future) repeatedly.
#[must_use = "a run does nothing until it is awaited, started, checked or prepared"]
pub struct Run<T = Value> {
    core: Arc<Core>,
    model: String,
    inputs: Result<Inputs, String>,
    settings: Settings,
    convert: fn(Outcome) -> Result<Outcome<T>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) deadline: Option<Duration>,
    pub(crate) poll: PollInterval,
    pub(crate) max_cost: Option<Decimal>,
    pub(crate) on_abandon: Abandon,
    pub(crate) options: RunOptions,
}

/// Further options of a run, for [`Run::options`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RunOptions {
    /// Fails before the create if no node serves the model now. Default: `false`.
    pub require_serving: bool,
    /// Sends the inputs unchecked, without reading the declaration of the model. Default: `false`.
    pub skip_validation: bool,
    /// Deletes the uploaded inputs when the task has ended, or if none is created, within 10 seconds, also after the
    /// deadline. [`Outcome::stored_inputs`] lists inputs that are still stored; after an error, an event of `tracing`
    /// does. A dropped run deletes its inputs only with [`Abandon::CancelAndDelete`]. [`Run::start`] rejects this
    /// option, because it does not wait for the end; a [`PreparedRun`] lists its uploads, and deleting them is up to
    /// you. A service may allow only an organization itself to delete its files: uploads of a member then stay, and are
    /// reported. Default: `false`.
    pub delete_inputs_after: bool,
    /// Stores equal content once, also across processes: the name of an uploaded file has a hash of its
    /// content and of the API key, and a file that a `HEAD` request finds is not uploaded again. No run
    /// deletes such a file, and neither [`Outcome::stored_inputs`] nor [`PreparedRun::uploaded`] lists it. No
    /// effect if uploads are deleted, or on a service without idempotency keys. Default: `false`.
    pub reuse_uploads: bool,
    /// Folder for uploaded inputs. Default: `samples`.
    pub upload_folder: Option<UploadFolder>,
    /// Organization for which the files are uploaded, with a key of personal scope. Default: none.
    pub org_username: Option<String>,
}

/// Policy for the task of an abandoned run: the run was dropped, or its deadline has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Abandon {
    /// The task continues, and is billed if it succeeds. The default.
    #[default]
    Leave,
    /// Cancels the task if it is still queued. A running task continues.
    Cancel,
    /// As `Cancel`, and deletes the uploaded inputs that no task needs.
    CancelAndDelete,
}

impl<T> std::fmt::Debug for Run<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("model", &self.model)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<T> Run<T> {
    pub(crate) fn new(
        core: Arc<Core>,
        model: String,
        inputs: Result<Inputs, String>,
        convert: fn(Outcome) -> Result<Outcome<T>>,
    ) -> Self {
        Self { core, model, inputs, settings: Settings::default(), convert }
    }

    /// Sets the timeout of the run: uploads, the create, retries and the wait. Default: none.
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.settings.deadline = deadline.into();
        self
    }

    /// Sets the intervals between two reads of the task. Default: [`PollInterval::Adaptive`].
    pub fn poll(mut self, interval: PollInterval) -> Self {
        self.settings.poll = interval;
        self
    }

    /// Fails before the create if a run costs more, or has no price: `"0.10"`, or a [`Decimal`]. Default: no limit.
    pub fn max_cost<Cost: TryInto<Decimal>>(mut self, max_cost: Cost) -> Self {
        match max_cost.try_into() {
            Ok(max_cost) => self.settings.max_cost = Some(max_cost),
            Err(_) => self.inputs = Err("max_cost is no decimal number; an example is \"0.10\"".to_owned()),
        }
        self
    }

    /// Sets the policy for the task of a run that is dropped, or whose deadline passes. Default: [`Abandon::Leave`].
    ///
    /// With [`Abandon::Cancel`], a queued task is canceled shortly before the deadline, so that the cancel can
    /// complete in time: a fifth of the deadline before it, at most 2 s. The run is then in a Tokio task of its own,
    /// which outlives it: if the run is dropped during a create, the create completes, and its task is canceled. A
    /// task that was [adopted](Outcome::is_adopted) without proof that it belongs to this run is never canceled.
    pub fn on_abandon(mut self, what: Abandon) -> Self {
        self.settings.on_abandon = what;
        self
    }

    /// Changes further options.
    ///
    /// ```
    /// # fn example(run: inferstore::Run) -> inferstore::Run {
    /// run.options(|options| options.require_serving = true)
    /// # }
    /// ```
    pub fn options(mut self, change: impl FnOnce(&mut RunOptions)) -> Self {
        change(&mut self.settings.options);
        self
    }

    /// Creates the task and returns its handle, without waiting for its end.
    ///
    /// # Errors
    ///
    /// Errors of the run up to the create; [`Error::InvalidArgument`] with [`RunOptions::delete_inputs_after`].
    /// Dropping the future during the create may leave a task.
    pub fn start(self) -> BoxFuture<'static, Result<Task>> {
        self.perform(ignored(), |run| run.start().boxed())
    }

    /// Performs all checks of the run before its first upload, and returns the inputs as sent, without files:
    /// their URLs are known after the upload. Files are read. Nothing is stored, created or billed.
    pub fn check(self) -> BoxFuture<'static, Result<Map<String, Value>>> {
        self.perform(ignored(), |run| run.check().boxed())
    }

    /// Checks the inputs and uploads the files, so that the task can be created exactly once, even across a crash:
    /// see [`PreparedRun`]. A failure deletes the uploads, which takes up to 10 seconds, also after the deadline.
    pub fn prepare(self) -> BoxFuture<'static, Result<PreparedRun>> {
        self.perform(ignored(), |run| run.prepare().boxed())
    }

    /// Performs a step within the span of the run, whose time begins at the first poll. Boxed, so that this
    /// crate compiles it once, and not each crate that runs a model.
    fn perform<Done: Send + 'static>(
        self,
        sink: Sink<RunEvent>,
        work: fn(Execution) -> BoxFuture<'static, Result<Done>>,
    ) -> BoxFuture<'static, Result<Done>> {
        let Self { core, model, inputs, settings, .. } = self;
        let caller = Span::current();
        Box::pin(async move {
            // A stream polled outside of any span belongs to the trace of its caller.
            let polled = Span::current();
            let parent = if polled.is_none() { caller } else { polled };
            let span = info_span!(parent: &parent, "inferstore_run", otel.kind = "internal", model);
            let perform = async move {
                let fields = inputs.map_err(Error::InvalidArgument)?.into_fields()?;
                let model = model_id(&model)?;
                let deadline = Deadline::after(settings.deadline);
                let targets = Mutex::default();
                work(Execution { core, model, fields, settings, deadline, sink, targets }).await
            };
            perform.instrument(span).await
        })
    }
}

impl<T: Send + 'static> Run<T> {
    /// Returns the run as a stream of events.
    pub fn events(self) -> RunEvents<T> {
        let convert = self.convert;
        Events::new(|sink| {
            let outcome = self.perform(sink, |run| run.run_to_end().boxed());
            async move { convert(outcome.await?) }.boxed()
        })
    }
}

awaited!(Run<T> => Outcome<T>, |run| run.events().into_future(), T);
