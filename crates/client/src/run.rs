//! A run: check the inputs, pass the guards, upload the files, create the task, wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use inferstore_api::types::{TaskInput, UploadFolder};
use inferstore_api::{Decimal, ModelKind};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::client::Client;
use crate::create::Create;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::event::{OnEvent, RunEvent, RunEvents};
use crate::input_files::{self, InputFile, Uploads};
use crate::inputs::{Candidate, Input, IntoInputs, check};
use crate::models::Model;
use crate::outcome::Outcome;
use crate::schema::Declared;
use crate::tasks::Task;
use crate::wait::{Wait, Waiting};

/// How a model is run. Name what differs and take the rest from the default:
///
/// ```
/// use inferstore::{Decimal, RunOptions};
///
/// let options = RunOptions { max_cost: Some(Decimal::from(1)), ..RunOptions::default() };
/// ```
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// How long the run may take, and how it is waited for. The deadline bounds everything.
    pub wait: Wait,
    /// Refuses the run when it costs more.
    pub max_cost: Option<Decimal>,
    /// Refuses the run when no node serves the model now.
    pub require_serving: bool,
    /// Sends the inputs as they are, without reading what the model declares.
    pub skip_check: bool,
    /// Sends the create again after a 429 or 503. Only for a service that promises that such a
    /// refusal created nothing.
    pub repeat_refused_create: bool,
    /// Sends the create again when its answer was lost and the task history, read whole once more after
    /// so long, shows no task that could be it.
    ///
    /// **The history is no proof.** A create that was held up on its way, behind a gateway that has
    /// given up or in a service that is still working on it, can appear after the last look; then both
    /// tasks run, and both are billed. Choose longer than anything between here and there holds a
    /// request, and leave this out where a run is dear. Without it such a create ends in
    /// [`Error::OutcomeUnknown`], and you decide.
    pub repeat_absent_create: Option<Duration>,
    /// The folder that files among the inputs are uploaded into.
    pub upload_folder: UploadFolder,
    /// The organization that they are uploaded for, with a key of personal scope.
    pub org_username: Option<String>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            wait: Wait::default(),
            max_cost: None,
            require_serving: false,
            skip_check: false,
            repeat_refused_create: false,
            repeat_absent_create: None,
            upload_folder: UploadFolder::Samples,
            org_username: None,
        }
    }
}

impl Model {
    /// Runs the model and waits for its output.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use inferstore::Inputs;
    ///
    /// let inputs = Inputs::new().file("input_image", "photo.jpg").set("template", "v_shape").set("angle", 30);
    /// let outcome = client.model("color-harmonization").run(inputs).await?;
    /// for (name, url) in outcome.urls() {
    ///     println!("{name}: {url}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Inputs`] when the inputs do not fit what the model declares; nothing was sent then. Every
    /// error after the task was created carries its identifier: [`Error::task_id`].
    pub async fn run(&self, inputs: impl IntoInputs) -> Result<Outcome> {
        self.run_with(inputs, RunOptions::default()).await
    }

    /// Runs the model as told and waits for its output.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and [`Error::DeadlineReached`], [`Error::TooExpensive`] and
    /// [`Error::NotServed`] as the options ask for them.
    pub async fn run_with(&self, inputs: impl IntoInputs, options: RunOptions) -> Result<Outcome> {
        let fields = inputs.into_inputs()?.into_fields()?;
        Box::pin(Run::new(self.clone(), options).finish(fields, &mut |_| {})).await
    }

    /// Runs a model of a known kind: typed input, typed output.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use inferstore::{RunOptions, types};
    ///
    /// let input = types::ColorExtractionInput { input: "https://host.example/photo.jpg".to_owned() };
    /// let outcome = client.model("color-extraction").run_kind(&input, RunOptions::default()).await?;
    /// println!("{}", outcome.output.output);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`run_with`](Self::run_with), and [`Error::Output`] when the model returned something else.
    pub async fn run_kind<K>(&self, input: &K, options: RunOptions) -> Result<Outcome<K::Output>>
    where
        K: ModelKind + Serialize + Sync,
    {
        self.run_with(crate::Inputs::of(input)?, options).await?.of_kind::<K>()
    }

