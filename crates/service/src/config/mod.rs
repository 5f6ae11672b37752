//! Settings of a service. The defaults suit a laptop.

mod bucket;
mod cluster;
#[cfg(feature = "controls")]
mod controls;
mod named_limits;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use axum::http::HeaderValue;
use serde::{Deserialize, Serialize};
use url::Url;

pub use bucket::S3Config;
pub use cluster::{DatabaseUrl, NotASetting, Roles};
#[cfg(feature = "controls")]
pub use controls::ControlsConfig;

use crate::accounts::{OPERATOR, check_name};
use crate::ledger::{Money, Purses};
use crate::queue::InsufficientBalance;
use crate::telemetry::check_endpoint;
use crate::{Error, Result};
use named_limits::seconds;

/// Location of a service's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// A temporary folder, deleted when the service ends. Nothing is synced to the disk.
    Ephemeral,
    /// This folder, created if missing. Acknowledged writes survive a power failure.
    Folder(PathBuf),
}

/// Settings of one service. A policy that is None (default) keeps the value in the database.
///
/// ```
/// use inferstore_service::{Config, InsufficientBalance};
///
/// let mut config = Config::ephemeral();
/// config.insufficient_balance = InsufficientBalance::FailTask;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Location of the data.
    pub data: Data,
    /// PostgreSQL database for everything but the bytes of files; None (default): a database in the data folder.
    pub database: Option<DatabaseUrl>,
    /// Roles of this process.
    pub roles: Roles,
    /// S3 bucket for the bytes of files. None (default): the data folder.
    pub objects: Option<S3Config>,
    /// Address of the API's listener. Port 0 takes a free port.
    pub api: SocketAddr,
    /// Address of the object store's listener.
    pub storage: SocketAddr,
    /// Address of the listener for health and metrics; None for no listener.
    pub operations: Option<SocketAddr>,
    /// Base URL of an OpenTelemetry collector (OTLP over HTTP); None: no export. Needs the feature `otel`.
    pub otlp_endpoint: Option<String>,
    /// Address of the node API's listener, where external nodes claim tasks; None for no listener.
    pub nodes: Option<SocketAddr>,
    /// Test controls. None (default): no controls.
    #[cfg(feature = "controls")]
    pub controls: Option<ControlsConfig>,
    /// Public base URL of the object store and of every `download_url`, if other than the listening address.
    pub storage_url: Option<String>,
    /// Origins whose pages may use object storage; `*` (default): all. Signatures and unguessable URLs protect files.
    pub storage_origins: Vec<CorsOrigin>,
    /// Retention of orphaned blobs, to which no row refers, in `objects/orphans`.
    pub orphan_retention: Duration,
    /// Policy: retention of output files, whose URLs then return 404; initially 30 days (`Duration::MAX`: forever).
    pub output_retention: Option<Duration>,
    /// First account of a new service.
    pub first_account: FirstAccount,
    /// Policy for a task whose price exceeds the balance.
    pub insufficient_balance: InsufficientBalance,
    /// Lifetime of an upload target (presigned upload).
    pub target_life: Duration,
    /// Policy: storage price of one GiB (2^30 bytes) for one day, initially 0.001.
    pub storage_price_per_gib_day: Option<Money>,
    /// Policy: an account makes and revokes its own keys over the API, with an unrestricted key. Initially false.
    pub owners_manage_keys: Option<bool>,
    /// Interval of storage billing, at least one second and at most a day.
    pub storage_billing_interval: Duration,
    /// Number of concurrent tasks in this process; 0 if only other processes run tasks.
    pub workers: usize,
    /// Command of the process that runs built-in models: a program that calls `serve_models` with the two arguments
    /// that the service appends. None (default) runs the models in this process.
    pub model_process: Option<Vec<OsString>>,
    /// Built-in models that this process does not run: their tasks wait for an external node.
    pub excluded_models: BTreeSet<String>,
    /// Lease duration: a node without a heartbeat for this time loses its tasks to other nodes.
    pub lease: Duration,
    /// Number of leases after which an unfinished task fails. Released leases do not count.
    pub lease_attempts: i64,
    /// Time from lease expiry until a task fails if no live node serves its model.
    pub lease_grace: Duration,
    /// Policy: maximum time in the queue, after which a task fails unbilled. Initially forever (`Duration::MAX`).
    pub queue_timeout: Option<Duration>,
    /// Policy: retention of ended tasks, initially forever (`Duration::MAX`).
    pub task_retention: Option<Duration>,
    /// Policy: retention of movements of money of no task, which are then folded into sums; an account with at most 50
    /// older ones keeps them. Initially forever.
    pub movement_retention: Option<Duration>,
    /// Limits on requests, connections and runs.
    pub limits: Limits,
    /// Maximum requests per second of one account, with a burst of one second's worth (429). None: no limit.
    pub request_rate: Option<NonZeroU32>,
    /// Origins of web pages that may call the API from a browser.
    pub cors_origins: Vec<CorsOrigin>,
    /// Time for which a start waits for an external database or bucket that is unreachable or locked.
    pub start_timeout: Duration,
    /// Time of a graceful shutdown, after which requests are aborted and running tasks restart on a node later.
    pub shutdown_timeout: Duration,
    /// Allows a start on a file system without locks, where a second service could open the same folder.
    pub allow_unlocked_folder: bool,
    /// Seed that makes all identifiers and secrets predictable, for tests; with ephemeral data only.
    pub seed: Option<u64>,
}

