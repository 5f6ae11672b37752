//! Execution of a run: the steps from inputs to outcome, and the cleanup of a dropped run.

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::{Either, select};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use inferstore_api::types::{ModelId, UploadFolder};
use inferstore_api::{Decimal, operations};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, warn};

use crate::files::source::{Prepared, random_hex};
use crate::files::upload::upload;
use crate::inputs::{Input, check};
use crate::memory::{DeclaredInputs, RunState};
use crate::run::create::{Create, Created};
use crate::run::prepared::now;
use crate::run::task::{WaitOptions, cancel, wait};
use crate::run::{Abandon, Outcome, PreparedRun, RunEvent, Settings, Task};
use crate::transport::{
    CallContext, Core, CostLimit, Deadline, Error, MAX_MESSAGE, Result, Sink, TaskDisposition, UnknownOutcome,
};

const DELETE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a store may take to commit an upload whose connection was cut.
const LATE_UPLOAD: Duration = Duration::from_secs(1);

const CANCEL_TIMEOUT: Duration = Duration::from_secs(60);

type Fields = BTreeMap<String, Input>;

type Files = BTreeMap<String, Prepared>;

pub(crate) struct Execution {
    pub(super) core: Arc<Core>,
    pub(super) model: ModelId,
    pub(super) fields: Fields,
    pub(super) settings: Settings,
    pub(super) deadline: Deadline,
    pub(super) sink: Sink<RunEvent>,
    /// URLs to which files may have been uploaded, including by an upload that was cut off.
    pub(super) targets: Mutex<Vec<String>>,
}

/// Caller of a run.
#[derive(Default)]
struct Caller {
    /// Canceled when the caller drops the run.
    dropped: CancellationToken,
    /// Asks for the next poll of a caller that is another Tokio task.
    next_poll: Option<oneshot::Sender<oneshot::Sender<()>>>,
}

impl Caller {
    /// Lets a caller that reads an event drop the run before anything else happens.
    async fn polls_again(&mut self) {
        let Some(ask) = self.next_poll.take() else { return tokio::task::yield_now().await };
        let (go, polled) = oneshot::channel();
        let _ = ask.send(go);
        if polled.await.is_err() {
            // The caller has dropped the run, and cancels the token a moment later.
            self.dropped.cancelled().await;
        }
    }
}

/// Inputs as sent, and the URLs of the uploads among them.
type Ready = (Map<String, Value>, Vec<String>);

