//! The steps of a run, from its inputs to its outcome.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use inferstore_api::types::{TaskId, TaskInput, TaskStatus, UploadFolder};
use inferstore_api::{Decimal, operations};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tracing::warn;

use crate::files::source::Prepared;
use crate::files::upload::upload;
use crate::inputs::{Input, check};
use crate::memory::{DeclaredInputs, RunState, UPLOAD_TTL, UploadKey, lock};
use crate::resources::{MAX_RECORDS, Model, Storage, Task, Tasks};
use crate::run::create::{Create, SentBefore};
use crate::run::wait::Waiter;
use crate::run::{Outcome, PreparedRun, RunEvent, RunOptions, outcome};
use crate::transport::redact::MAX_MESSAGE;
use crate::transport::{
    CallContext, CostLimit, Deadline, Error, ModelOffline, Result, Sink, TaskDisposition, UnknownOutcome,
};

/// How long the uploaded inputs of a run that has ended may take to be deleted.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);

/// For how long the task of a dropped run is canceled again when that fails.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the history may take to show how long a model took.
const LEARN_TIMEOUT: Duration = Duration::from_secs(5);

type Fields = BTreeMap<String, Input>;

/// The files among the inputs, by field.
type Files = BTreeMap<String, Prepared>;

/// One run under way.
pub(crate) struct Execution {
    model: Model,
    fields: Fields,
    options: RunOptions,
    deadline: Deadline,
    sink: Sink<RunEvent>,
    /// The URLs of the files among the inputs, so far.
    uploaded: Mutex<Vec<String>>,
    /// The URLs that files may have been uploaded to, also by an upload that was cut off.
    targets: Mutex<Vec<String>>,
}

impl Execution {
    pub(crate) fn new(model: Model, fields: Fields, options: RunOptions, sink: Sink<RunEvent>) -> Self {
        let (uploaded, targets) = (Mutex::default(), Mutex::default());
        Self { model, fields, options, deadline: Deadline::never(), sink, uploaded, targets }
    }

    /// The same run, whose time begins now.
    pub(crate) fn begin(self) -> Self {
        Self { deadline: Deadline::after(self.options.wait.deadline), ..self }
    }

    /// Runs the model to its end.
    pub(crate) async fn finish(self) -> Result<Outcome> {
        let deletes = self.options.delete_inputs_after;
        let input = self.ready(!deletes).await?;
        if self.options.learn_from_history {
            self.learn().await;
        }
        let created = Box::pin(self.create(input)).await;
        if deletes && let Err(error) = &created {
            self.clean_up(!matches!(error, Error::OutcomeUnknown(_))).await;
        }
        let (task, guard) = created?;
        let wait = self.options.wait.clone();
        let waiter = Waiter::new(&self.model.core, wait, self.deadline, self.sink.clone());
        let ended = Box::pin(waiter.of_run(self.model.checked_id()?).one(task)).await;
        disarm(guard);
        if deletes {
            self.clean_up(has_ended(&ended)).await;
        }
        let mut outcome = ended?;
        outcome.stored_inputs = std::mem::take(&mut *lock(&self.uploaded));
        Ok(outcome)
    }

    /// Creates the task without waiting for its end.
    pub(crate) async fn start(self) -> Result<Task> {
        if self.options.delete_inputs_after {
            return Err(Error::InvalidArgument(
                "delete_inputs_after is for a run that is awaited: nothing here sees the end of the task"
                    .to_owned(),
            ));
        }
        let input = self.ready(true).await?;
        let (id, guard) = Box::pin(self.create(input)).await?;
        disarm(guard);
        Ok(Task { model: Some(self.model.checked_id()?), ..Task::new(&self.model.core, id) })
    }

    /// Everything before the first upload.
    pub(crate) async fn check(self) -> Result<Map<String, Value>> {
        let (_, values) = self.deadline.bound(Box::pin(self.checked())).await?;
        Ok(values)
    }

