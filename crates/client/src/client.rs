//! The client: where it talks to, with which key, and the handles that it gives out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use inferstore_api::{ApiKey, http_client_builder};
use reqwest::redirect::Policy;

use crate::run::create::OwnTasks;
use crate::run::schema::Schemas;
use crate::run::uploads::UploadedFiles;
use crate::settings::{self, Settings};
use crate::transport::clock::ServiceClock;
use crate::transport::error::{Error, Result};
use crate::transport::retry::Budget;

/// Where `from_env` looks for the base URL.
pub const BASE_URL_VARIABLE: &str = "INFERSTORE_BASE_URL";

/// Where `from_env` looks for the API key.
pub const API_KEY_VARIABLE: &str = "INFERSTORE_API_KEY";

/// reqwest counts the silence before an answer from the start of the request, which would bound the
/// length of an upload. Transfers have watchdogs of their own.
const WATCHED_ELSEWHERE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A client of the service. It is cheap to clone, and clones share connections, what is known of the
/// models, and the budget for repeats.
///
/// ```no_run
/// # async fn example() -> Result<(), inferstore::Error> {
/// use inferstore::{ApiKey, Client};
///
/// let client = Client::new("https://host.example/api/v1", ApiKey::new("…"))?;
/// println!("{:?}", client.account().balance().await?.balance);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

/// What the clones of a client share.
pub(crate) struct Inner {
    /// The generated client, which carries the key.
    pub(crate) api: inferstore_api::Client,
    /// For object storage: it has never seen the key, and follows no redirect.
    pub(crate) storage: reqwest::Client,
    pub(crate) base_url: String,
    pub(crate) key: ApiKey,
    pub(crate) settings: Settings,
    pub(crate) budget: Budget,
    pub(crate) schemas: Schemas,
    pub(crate) clock: ServiceClock,
    pub(crate) own_tasks: OwnTasks,
    pub(crate) uploaded: UploadedFiles,
}

impl Client {
    /// A client for the service at `base_url`, which ends in a versioned root such as `/api/v1`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the base URL is not such a root, or would send the key in the clear to
    /// another machine.
    pub fn new(base_url: &str, key: ApiKey) -> Result<Self> {
        Self::with_settings(base_url, key, Settings::default())
    }

    /// A client from the environment: [`BASE_URL_VARIABLE`] and [`API_KEY_VARIABLE`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when one of them is missing, and as [`new`](Self::new).
    pub fn from_env() -> Result<Self> {
        let variable = |name: &str| {
            std::env::var(name)
                .ok()
                .filter(|value| !value.trim().is_empty())
                .ok_or_else(|| Error::InvalidArgument(format!("the environment variable {name} is not set")))
        };
        Self::new(&variable(BASE_URL_VARIABLE)?, ApiKey::new(variable(API_KEY_VARIABLE)?))
    }

    /// A client that behaves as told.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_settings(base_url: &str, key: ApiKey, settings: Settings) -> Result<Self> {
        let base_url = settings::base_url(base_url, settings.allow_insecure_http)?;
        if key.expose().is_empty() {
            return Err(Error::InvalidArgument("the API key is empty".to_owned()));
        }
        let builder = || {
            http_client_builder()
                .user_agent(&settings.user_agent)
                .connect_timeout(settings.connect_timeout)
                // Repeats are decided in one place, and that is not reqwest.
                .retry(reqwest::retry::never())
        };
        let build = |builder: reqwest::ClientBuilder| {
            builder
                .build()
                .map_err(|error| Error::InvalidArgument(format!("no HTTP client can be made: {error}")))
        };
        let http = match &settings.http {
            Some(http) => http.clone(),
            None => build(builder().read_timeout(settings.read_timeout))?,
        };
        let storage = match &settings.http_for_storage {
            Some(storage) => storage.clone(),
            None => build(builder().read_timeout(WATCHED_ELSEWHERE).redirect(Policy::none()))?,
        };
        let inner = Inner {
            api: inferstore_api::Client::new_with_client(&base_url, http, key.clone()),
            storage,
            base_url,
            key,
            settings,
            budget: Budget::new(),
            schemas: Schemas::default(),
            clock: ServiceClock::default(),
            own_tasks: OwnTasks::default(),
            uploaded: UploadedFiles::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The versioned root that the client talks to.
    pub fn base_url(&self) -> &str {
        &self.inner.base_url
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base_url", &self.inner.base_url).finish_non_exhaustive()
    }
}
