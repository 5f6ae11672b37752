//! Client: factory of all handles.

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::{BoxFuture, FutureExt};
use inferstore_api::types::{
    AccountBalance, ModelListRequest, ModelSummary, StoragePrice, StorageStatistics, TaskId,
};
use inferstore_api::{ApiKey, Envelope, Error as RawError, NoData, ResponseValue, Safety, operations};
use reqwest::Method;
use serde_json::value::RawValue;

use crate::builder::{ClientBuilder, Settings, check_key};
use crate::files::download::Download;
use crate::resources::{Folder, Keys, Listing, Model, Page, Tasks};
use crate::run::{Adopt, PreparedRun, Task};
use crate::transport::error::OTHER_REQUEST;
use crate::transport::{Core, Deadline, Error, Result};

/// Page size of a stream, unless the query sets one: below any plausible limit, because the document states none.
const RECORDS_PER_PAGE: u32 = 50;

/// Environment variable of the base URL.
pub const BASE_URL_VARIABLE: &str = "INFERSTORE_BASE_URL";

/// Environment variable of the API key.
pub const API_KEY_VARIABLE: &str = "INFERSTORE_API_KEY";

/// Client of the service. Clones are cheap, and share connections, caches, and the retry budget.
///
/// ```no_run
/// # async fn example() -> Result<(), inferstore::Error> {
/// use inferstore::Client;
///
/// let client = Client::new("https://host.example/api/v1", "key")?; // or Client::from_env()?
/// let balance = client.balance().await?;
/// println!("{}", balance.balance.unwrap_or_default());
/// # Ok(())
/// # }
/// ```
///
/// Every future of this crate needs a Tokio runtime, of any flavor, and owns its data: it can be spawned, joined and
/// selected. A method that returns a `Result` and has no section *Errors* fails like every call: see [`Error`].
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
    /// [`Error::Config`] if a variable is not set, and as [`new`](Self::new).
    pub fn from_env() -> Result<Self> {
        let variable = |name: &str| {
            let value = std::env::var(name).unwrap_or_default().trim().to_owned();
            let unset = || Error::Config(format!("the environment variable {name} is not set"));
            Some(value).filter(|value| !value.is_empty()).ok_or_else(unset)
        };
        Self::new(variable(BASE_URL_VARIABLE)?, variable(API_KEY_VARIABLE)?)
    }

    /// Returns a builder, for a client with other settings.
    pub fn builder(base_url: impl Into<String>, key: impl Into<ApiKey>) -> ClientBuilder {
        Settings::new(base_url, key).into()
    }

    /// Returns the handle of a model.
    pub fn model(&self, id: impl Into<String>) -> Model {
        Model { core: Arc::clone(&self.core), id: id.into() }
    }

    /// All models of the catalog that match the query, as a stream that reads page after page.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
    /// use inferstore::types::{ModelListRequest, ModelSort};
    ///
    /// let query = ModelListRequest { sort: Some(ModelSort::Trending), ..Default::default() };
    /// let mut models = client.models(query);
    /// while let Some(model) = models.next().await {
    ///     let model = model?;
    ///     println!("{} costs {}", model.id, model.price.unwrap_or_default());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `limit` is the size of a page and `offset` where to start. The stream ends with its first error.
    pub fn models(&self, query: ModelListRequest) -> Listing<ModelSummary> {
        let client = self.clone();
        let limit = query.limit.or(Some(RECORDS_PER_PAGE));
        Listing::new(query.offset.unwrap_or(0), move |offset| {
            client.models_page(ModelListRequest { limit, offset: Some(offset), ..query.clone() })
        })
    }

    /// Returns one page of the models that match the query.
    pub fn models_page(&self, query: ModelListRequest) -> BoxFuture<'static, Result<Page<ModelSummary>>> {
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            let page = core.call(operations::LIST_MODELS).send(|api| api.list_models(&query)).await?;
            Ok(Page::new(page.records, page.total))
        })
    }

    /// Returns the handle of a task.
    pub fn task(&self, id: impl Into<TaskId>) -> Task {
        Task::new(&self.core, id)
    }

    /// Returns the handle of the task history.
    pub fn tasks(&self) -> Tasks {
        Tasks { core: Arc::clone(&self.core) }
    }

    /// Returns the handle of a folder: an [`UploadFolder`](crate::types::UploadFolder), or another that is listed.
    pub fn folder(&self, name: impl Into<String>) -> Folder {
        Folder { core: Arc::clone(&self.core), name: name.into() }
    }

    /// Returns the number of stored files, and their total size.
    pub fn storage_statistics(&self) -> BoxFuture<'static, Result<StorageStatistics>> {
        let core = Arc::clone(&self.core);
        async move { core.call(operations::GET_STORAGE_STATISTICS).send(|api| api.get_storage_statistics()).await }
            .boxed()
    }

    /// Reads the price of storage.
    pub fn storage_price(&self) -> BoxFuture<'static, Result<StoragePrice>> {
        let core = Arc::clone(&self.core);
        async move { core.call(operations::GET_STORAGE_PRICE).send(|api| api.get_storage_price()).await }
            .boxed()
    }

    /// Deletes the stored file with this `download_url`.
    ///
    /// # Errors
    ///
    /// [`Error::Api`] if there is no such file, which is also the case after a delete with a lost response.
    pub fn delete_file(&self, download_url: impl Into<String>) -> BoxFuture<'static, Result<()>> {
        let core = Arc::clone(&self.core);
        let download_url = download_url.into();
        async move { core.delete_file(&download_url, Deadline::never()).await }.boxed()
    }

    /// Returns the balance, free credits, debt and earnings of the API key's account, as exact decimals.
    pub fn balance(&self) -> BoxFuture<'static, Result<AccountBalance>> {
        let core = Arc::clone(&self.core);
        async move { core.call(operations::GET_BALANCE).send(|api| api.get_balance()).await }.boxed()
    }

    /// Returns the handle of the account's API keys.
    pub fn keys(&self) -> Keys {
        Keys { core: Arc::clone(&self.core) }
    }

    /// Downloads a URL, such as an output of a model. The API key is not sent.
    pub fn download(&self, url: impl Into<String>) -> Download {
        Download::new(Arc::clone(&self.core), url)
    }

    /// Returns a client with another API key, for a key rotation or another account of the same service. Both
    /// clients share the connections, the retry budget, the declarations of models and the memory of tasks.
    /// The new client redacts both keys in every text of the service, and this one its own.
    ///
    /// ```no_run
    /// # async fn example(client: inferstore::Client, key: String) -> Result<(), inferstore::Error> {
    /// let client = client.with_key(key)?;
    /// client.balance().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the key is empty or not valid in a header.
    pub fn with_key(&self, key: impl Into<ApiKey>) -> Result<Self> {
        let key = key.into();
        check_key(&key)?;
        Ok(Self { core: Arc::new(self.core.with_key(key)) })
    }

    /// Finds the task that a [`PreparedRun`] has become, perhaps before a crash, or creates it: exactly once,
    /// even if the program is killed at any point.
    ///
    /// On a service with idempotency keys, this is an idempotent create with the key of the run, which any number of
    /// processes may send concurrently within the retention that the service announces (at least 24 hours).
    ///
    /// On another service, and for a run older than the retention, the client searches the history first. The create
    /// of a run from a journal may have been sent just before a crash, so a new task is created only when
    /// [`crate::Settings::create_settle_time`] has passed since the run was deserialized; until then, the client
    /// keeps searching. Read all runs of a journal at its start, so that this time passes for all of them at once. A
    /// search reads at most 12 pages of the history and the inputs of at most 300 tasks; in a busier history it ends
    /// with [`Error::OutcomeUnknown`]. Continue a journal within the retention of ended tasks (`--task-retention`): a
    /// deleted task is not found, and the run is created and billed again. Without idempotency keys, only one process
    /// at a time may work on a journal.
    ///
    /// # Errors
    ///
    /// Errors of a create, and errors of reading the history, whose [`operation`](crate::CallContext::operation) is
    /// `listTasks`; the latter say nothing about an earlier create. [`Error::OutcomeUnknown`] if the history was
    /// incomplete, or a clock of the service may be wrong by more than a minute.
    pub fn adopt_or_start(&self, prepared: PreparedRun) -> Adopt {
        Adopt::new(Arc::clone(&self.core), prepared)
    }

    /// Sends any other request to a path below the base URL, with an optional JSON body. Returns the raw response
    /// with its envelope. A `GET` is retried like every read, except after a success without JSON, which is the page
    /// of another path. Other requests are sent once, because their effect is unknown.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the path does not begin with a slash, or leaves the base URL.
    pub fn request(
        &self,
        method: Method,
        path: impl Into<String>,
        body: Option<Box<RawValue>>,
    ) -> BoxFuture<'static, Result<String>> {
        let core = Arc::clone(&self.core);
        let path = path.into();
        Box::pin(async move {
            let safety = if method == Method::GET { Safety::Repeatable } else { Safety::Once };
            let body = body.as_deref().map(RawValue::get);
            let call = core.call_unlisted(OTHER_REQUEST, safety);
            call.send(|api| around_text(api.send(method.clone(), &path, body))).await
        })
    }

    /// Returns the generated client: each operation of the document as a method, sent once without retries.
    pub fn raw(&self) -> &inferstore_api::Client {
        &self.core.api
    }

    /// Returns the time by the clock of the service. `None` before its first response, and after this machine was
    /// suspended.
    pub fn service_time(&self) -> Option<SystemTime> {
        self.core.service_time()
    }

    /// Returns the versioned root of the service.
    pub fn base_url(&self) -> &str {
        &self.core.base_url
    }
}

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