/// Origin of web pages, such as `https://app.example`, or `*` for all origins.
///
/// ```
/// use inferstore_service::CorsOrigin;
///
/// assert!("https://app.example".parse::<CorsOrigin>().is_ok());
/// assert!("https://app.example/page".parse::<CorsOrigin>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsOrigin(pub(crate) HeaderValue);

impl CorsOrigin {
    /// Returns `*`, for every origin.
    #[must_use]
    pub fn any() -> Self {
        Self(HeaderValue::from_static("*"))
    }
}

impl FromStr for CorsOrigin {
    type Err = NotASetting;

    fn from_str(text: &str) -> Result<Self, NotASetting> {
        // Browsers send the origin in exactly this spelling.
        let is_origin = Url::parse(text).is_ok_and(|url| url.origin().ascii_serialization() == text);
        match HeaderValue::from_str(text) {
            Ok(value) if is_origin || text == "*" => Ok(Self(value)),
            _ => Err(NotASetting(
                "an origin is a scheme, a host and a port, such as https://app.example, or *",
            )),
        }
    }
}

/// First account of a new service, a personal account.
#[derive(Clone)]
#[non_exhaustive]
pub struct FirstAccount {
    /// Username.
    pub username: String,
    /// Balance.
    pub balance: Money,
    /// Free credits.
    pub free_balance: Money,
    /// API key; None generates a key.
    pub api_key: Option<String>,
}

impl FirstAccount {
    fn check(&self) -> Result<()> {
        let Self { balance, free_balance, .. } = *self;
        let name = match &*self.username {
            OPERATOR => Err("the name is that of the operator"),
            username => check_name(username),
        };
        name.map_err(|why| {
            let cause = format!("the first account cannot be called {:?}: {why}", self.username);
            Error::setting("reading the settings", cause)
        })?;
        let begins = Purses { balance, free: free_balance, ..Purses::default() };
        if balance < Money::ZERO || free_balance < Money::ZERO || begins.check_room_for(Money::ZERO).is_err()
        {
            let cause = format!(
                "the first account cannot begin with a balance of {balance} and {free_balance} free credits: neither \
                 is below zero, nor both together above the largest amount"
            );
            return Err(Error::setting("reading the settings", cause));
        }
        Ok(())
    }
}

impl std::fmt::Debug for FirstAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FirstAccount")
            .field("username", &self.username)
            .field("balance", &self.balance)
            .field("free_balance", &self.free_balance)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .finish()
    }
}

/// Limits per request, connection, account and run, so that no client can starve the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size of a JSON body in bytes.
    pub body: usize,
    /// Maximum number of concurrent API requests, and of uploads; one account may have a quarter. More get 503 or 429.
    pub max_requests: usize,
    /// Maximum number of forms read before their signature is known. A further form aborts the oldest.
    pub unsigned_forms: usize,
    /// Maximum number of output files of a run.
    pub outputs: u64,
    /// Maximum total size of the output files of a run in bytes.
    pub output_bytes: u64,
    /// Maximum of open connections of all listeners, if open files allow; a further one closes the one idle longest.
    pub max_connections: usize,
    /// Timeout of a request head, and time for which the rest of a refused body is read.
    #[serde(with = "seconds")]
    pub head_timeout: Duration,
    /// Maximum idle time of a connection between two requests.
    #[serde(with = "seconds")]
    pub keep_alive: Duration,
    /// Timeout of a JSON body.
    #[serde(with = "seconds")]
    pub body_time: Duration,
    /// Time in which a client must send at least 64 KiB of an upload.
    #[serde(with = "seconds")]
    pub upload_idle: Duration,
    /// Time in which a client must read at least 64 KiB of a response.
    #[serde(with = "seconds")]
    pub response_timeout: Duration,
    /// Timeout of the database in a health check.
    #[serde(with = "seconds")]
    pub health_timeout: Duration,
    /// Maximum page size of the model list.
    pub models_page: u32,
    /// Maximum page size of a folder.
    pub files_page: u32,
    /// Timeout of a run.
    #[serde(with = "seconds")]
    pub run: Duration,
    /// Maximum number of pixels of a picture.
    pub pixels: u64,
    /// Maximum memory of a run in bytes.
    pub memory: u64,
    /// Maximum memory of all concurrent runs of this process in bytes; more runs wait.
    pub memory_of_all_runs: u64,
    /// Maximum size of a task's inputs as JSON, in bytes. Files are given by URL.
    pub input: usize,
    /// Maximum number of unfinished tasks of one account; more are refused with 429.
    pub account_unfinished: u32,
    /// Maximum number of computing tasks of one account; more wait in the queue.
    pub account_running: u32,
    /// Maximum number of unused upload targets of one account, until an hour after expiry; more get 429.
    pub account_targets: u32,
}