    /// Everything before the create. The uploads are not shared, so that no other run has these inputs.
    pub(crate) async fn prepare(self) -> Result<PreparedRun> {
        if self.options.retry_create_on_rejection || self.options.retry_create_if_absent_after.is_some() {
            return Err(Error::InvalidArgument(
                "a prepared run has no retries of its create: call adopt_or_start again".to_owned(),
            ));
        }
        let model = self.model.checked_id()?;
        let inputs = self.ready(false).await?;
        let uploaded = std::mem::take(&mut *lock(&self.uploaded));
        if uploaded.is_empty() {
            // No upload has just shown the clock of the service, and this machine may have been suspended since the
            // last response.
            let tasks = Tasks { core: Arc::clone(&self.model.core) };
            self.deadline.bound(tasks.page_until(1, 0, self.deadline)).await?;
        }
        let prepared_at = self.model.core.service_time().unwrap_or_else(SystemTime::now);
        let RunOptions { max_cost, require_serving, .. } = self.options;
        let id = format!("{:032x}", fastrand::u128(..));
        let sent_before = SentBefore::default();
        let run =
            PreparedRun { model, inputs, uploaded, prepared_at, max_cost, require_serving, id, sent_before };
        // This client knows that no create was sent.
        self.model.core.memory.own_tasks.prepared_run(run.key(), RunState::New);
        Ok(run)
    }

    /// The files to upload, and the other inputs as they are sent.
    async fn checked(&self) -> Result<(Files, Map<String, Value>)> {
        self.model.checked_id()?;
        let (files, fields) = self.prepared().await?;
        let check = |declared: &DeclaredInputs| check(declared, &fields, self.options.allow_undeclared);
        let cached = if self.options.skip_validation {
            Some(DeclaredInputs::default())
        } else {
            self.model.declared_before()
        };
        let checked = match cached.and_then(|declared| check(&declared).ok()) {
            Some(checked) => checked,
            // The model may declare something else by now.
            None => check(&self.model.declared(self.deadline).await?)
                .map_err(|invalid| Error::Inputs(invalid.redacted(&self.model.core.redactor)))?,
        };
        for warning in checked.warnings {
            let warning = self.model.core.redactor.mask(&warning);
            warn!(model = self.model.id(), "{warning}");
            (self.sink)(RunEvent::Warning(warning));
        }
        let max_cost = self.options.max_cost.as_ref();
        check_limits(&self.model, max_cost, self.options.require_serving, self.deadline).await?;
        Ok((files, checked.values))
    }

    /// Prepares all files among the inputs, so that a missing one fails the run before anything is sent, and returns
    /// them with the inputs, which name their MIME types now.
    async fn prepared(&self) -> Result<(Files, Fields)> {
        let mut files = Files::new();
        let mut fields = self.fields.clone();
        for (field, input) in &mut fields {
            if let Input::File(file) = input {
                let prepared = file.prepare().await.map_err(|error| error.in_field(field))?;
                file.mime = Some(prepared.mime.clone());
                files.insert(field.clone(), prepared.with_unique_name());
            }
        }
        Ok((files, fields))
    }

    /// Everything before the create. A failure deletes what was uploaded for this run alone, which no other one can
    /// use.
    async fn ready(&self, is_shared: bool) -> Result<Map<String, Value>> {
        let ready = async {
            let (files, mut input) = self.checked().await?;
            input.extend(self.upload(files, is_shared).await?);
            Ok(input)
        };
        let ready = self.deadline.bound(Box::pin(ready)).await;
        if ready.is_err() && !is_shared {
            self.clean_up(true).await;
        }
        ready
    }

    /// Uploads the files concurrently, the same content once, and returns the URL for each field.
    /// `is_shared` when the uploads of other runs are reused, and these by them.
    async fn upload(&self, files: Files, is_shared: bool) -> Result<Map<String, Value>> {
        let mut contents: HashMap<UploadKey, (Prepared, Vec<String>)> = HashMap::new();
        for (field, file) in files {
            let key = UploadKey {
                folder: self.options.upload_folder.unwrap_or(UploadFolder::Samples),
                organization: self.options.org_username.clone(),
                mime: file.mime.clone(),
                content: file.content_id,
            };
            contents.entry(key).or_insert_with(|| (file, Vec::new())).1.push(field);
        }
        let uploads = contents.into_iter().map(|(key, (file, fields))| async move {
            let url = self.url(key, &file, &fields[0], is_shared).await?;
            lock(&self.uploaded).push(url.clone());
            Ok::<_, Error>(fields.into_iter().map(move |field| (field, Value::from(url.as_str()))))
        });
        let concurrency = self.model.core.max_concurrent_uploads.max(1);
        let urls: Vec<_> = stream::iter(uploads).buffer_unordered(concurrency).try_collect().await?;
        Ok(urls.into_iter().flatten().collect())
    }