impl Execution {
    /// Runs the model to its end, in a Tokio task that outlives the caller if a dropped run is to be cleaned up.
    pub(crate) async fn run_to_end(self) -> Result<Outcome> {
        let dropped = CancellationToken::new();
        if self.settings.on_abandon == Abandon::Leave {
            return self.outcome(Caller { dropped, next_poll: None }).await;
        }
        let _caller = dropped.clone().drop_guard();
        let (ask, asked) = oneshot::channel();
        let run = self.outcome(Caller { dropped, next_poll: Some(ask) });
        let mut run = tokio::spawn(run.in_current_span());
        let ended = match select(&mut run, asked).await {
            Either::Left((ended, _)) => ended,
            Either::Right((polled, _)) => {
                // The event may have been sent during this poll, after the caller has looked for events.
                tokio::task::yield_now().await;
                _ = polled.map(|polled| polled.send(()));
                run.await
            }
        };
        match ended.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(result) => result,
            Err(Ok(panic)) => resume_unwind(panic),
            // The runtime is shutting down, and the create may have been sent.
            Err(Err(_)) => {
                let context = CallContext::new(operations::CREATE_TASK.id, None);
                Err(Error::OutcomeUnknown(Box::new(UnknownOutcome { context, ..UnknownOutcome::default() })))
            }
        }
    }

    pub(crate) async fn start(self) -> Result<Task> {
        if self.settings.options.delete_inputs_after {
            return Err(Error::InvalidArgument(
                "delete_inputs_after is for a run that is awaited: nothing here sees the end of the task"
                    .to_owned(),
            ));
        }
        let (inputs, uploaded) = self.ready(self.deletes_uploads()).await?;
        let created = self.create(inputs, !uploaded.is_empty(), &mut Caller::default()).await?;
        Ok(self.task(&created))
    }

    async fn outcome(self, mut caller: Caller) -> Result<Outcome> {
        let Some(ready) = caller.dropped.run_until_cancelled(self.ready(self.deletes_uploads())).await else {
            if self.deletes_uploads() {
                self.clean_up_cut().await;
            }
            return Err(was_dropped());
        };
        // Not raced with the caller: a sent create is awaited, because its task may have to be canceled.
        let (inputs, uploaded) = ready?;
        let created = self.create(inputs, !uploaded.is_empty(), &mut caller).await?;
        let task = self.task(&created);
        // An adopted task may belong to another program, unless an upload of this run is among its inputs.
        let is_own = !created.is_adopted || !uploaded.is_empty();
        let cancels = self.settings.on_abandon != Abandon::Leave && is_own;
        let poll = self.settings.poll.clone();
        let options = WaitOptions { poll, cancel_at_deadline: cancels };
        let wait = Box::pin(wait(&task, options, self.deadline, &self.sink, None));
        let Some(ended) = caller.dropped.run_until_cancelled(wait).await else {
            let has_ended = cancels && abandon(&task).await;
            if self.deletes_uploads() {
                self.clean_up(Vec::new(), has_ended).await;
            }
            return Err(was_dropped());
        };
        let has_result = matches!(ended, Ok(_) | Err(Error::TaskFailed(_) | Error::TaskCanceled(_)));
        let deletes =
            if has_result { self.settings.options.delete_inputs_after } else { self.deletes_uploads() };
        let is_canceled =
            ended.as_ref().is_err_and(|error| error.disposition() == Some(TaskDisposition::Canceled));
        let stored =
            if deletes { self.clean_up(uploaded, has_result || is_canceled).await } else { uploaded };
        let mut outcome = ended?;
        outcome.stored_inputs = stored;
        outcome.is_adopted = created.is_adopted;
        Ok(outcome)
    }

    fn task(&self, created: &Created) -> Task {
        Task::new(&self.core, created.task.clone()).of_model(self.model.clone())
    }

    fn deletes_uploads(&self) -> bool {
        self.settings.options.delete_inputs_after || self.settings.on_abandon == Abandon::CancelAndDelete
    }

    pub(crate) async fn check(self) -> Result<Map<String, Value>> {
        Ok(self.deadline.bound(Box::pin(self.checked())).await?.1)
    }

    pub(crate) async fn prepare(self) -> Result<PreparedRun> {
        let (inputs, uploaded) = self.ready(true).await?;
        if !self.fields.values().any(|input| matches!(input, Input::File(_))) {
            // Without an upload, no recent response shows the clock of the service, and this machine may have
            // been suspended since the last one.
            self.deadline.bound(self.core.list_tasks(1, 0, self.deadline)).await?;
        }
        let run = PreparedRun {
            model: self.model,
            inputs,
            uploaded,
            prepared_at: self.core.service_time().unwrap_or_else(SystemTime::now),
            max_cost: self.settings.max_cost,
            require_serving: self.settings.options.require_serving,
            id: random_hex(),
            sent_before: now(),
        };
        // This client knows that no create was sent.
        self.core.memory.prepared_run(&run.key(), RunState::New);
        Ok(run)
    }

    async fn checked(&self) -> Result<(Files, Map<String, Value>)> {
        let (files, fields) = self.prepared_files().await?;
        let cached = if self.settings.options.skip_validation {
            Some(DeclaredInputs::default())
        } else {
            self.core.cached_declaration(&self.model)
        };
        let values = match cached.and_then(|declared| check(&declared, &fields).ok()) {
            Some(values) => values,
            // The declaration may have changed since it was cached.
            None => {
                let version = self.core.versioning(&self.model, self.deadline).await?;
                check(&version.input_format.unwrap_or_default(), &fields)
                    .map_err(|invalid| Error::Inputs(invalid.redacted(&self.core.redactor)))?
            }
        };
        let Settings { max_cost, options, .. } = &self.settings;
        check_limits(&self.core, &self.model, max_cost.as_ref(), options.require_serving, self.deadline)
            .await?;
        Ok((files, values))
    }

    /// Prepares the files, so that a missing one fails the run before anything is sent; adds MIME types and pixels.
    async fn prepared_files(&self) -> Result<(Files, Fields)> {
        let key = self.settings.options.reuse_uploads.then_some(self.core.name_hasher);
        let mut files = Files::new();
        let mut fields = self.fields.clone();
        for (field, input) in &mut fields {
            if let Input::File(file) = input {
                let prepared = file.prepare(key).await.map_err(|error| error.in_field(field))?;
                file.mime = Some(prepared.mime.clone());
                file.pixels = prepared.pixels;
                files.insert(field.clone(), prepared);
            }
        }
        Ok((files, fields))
    }

    /// Runs all steps before the create. A failure deletes the uploads, if `deletes` is set.
    async fn ready(&self, deletes: bool) -> Result<Ready> {
        let ready = async {
            let (files, mut inputs) = self.checked().await?;
            let (urls, uploaded) = self.upload(files).await?;
            inputs.extend(urls);
            Ok((inputs, uploaded))
        };
        let ready = self.deadline.bound(Box::pin(ready)).await;
        match &ready {
            Err(error) if deletes && error.is_timeout() => self.clean_up_cut().await,
            Err(_) if deletes => _ = self.clean_up(Vec::new(), true).await,
            _ => {}
        }
        ready
    }

    /// Uploads equal content once. Returns the URL of each field, and the URLs of uploads of this run alone.
    async fn upload(&self, files: Files) -> Result<(Map<String, Value>, Vec<String>)> {
        let options = &self.settings.options;
        // Without idempotency keys, only a unique upload can identify a lost create.
        let knows_keys = self.core.key_retention().is_some();
        let reuses_uploads = options.reuse_uploads && !self.deletes_uploads() && knows_keys;
        let mut contents: HashMap<(String, u128), (Prepared, Vec<String>)> = HashMap::new();
        for (field, file) in files {
            let content = (file.mime.clone(), file.content_id);
            contents.entry(content).or_insert_with(|| (file, Vec::new())).1.push(field);
        }
        let uploads = contents.into_values().map(|(file, fields)| async move {
            let (events, field) = (Arc::clone(&self.sink), fields[0].clone());
            let sink = Arc::new(move |event| events(RunEvent::Upload { field: field.clone(), event }));
            let file = file.with_stored_name(reuses_uploads);
            let on_target = |url: &str| {
                if !reuses_uploads {
                    self.targets.lock().push(url.to_owned());
                }
            };
            let folder = options.upload_folder.unwrap_or(UploadFolder::Samples);
            let organization = options.org_username.clone();
            let upload = upload(&self.core, folder, &file, organization, self.deadline, sink, &on_target);
            let url = upload.await.map_err(|error| error.in_field(&fields[0]))?.download_url;
            Ok::<_, Error>((fields, url))
        });
        let concurrency = self.core.max_concurrent_uploads.max(1);
        let uploads: Vec<_> = stream::iter(uploads).buffer_unordered(concurrency).try_collect().await?;
        let mut urls = Map::new();
        let mut uploaded = Vec::new();
        for (fields, url) in uploads {
            urls.extend(fields.into_iter().map(|field| (field, Value::from(url.as_str()))));
            if !reuses_uploads {
                uploaded.push(url);
            }
        }
        Ok((urls, uploaded))
    }

    /// Creates the task. A failure deletes the uploads, if requested and no task may need them.
    async fn create(
        &self,
        inputs: Map<String, Value>,
        has_uploads: bool,
        caller: &mut Caller,
    ) -> Result<Created> {
        let create = Create::new(&self.core, &random_hex(), &self.model, inputs, has_uploads, self.deadline)?;
        (self.sink)(RunEvent::Creating);
        caller.polls_again().await;
        let created = Box::pin(create.send(&|| !caller.dropped.is_cancelled())).await;
        if let Err(error) = &created {
            // A rejection may mean that the cached declaration is outdated, unless its reason is the account.
            if error.is_permanent() && !matches!(error.status(), Some(401..=403)) {
                self.core.memory.declarations.forget(&self.model);
            }
            if self.deletes_uploads() {
                self.clean_up(Vec::new(), !matches!(error, Error::OutcomeUnknown(_))).await;
            }
        }
        let created = created?;
        (self.sink)(RunEvent::Created(created.task.clone()));
        Ok(created)
    }

    /// Deletes the uploads of a run dropped before its create, and again later: a store may still commit one.
    async fn clean_up_cut(&self) {
        self.clean_up(Vec::new(), true).await;
        // Targets that were not found.
        if !self.targets.lock().is_empty() {
            sleep(LATE_UPLOAD).await;
            self.clean_up(Vec::new(), true).await;
        }
    }

    /// Deletes uploads that no task needs. Reports and returns those still stored. Keeps targets that were not found.
    async fn clean_up(&self, uploaded: Vec<String>, is_unused: bool) -> Vec<String> {
        let targets = std::mem::take(&mut *self.targets.lock());
        let mut stored = Vec::new();
        if is_unused {
            // Bounds the time that the caller waits for the deletions.
            let deadline = Deadline::of_transfer(Some(DELETE_TIMEOUT));
            for url in targets {
                // A member's key gets a 404 for a file of an organization, which it cannot delete.
                let is_of_others = self.settings.options.org_username.is_some() && uploaded.contains(&url);
                match deadline.bound(self.core.delete_file(&url, deadline)).await {
                    Ok(()) => {}
                    Err(error) if error.is_not_found() && !is_of_others => self.targets.lock().push(url),
                    Err(error) => {
                        warn!(%error, "an uploaded input could not be deleted");
                        stored.push(url);
                    }
                }
            }
        } else {
            stored = if uploaded.is_empty() { targets } else { uploaded };
        }
        if !stored.is_empty() {
            // Names only: a whole URL grants access.
            let names: Vec<_> = stored.iter().filter_map(|url| url.rsplit('/').next()).collect();
            let names = self.core.redactor.foreign(&names.join(" "), MAX_MESSAGE);
            warn!(count = stored.len(), names, "uploaded inputs are still stored");
        }
        stored
    }
}