/// Maximum of all timeouts, because some clocks cannot add an arbitrary duration to an instant.
const MAX_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// Minimum lease duration. A node sends three heartbeats per lease duration.
const MIN_LEASE: Duration = Duration::from_millis(100);

pub(crate) const FREE_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

impl Config {
    /// Settings for free ports of this machine and temporary data.
    pub fn ephemeral() -> Self {
        Self {
            data: Data::Ephemeral,
            database: None,
            roles: Roles::default(),
            objects: None,
            api: FREE_PORT,
            storage: FREE_PORT,
            operations: None,
            otlp_endpoint: None,
            nodes: None,
            #[cfg(feature = "controls")]
            controls: None,
            storage_url: None,
            storage_origins: vec![CorsOrigin::any()],
            orphan_retention: Duration::from_hours(7 * 24),
            output_retention: None,
            first_account: FirstAccount {
                username: "demo".to_owned(),
                balance: Money::from_smallest(100_000_000_000),
                free_balance: Money::from_smallest(5_000_000_000),
                api_key: None,
            },
            insufficient_balance: InsufficientBalance::default(),
            target_life: Duration::from_mins(15),
            storage_price_per_gib_day: None,
            owners_manage_keys: None,
            storage_billing_interval: Duration::from_hours(1),
            workers: std::thread::available_parallelism().map_or(2, usize::from),
            model_process: None,
            excluded_models: BTreeSet::new(),
            lease: Duration::from_secs(30),
            lease_attempts: 5,
            lease_grace: Duration::from_mins(10),
            queue_timeout: None,
            task_retention: None,
            movement_retention: None,
            limits: Limits {
                body: 1 << 20,
                max_requests: 512,
                unsigned_forms: 256,
                outputs: 32,
                output_bytes: 512 << 20,
                max_connections: 16_384,
                head_timeout: Duration::from_secs(10),
                keep_alive: Duration::from_secs(75),
                body_time: Duration::from_secs(30),
                upload_idle: Duration::from_mins(1),
                response_timeout: Duration::from_mins(1),
                health_timeout: Duration::from_secs(5),
                models_page: 100,
                files_page: 1_000,
                run: Duration::from_mins(2),
                pixels: 50_000_000,
                memory: 1 << 30,
                memory_of_all_runs: 2 << 30,
                input: 256 << 10,
                account_unfinished: 10_000,
                account_running: 256,
                account_targets: 10_000,
            },
            request_rate: None,
            cors_origins: Vec::new(),
            start_timeout: Duration::from_mins(1),
            shutdown_timeout: Duration::from_secs(10),
            allow_unlocked_folder: false,
            seed: None,
        }
    }

    /// Settings for free ports of this machine and data in a folder.
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        Self { data: Data::Folder(folder.into()), ..Self::ephemeral() }
    }

    /// Validates the settings. Clamps timeouts to a year, which stands for never, and the lease to its minimum.
    pub(crate) fn checked(mut self) -> Result<Self> {
        if self.seed.is_some() && self.data != Data::Ephemeral {
            let cause = "a seed would draw the same identifiers after every start; it is for ephemeral data";
            return Err(Error::new("reading the settings", cause));
        }
        #[cfg(feature = "controls")]
        if self.database.is_some() && self.controls.is_some() {
            let cause = "controls for testers are for one process with a database of its own";
            return Err(Error::new("reading the settings", cause));
        }
        if !self.roles.nodes && (self.nodes.is_some() || !self.excluded_models.is_empty()) {
            let cause = "a process without the role `nodes` has no port for nodes and excludes no models";
            return Err(Error::setting("reading the settings", cause));
        }
        check_endpoint(self.otlp_endpoint.as_deref())?;
        self.first_account.check()?;
        let limits = &mut self.limits;
        for timeout in [
            &mut self.lease,
            &mut self.start_timeout,
            &mut self.shutdown_timeout,
            &mut self.storage_billing_interval,
            &mut limits.head_timeout,
            &mut limits.keep_alive,
            &mut limits.body_time,
            &mut limits.upload_idle,
            &mut limits.response_timeout,
            &mut limits.health_timeout,
            &mut limits.run,
        ] {
            *timeout = MAX_TIMEOUT.min(*timeout);
        }
        self.lease = self.lease.max(MIN_LEASE);
        Ok(self)
    }

    /// Turns on the test controls, on a free port and with a generated token.
    #[cfg(feature = "controls")]
    #[must_use]
    pub fn with_controls(self) -> Self {
        Self { controls: Some(ControlsConfig::default()), ..self }
    }
}