    /// The URL of the content, perhaps of an earlier run.
    async fn url(&self, key: UploadKey, file: &Prepared, field: &str, is_shared: bool) -> Result<String> {
        let cache = &self.model.core.memory.uploads;
        if is_shared && let Some(url) = cache.get(&key, UPLOAD_TTL) {
            return Ok(url);
        }
        let events = Arc::clone(&self.sink);
        let event_field = field.to_owned();
        let sink = Arc::new(move |event| events(RunEvent::Upload { field: event_field.clone(), event }));
        let (organization, deadline) = (key.organization.clone(), self.deadline);
        let on_target = |url: &str| lock(&self.targets).push(url.to_owned());
        let upload = upload(&self.model.core, key.folder, file, organization, deadline, sink, &on_target);
        let url = upload.await.map_err(|error| error.in_field(field))?.download_url;
        if is_shared {
            cache.insert(key, url.clone());
        }
        Ok(url)
    }

    async fn create(&self, input: Map<String, Value>) -> Result<(TaskId, CancelGuard)> {
        let create = Create {
            retry_on_rejection: self.options.retry_create_on_rejection,
            retry_if_absent_after: self.options.retry_create_if_absent_after,
            deadline: self.deadline,
            ..Create::new(Arc::clone(&self.model.core), self.model.checked_id()?, TaskInput(input))
        };
        (self.sink)(RunEvent::Creating);
        // A caller that reads the events can drop the run before anything of the create is sent.
        tokio::task::yield_now().await;
        let created = if self.options.cancel_on_drop {
            create_guarded(create).await
        } else {
            create.send(&|| true).await.map(|task| (task, None))
        };
        let (task, guard) = created.inspect_err(|error| self.forget_after(error))?;
        (self.sink)(RunEvent::Created(task.clone()));
        Ok((task, guard))
    }

    /// A create that is refused for its inputs may mean that the declaration was outdated or an uploaded file is gone.
    fn forget_after(&self, error: &Error) {
        // Those of the account say nothing about the inputs.
        if error.is_permanent() && !matches!(error.status(), Some(401..=403)) {
            self.model.core.memory.declarations.forget(&self.model.id);
            for url in &*lock(&self.uploaded) {
                self.model.core.memory.uploads.forget_value(url.as_str());
            }
        }
    }

    /// Deletes the uploaded inputs if no task needs them, and reports those that are still stored. They stay in the list.
    async fn clean_up(&self, is_unused: bool) {
        if is_unused {
            let storage = Storage { core: Arc::clone(&self.model.core) };
            // Bounds how long the caller waits for the deletions.
            let deadline = Deadline::of_transfer(Some(DELETE_TIMEOUT));
            let targets = std::mem::take(&mut *lock(&self.targets));
            let uploaded = std::mem::take(&mut *lock(&self.uploaded));
            let mut stored = Vec::new();
            for url in targets {
                // A file of an organization is not found with the key of a member, who cannot delete it.
                let is_of_others = self.options.org_username.is_some() && uploaded.contains(&url);
                if let Err(error) = deadline.bound(storage.delete(&url)).await
                    && (is_of_others || !error.is_not_found())
                {
                    warn!(%error, "an uploaded input could not be deleted");
                    stored.push(url);
                }
            }
            *lock(&self.uploaded) = stored;
        }
        let stored = lock(&self.uploaded);
        if !stored.is_empty() {
            // Their names alone: a whole URL grants access.
            let names: Vec<_> = stored.iter().filter_map(|url| url.rsplit('/').next()).collect();
            let names = self.model.core.redactor.foreign(&names.join(" "), MAX_MESSAGE);
            warn!(count = stored.len(), names, "uploaded inputs are still stored");
        }
    }

