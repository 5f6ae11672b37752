//! The client: where handles come from.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::types::TaskId;
use inferstore_api::{ApiKey, Envelope, Error as RawError, NoData, ResponseValue, Safety};
use reqwest::Method;
use serde_json::value::RawValue;

use crate::builder::ClientBuilder;
use crate::files::download::Download;
use crate::profile;
use crate::resources::{Account, Folder, Model, Models, Storage, Task, Tasks};
use crate::run::{self, PreparedRun};
use crate::transport::error::OTHER_REQUEST;
use crate::transport::{Core, Error, Result};

/// The environment variable of the base URL.
pub const BASE_URL_VARIABLE: &str = "INFERSTORE_BASE_URL";

/// The environment variable of the API key.
pub const API_KEY_VARIABLE: &str = "INFERSTORE_API_KEY";

/// A client of the service. It is cheap to clone, and clones share connections, caches, and the retry
/// budget.
///
/// ```no_run
/// # async fn example() -> Result<(), inferstore::Error> {
/// use inferstore::Client;
///
/// let client = Client::new("https://host.example/api/v1", "key")?; // or Client::from_env()?
/// let balance = client.account().balance().await?;
/// println!("{}", balance.balance.unwrap_or_default());
/// # Ok(())
/// # }
/// ```
///
/// Every future of this crate needs a Tokio runtime, of any flavor, and owns its data: it can be spawned,
/// joined and selected.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) core: Arc<Core>,
}

impl Client {
    /// Creates a client for the service at `base_url`, a versioned root such as `https://host/api/v1`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`], as [`ClientBuilder::build`].
    pub fn new(base_url: impl Into<String>, key: impl Into<ApiKey>) -> Result<Self> {
        Self::builder(base_url, key).build()
    }

    /// Creates a client from the environment: [`BASE_URL_VARIABLE`] and [`API_KEY_VARIABLE`].
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when one of them is not set, and as [`new`](Self::new).
    pub fn from_env() -> Result<Self> {
        let variable = |name: &str| {
            profile::variable(name)
                .ok_or_else(|| Error::Config(format!("the environment variable {name} is not set")))
        };
        Self::new(variable(BASE_URL_VARIABLE)?, variable(API_KEY_VARIABLE)?)
    }

    /// Creates a client from a profile that the command `inferstore login` stored: the named one, else the
    /// one that `INFERSTORE_PROFILE` names, else the one in use. Where the profile has a `key_command`, this
    /// waits until it has printed the key.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when there is no such profile or its key cannot be read, and as [`new`](Self::new).
    pub fn from_profile<'a>(name: impl Into<Option<&'a str>>) -> Result<Self> {
        let (base_url, key) = profile::read(name.into())?;
        Self::new(base_url, key)
    }

    /// A builder of a client with other settings.
    pub fn builder(base_url: impl Into<String>, key: impl Into<ApiKey>) -> ClientBuilder {
        ClientBuilder::new(base_url.into(), key.into())
    }

    /// The model with this identifier.
    pub fn model(&self, id: impl Into<String>) -> Model {
        Model { core: Arc::clone(&self.core), id: id.into() }
    }

    /// The catalog of models.
    pub fn models(&self) -> Models {
        Models { core: Arc::clone(&self.core) }
    }

    /// The task with this identifier.
    pub fn task(&self, id: impl Into<TaskId>) -> Task {
        Task::new(&self.core, id)
    }

    /// The tasks of the account.
    pub fn tasks(&self) -> Tasks {
        Tasks { core: Arc::clone(&self.core) }
    }

    /// A folder by its name: one of those for uploads ([`UploadFolder`](crate::types::UploadFolder)), or
    /// any other that the service lists.
    pub fn folder(&self, name: impl Into<String>) -> Folder {
        Folder { core: Arc::clone(&self.core), name: name.into() }
    }

    /// The files of the account.
    pub fn storage(&self) -> Storage {
        Storage { core: Arc::clone(&self.core) }
    }

    /// The account that owns the API key.
    pub fn account(&self) -> Account {
        Account { core: Arc::clone(&self.core) }
    }

    /// Downloads a URL, such as an output of a model. The API key is not sent along.
    pub fn download(&self, url: impl Into<String>) -> Download {
        Download::new(Arc::clone(&self.core), url)
    }

    /// Finds the task that a [`PreparedRun`] has become, perhaps before a crash, or creates it: once,
    /// whenever the program was killed.
    ///
    /// A run that was read back from a journal may have been sent just before the crash, so its task is created
    /// only when [`ClientBuilder::create_settle_time`] has passed since it was deserialized: until then it is
    /// looked for. Read all runs of a journal at its start, so that this time passes for them together. Continue a
    /// journal within the time for which the service keeps ended tasks (`--task-retention`): a task that was deleted
    /// meanwhile is not found, and the run is created and billed again.
    ///
    /// Dropping the future may leave a task; call it again to find it.
    ///
    /// # Errors
    ///
    /// Those of a create, and those of reading the history, whose [`operation`](crate::CallContext::operation) is
    /// `listTasks`: these say nothing about a create that was sent before. [`Error::OutcomeUnknown`] when the history was
    /// not complete.
    pub fn adopt_or_start(&self, prepared: PreparedRun) -> BoxFuture<'static, Result<Task>> {
        run::adopt_or_start(Arc::clone(&self.core), prepared).boxed()
    }

    /// Sends any other request to a path below the base URL, with a JSON body or none, and returns the whole
    /// response as the service wrote it, envelope included.
    ///
    /// A `GET` is retried like every read, but not after a success without JSON: that is a page of another path.
    /// Anything else is sent once, because its effect is unknown.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the path does not begin with a slash or leaves the base URL, and those
    /// of every call.
    pub fn request(
        &self,
        method: Method,
        path: impl Into<String>,
        body: Option<Box<RawValue>>,
    ) -> BoxFuture<'static, Result<String>> {
        let core = Arc::clone(&self.core);
        let path = path.into();
        let send = async move {
            let safety = if method == Method::GET { Safety::Repeatable } else { Safety::Once };
            let body = body.as_deref().map(RawValue::get);
            let call = core.call_unlisted(OTHER_REQUEST, safety);
            call.send(|api| around_text(api.send(method.clone(), &path, body))).await
        };
        send.boxed()
    }

    /// The generated client below this one: each operation of the document as a method, sent once.
    pub fn raw(&self) -> &inferstore_api::Client {
        &self.core.api
    }

    /// The versioned root of the service.
    pub fn base_url(&self) -> &str {
        &self.core.base_url
    }
}

/// The envelope of a response around its own text.
async fn around_text(
    sent: impl Future<Output = Result<ResponseValue<Box<RawValue>>, RawError>>,
) -> Result<ResponseValue<Envelope<String>>, RawError> {
    let response = sent.await?;
    match serde_json::from_str::<Envelope<NoData>>(response.get()) {
        Ok(Envelope { status, message, data: NoData }) => {
            response.map(|text| Envelope { status, message, data: String::from(Box::<str>::from(text)) })
        }
        Err(error) => Err(RawError::InvalidResponsePayload(response.get().to_owned().into(), error)),
    }
}