    /// Creates the task and returns its handle, without waiting for its end.
    ///
    /// # Errors
    ///
    /// As [`run_with`](Self::run_with), up to the create.
    pub async fn start(&self, inputs: impl IntoInputs, options: RunOptions) -> Result<Task> {
        let fields = inputs.into_inputs()?.into_fields()?;
        let (task, _) = Box::pin(Run::new(self.clone(), options).create(fields, &mut |_| {})).await?;
        Ok(task)
    }

    /// Checks everything that a run would check before its first upload, and returns the inputs with the
    /// spelling in which they would be sent. Files are looked at, and are not among them: what they
    /// become is known after the upload. Nothing is stored, created or billed.
    ///
    /// # Errors
    ///
    /// As [`run_with`](Self::run_with), up to the first upload.
    pub async fn check(&self, inputs: impl IntoInputs, options: RunOptions) -> Result<Map<String, Value>> {
        let fields = inputs.into_inputs()?.into_fields()?;
        let run = Run::new(self.clone(), options);
        let checked = Box::pin(run.deadline.bound(run.checked(&fields))).await?;
        Ok(checked.values)
    }

    /// Runs the model, as a stream of what happens.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client, inputs: inferstore::Inputs) -> Result<(), inferstore::Error> {
    /// use futures_util::TryStreamExt;
    /// use inferstore::{RunEvent, RunOptions};
    ///
    /// let mut events = client.model("haze-removal").follow(inputs, RunOptions::default())?;
    /// while let Some(event) = events.try_next().await? {
    ///     match event {
    ///         RunEvent::Created(task) => println!("created {task}"),
    ///         RunEvent::Status(status) => println!("{status}"),
    ///         RunEvent::Done(outcome) => println!("{}", outcome.output),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Settings`] at once when the inputs cannot be written as JSON; everything else comes as
    /// the last item of the stream.
    pub fn follow(&self, inputs: impl IntoInputs, options: RunOptions) -> Result<RunEvents> {
        let fields = inputs.into_inputs()?.into_fields()?;
        let run = Run::new(self.clone(), options);
        Ok(RunEvents::of(|mut on_event| async move { run.finish(fields, &mut *on_event).await }))
    }
}

/// One run, from its beginning on.
struct Run {
    model: Model,
    options: RunOptions,
    deadline: Deadline,
}

type Fields = BTreeMap<String, Input>;

impl Run {
    fn new(model: Model, options: RunOptions) -> Self {
        let deadline = Deadline::after(options.wait.deadline);
        Self { model, options, deadline }
    }

    fn client(&self) -> &Client {
        &self.model.client
    }

    async fn finish(self, fields: Fields, on_event: OnEvent<'_>) -> Result<Outcome> {
        let (task, uploaded) = self.create(fields, on_event).await?;
        let id = task.checked_id()?;
        let mut waiting = Waiting::begin(task, id, self.options.wait.clone(), self.deadline);
        let ended = waiting.until_the_end(on_event).await;
        if matches!(ended, Err(Error::TaskFailed(_))) {
            // Perhaps a file is no longer there; the next attempt uploads anew.
            self.client().inner.uploaded.forget(&uploaded);
        }
        Outcome::of(ended?)
    }

    /// The task, and the URLs of the files that were uploaded for it.
    async fn create(&self, fields: Fields, on_event: OnEvent<'_>) -> Result<(Task, Vec<String>)> {
        let model = self.model.checked_id()?;
        let prepared = self.deadline.bound(self.prepare(&fields, on_event)).await?;
        let create = Create {
            client: self.client(),
            model: &model,
            input: &prepared.input,
            repeat_refused: self.options.repeat_refused_create,
            repeat_absent: self.options.repeat_absent_create,
            deadline: self.deadline,
        };
        let task = match create.send().await {
            Ok(task) => task,
            Err(error) => return Err(self.refused(error, &fields, &prepared).await),
        };
        on_event(RunEvent::Created(task.clone()));
        Ok((self.client().task(task), prepared.uploaded))
    }