    /// Learns the durations of the model from the end of the task history. A failure costs only that.
    async fn learn(&self) {
        let durations = &self.model.core.memory.durations;
        let tasks = Tasks { core: Arc::clone(&self.model.core) };
        let Ok(model) = self.model.checked_id() else { return };
        if !durations.of(&model).is_empty() {
            return;
        }
        let deadline = self.deadline.or_earlier(Deadline::after(Some(LEARN_TIMEOUT)));
        let Ok(first) = tasks.page_until(1, 0, deadline).await else { return };
        let offset = first.total.unwrap_or_default().saturating_sub(u64::from(MAX_RECORDS));
        let Ok(page) = tasks.page_until(MAX_RECORDS, offset, deadline).await else { return };
        for record in page.records {
            let is_success = record.status == Some(TaskStatus::Success);
            let is_of_model = record.model_id.as_deref() == Some(model.as_str());
            let duration = outcome::between(record.created_at.as_ref(), record.updated_at.as_ref());
            if let Some(duration) = duration.filter(|_| is_success && is_of_model) {
                durations.add(&model, duration);
            }
        }
    }
}

/// Fails when a run costs more, or when no node serves the model though one must.
pub(super) async fn check_limits(
    model: &Model,
    max_cost: Option<&Decimal>,
    require_serving: bool,
    deadline: Deadline,
) -> Result<()> {
    if let Some(max_cost) = max_cost {
        let quote = model.cost_until(deadline).await?.cost;
        // A missing quote is not a price of zero.
        if quote.as_ref().is_none_or(|quote| quote > max_cost) {
            let max_cost = max_cost.clone();
            return Err(Error::CostLimitExceeded(Box::new(CostLimit { quote, max_cost })));
        }
    }
    if require_serving && model.serving_until(deadline).await?.serving != Some(true) {
        return Err(Error::ModelOffline(Box::new(ModelOffline::new(model.checked_id()?))));
    }
    Ok(())
}

/// Whether the task of a run has ended, and reads its inputs no more.
fn has_ended<T>(ended: &Result<T>) -> bool {
    match ended {
        Ok(_) | Err(Error::TaskFailed(_) | Error::TaskCanceled(_)) => true,
        Err(Error::DeadlineReached(reached)) => reached.disposition == TaskDisposition::Canceled,
        Err(Error::ModelOffline(offline)) => offline.disposition == TaskDisposition::Canceled,
        Err(_) => false,
    }
}

/// Dropping it cancels the task of a run that was dropped before its end, if that was asked for.
type CancelGuard = Option<oneshot::Sender<()>>;

/// Creates the task in a Tokio task of its own, which outlives the run: a create that was sent finishes, and one
/// that was not is never sent when the run has been dropped.
async fn create_guarded(create: Create) -> Result<(TaskId, CancelGuard)> {
    let (created, receive_created) = oneshot::channel();
    let (guard, disarmed) = oneshot::channel();
    tokio::spawn(async move {
        let result = create.send(&|| !created.is_closed()).await;
        let task = result.as_ref().ok().cloned();
        if let Err(Err(error)) = created.send(result) {
            warn!(%error, "the create of a dropped run failed");
        }
        if let Some(id) = task
            && disarmed.await.is_err()
            && let Err(error) = cancel_dropped(&Task::new(&create.core, id)).await
        {
            warn!(%error, "the task of a dropped run could not be canceled");
        }
    });
    // Without a result the runtime shuts down, and the create may have been sent.
    let created = receive_created.await.unwrap_or_else(|_| {
        let context = CallContext::new(operations::CREATE_TASK.id, None);
        Err(Error::OutcomeUnknown(Box::new(UnknownOutcome { context, ..UnknownOutcome::default() })))
    });
    Ok((created?, Some(guard)))
}

/// Cancels the task of a dropped run. Nobody reads the response, so it is sent again as long as it may help.
async fn cancel_dropped(task: &Task) -> Result<()> {
    let deadline = Deadline::after(Some(CANCEL_TIMEOUT));
    let mut delay = Duration::from_secs(1);
    loop {
        let Err(error) = task.cancel_until(deadline).await else { return Ok(()) };
        delay = (delay * 2).max(error.retry_after().unwrap_or_default());
        if error.is_permanent() || !deadline.allows(delay) {
            // An earlier cancel may have had its effect, and only its response was lost.
            let status = task.get_until(deadline).await.ok().and_then(|task| task.status);
            return if status == Some(TaskStatus::Canceled) { Ok(()) } else { Err(error) };
        }
        sleep(delay).await;
    }
}

fn disarm(guard: CancelGuard) {
    // A receiver that is gone needs no signal.
    let _ = guard.map(|guard| guard.send(()));
}