/// Cancels the task of a dropped run. Returns true if the task has ended.
async fn abandon(task: &Task) -> bool {
    let (disposition, read) = cancel(task, Deadline::after(Some(CANCEL_TIMEOUT))).await;
    let has_ended =
        disposition == TaskDisposition::Canceled || read.is_some_and(|read| read.outcome.is_some());
    if !has_ended {
        warn!(?disposition, "the task of a dropped run could not be canceled");
    }
    has_ended
}

fn was_dropped() -> Error {
    Error::InvalidArgument("the run was dropped".to_owned())
}

pub(super) async fn check_limits(
    core: &Core,
    model: &ModelId,
    max_cost: Option<&Decimal>,
    require_serving: bool,
    deadline: Deadline,
) -> Result<()> {
    if let Some(max_cost) = max_cost {
        let quote = core.model_cost(model, deadline).await?.cost;
        // A missing quote is not a price of zero.
        if quote.as_ref().is_none_or(|quote| quote > max_cost) {
            let max_cost = max_cost.clone();
            return Err(Error::CostLimitExceeded(Box::new(CostLimit { quote, max_cost })));
        }
    }
    if require_serving && core.model_serving(model, deadline).await?.serving != Some(true) {
        return Err(Error::ModelOffline(model.clone()));
    }
    Ok(())
}