    /// Everything before the create. Money has not moved when it ends, whichever way.
    async fn prepare(&self, fields: &Fields, on_event: OnEvent<'_>) -> Result<Prepared> {
        let Ready { files, declared, values: mut input } = self.checked(fields).await?;
        let uploads = Uploads::new(self.client(), &self.options, self.deadline, on_event);
        let uploaded = uploads.urls(files).await?;
        let urls = uploaded.values().cloned().collect();
        input.extend(uploaded.into_iter().map(|(field, url)| (field, Value::String(url))));
        Ok(Prepared { input: TaskInput(input), uploaded: urls, declared })
    }

    /// Everything before the first upload.
    async fn checked(&self, fields: &Fields) -> Result<Ready> {
        let files = input_files::open(fields).await?;
        let declared = match self.options.skip_check {
            true => Declared::default(),
            false => self.model.declared(self.deadline).await?,
        };
        let checked = check(&declared, &candidates(fields, &files)).map_err(Error::Inputs)?;
        self.guard().await?;
        Ok(Ready { files, declared, values: checked.values })
    }

    async fn guard(&self) -> Result<()> {
        if let Some(max_cost) = &self.options.max_cost {
            let quote = self.model.cost_until(self.deadline).await?.cost;
            // A quote that is missing is not a price of zero.
            let quote = quote.ok_or_else(|| {
                Error::Settings(
                    "the service tells no price for the model, so max_cost cannot be kept".to_owned(),
                )
            })?;
            if quote > *max_cost {
                return Err(Error::TooExpensive { quote, max_cost: max_cost.clone() });
            }
        }
        if self.options.require_serving
            && self.model.serving_until(self.deadline).await?.serving != Some(true)
        {
            return Err(Error::NotServed(self.model.checked_id()?));
        }
        Ok(())
    }

    /// A refusal may mean that the model has changed since its declaration was read: then the fresh one
    /// says better what is wrong than the service does.
    async fn refused(&self, error: Error, fields: &Fields, prepared: &Prepared) -> Error {
        let may_be_about_inputs = matches!(&error, Error::Refused(context) if matches!(context.status, Some(400 | 404 | 409 | 422)));
        if !may_be_about_inputs || self.options.skip_check {
            return error;
        }
        let Ok(fresh) = self.model.declared_now(self.deadline).await else { return error };
        let as_sent = prepared.input.0.iter().filter(|(name, _)| fields.contains_key(*name));
        let sent = as_sent.map(|(name, value)| (name.clone(), Candidate::Value(value.clone()))).collect();
        match check(&fresh, &sent) {
            Err(invalid) if fresh != prepared.declared => Error::Inputs(invalid),
            _ => error,
        }
    }
}

/// What is ready to be uploaded.
struct Ready {
    files: Vec<InputFile>,
    declared: Declared,
    values: Map<String, Value>,
}

/// What is ready to be sent.
struct Prepared {
    input: TaskInput,
    uploaded: Vec<String>,
    declared: Declared,
}

fn candidates(fields: &Fields, files: &[InputFile]) -> BTreeMap<String, Candidate> {
    let candidate = |name: &String, input: &Input| match input {
        Input::Value(value) => Candidate::Value(value.clone()),
        Input::File(_) => {
            let file = files.iter().find(|file| file.field == *name);
            Candidate::File { mime: file.and_then(InputFile::known_mime).map(str::to_owned) }
        }
    };
    fields.iter().map(|(name, input)| (name.clone(), candidate(name, input))).collect()
}
