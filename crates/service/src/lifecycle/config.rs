//! Settings of a service. Every field has a default that suits a laptop.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use axum::http::HeaderValue;
use url::Url;

use crate::accounts::OPERATOR;
use crate::admin::check_name;
#[cfg(feature = "controls")]
use crate::controls::ControlsConfig;
use crate::ledger::{Money, Purses};
use crate::lifecycle::cluster::{DatabaseUrl, NotASetting, Roles};
use crate::object_storage::S3Config;
use crate::queue::InsufficientBalance;
use crate::{Error, Result};

/// Where a service keeps its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// In a temporary folder that goes when the service ends. Nothing is synced to the disk.
    Ephemeral,
    /// In this folder, which is created if it is missing. What the service has acknowledged survives
    /// the loss of power.
    Folder(PathBuf),
}

/// The settings of one service.
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
    /// Where the data are kept.
    pub data: Data,
    /// The PostgreSQL that keeps everything but the bytes of files, for any number of processes; None, the default,
    /// for the data folder.
    pub database: Option<DatabaseUrl>,
    /// What this process does.
    pub roles: Roles,
    /// The bucket that keeps the bytes of files; None, the default, for the data folder.
    pub objects: Option<S3Config>,
    /// Where the API listens. Port 0 takes a free one.
    pub api: SocketAddr,
    /// Where the object store listens.
    pub storage: SocketAddr,
    /// Where health and metrics listen; None for not at all.
    pub operations: Option<SocketAddr>,
    /// Where nodes outside the process pull tasks; None for not at all.
    pub nodes: Option<SocketAddr>,
    /// Controls for testers; None, the default, for none at all.
    #[cfg(feature = "controls")]
    pub controls: Option<ControlsConfig>,
    /// The address of the object store as others reach it, if it is not the one that it listens on.
    /// It becomes part of every `download_url`.
    pub storage_url: Option<String>,
    /// The origins whose pages may read and upload in a browser; `*`, the default, for all of them. A signature
    /// guards an upload whichever page it comes from, and an unguessable URL a file.
    pub storage_origins: Vec<CorsOrigin>,
    /// How long blobs that no row refers to are kept in `objects/orphans` before they are deleted.
    pub orphan_retention: Duration,
    /// Retention of the files that models produce. Their URLs return 404 then. None, the default, leaves the policy of
    /// the database as it is: 30 days, unless a start has set another one. `Duration::MAX` is for ever.
    pub output_retention: Option<Duration>,
    /// The account that a fresh service begins with.
    pub first_account: FirstAccount,
    /// What happens to a task that the balance does not cover.
    pub insufficient_balance: InsufficientBalance,
    /// How long an upload target lives.
    pub target_life: Duration,
    /// The price of storing one GiB (2^30 bytes) for one day. None, the default, leaves the policy of the database as it
    /// is: 0.001, unless a start has set another one.
    pub storage_price_per_gib_day: Option<Money>,
    /// How often storage is billed, once a second at most.
    pub storage_billing_interval: Duration,
    /// How many tasks run side by side in this process; 0 when only other processes run tasks.
    pub workers: usize,
    /// The command of the process that runs built-in models: a program that calls `serve_models` with its last two
    /// arguments, which are added. None, the default, runs them in this process: a library does not know what its
    /// program does when it is started again.
    pub model_process: Option<Vec<OsString>>,
    /// Built-in models that this process does not run: their tasks wait for a node outside it.
    pub excluded_models: BTreeSet<String>,
    /// How long a node may go without a heartbeat before its task goes to another one.
    pub lease: Duration,
    /// After how many leases a task that never ended fails. A lease that ends in order does not count.
    pub lease_attempts: i64,
    /// How long after its lease has expired a task fails when no live node serves its model.
    pub lease_grace: Duration,
    /// Time that a task waits for a node before it fails, unbilled. None, the default, leaves the policy of the database as
    /// it is: for ever, which is `Duration::MAX`, unless a start has set another one.
    pub queue_timeout: Option<Duration>,
    /// Retention of ended tasks. None, the default, leaves the policy of the database as it is: for ever, which is
    /// `Duration::MAX`, unless a start has set another one.
    pub task_retention: Option<Duration>,
    /// Time for which movements of money that belong to no task, such as bills for storage, are kept one by one, before those of
    /// an account are added up. None, the default, leaves the policy of the database as it is: for ever, which is
    /// `Duration::MAX`, unless a start has set another one.
    pub movement_retention: Option<Duration>,
    /// What a request may take.
    pub limits: Limits,
    /// How many requests an account may send per second; None for any number. A second's worth may come at
    /// once; more are refused with 429.
    pub request_rate: Option<NonZeroU32>,
    /// The origins of web pages that may call the API from a browser.
    pub cors_origins: Vec<CorsOrigin>,
    /// Time that a start waits for a database or a bucket that others keep and that cannot be reached yet, or is locked.
    pub start_timeout: Duration,
    /// How long requests in progress and running tasks may take to finish when the service ends. Then requests are
    /// cut off, and tasks begin anew on another node or after the next start.
    pub shutdown_timeout: Duration,
    /// Starts also on a file system without locks, where nothing keeps a second service from the folder.
    pub allow_unlocked_folder: bool,
    /// Makes all identifiers and secrets predictable, for tests; with ephemeral data only.
    pub seed: Option<u64>,
}

/// An origin of web pages, such as `https://app.example`, or `*` for all of them.
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
    /// Every origin.
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

/// The account that a fresh service begins with, in personal scope.
#[derive(Clone)]
#[non_exhaustive]
pub struct FirstAccount {
    /// Its name.
    pub username: String,
    /// Its balance.
    pub balance: Money,
    /// Its free credits.
    pub free_balance: Money,
    /// Its API key; drawn when there is none.
    pub api_key: Option<String>,
}

impl FirstAccount {
    /// Fails when it cannot have its name or begin with its balances.
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

/// What a request may take, so that no client can starve the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest JSON body in bytes.
    pub body: usize,
    /// How many requests are in progress at once; more are refused with 503. A quarter of them, and as many
    /// uploads, may be of one account; more are refused with 429 and 503.
    pub max_requests: usize,
    /// How many forms of the object store are read at once before their signature is known; for one more, the oldest
    /// is ended.
    pub unsigned_forms: usize,
    /// How many files a model may produce in one run.
    pub outputs: u64,
    /// How many bytes these may have together.
    pub output_bytes: u64,
    /// How many connections are open at once, on all listeners together. The limit of the system on open
    /// files lowers it. For one more, the connection that has been idle longest is closed.
    pub max_connections: usize,
    /// How long a client may take to send the head of a request, and how long the rest of a refused body is
    /// read.
    pub head_timeout: Duration,
    /// How long a connection may be idle between two requests.
    pub keep_alive: Duration,
    /// How long a client may take to send a JSON body.
    pub body_time: Duration,
    /// How long a client of the object store may send nothing, or less than 64 KiB, in the middle of an
    /// upload.
    pub upload_idle: Duration,
    /// How long a client may read nothing, or less than 64 KiB, of a response that is written to it.
    pub response_timeout: Duration,
    /// How long the database may take for a health check.
    pub health_timeout: Duration,
    /// The largest page of the model list.
    pub models_page: u32,
    /// The largest page of a folder.
    pub files_page: u32,
    /// How long a model may run.
    pub run: Duration,
    /// How many pixels a picture may have.
    pub pixels: u64,
    /// How many bytes of memory a run may take.
    pub memory: u64,
    /// How many bytes of memory all runs of this process may take together; more wait.
    pub memory_of_all_runs: u64,
    /// How many bytes the inputs of a task may have, as JSON. Files are named by URL.
    pub input: usize,
    /// How many tasks of one account may be unfinished; more are refused with 429.
    pub account_unfinished: u32,
    /// How many tasks of one account may be computing at a time; more wait in the queue.
    pub account_running: u32,
    /// Number of upload targets of one account that may be unused, from presign until an hour after they expire; more are
    /// refused with 429.
    pub account_targets: u32,
}

/// The longest timeout: an instant after any duration is no instant of every clock.
const MAX_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// The shortest lease: heartbeats come three times within one.
const MIN_LEASE: Duration = Duration::from_millis(100);

/// Where `ephemeral` and `folder` listen by default: a free port of this machine.
pub(crate) const FREE_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

impl Config {
    /// A service on free ports of this machine whose data go when it ends.
    pub fn ephemeral() -> Self {
        Self {
            data: Data::Ephemeral,
            database: None,
            roles: Roles::default(),
            objects: None,
            api: FREE_PORT,
            storage: FREE_PORT,
            operations: None,
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

    /// A service on free ports of this machine that keeps its data in a folder.
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        Self { data: Data::Folder(folder.into()), ..Self::ephemeral() }
    }

    /// The same settings with no timeout and no interval above a year, which means never, and with a lease that a node can
    /// prolong. Fails when they contradict each other.
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

    /// The same service with controls for testers, on a free port and with a token that is drawn.
    #[cfg(feature = "controls")]
    #[must_use]
    pub fn with_controls(self) -> Self {
        Self { controls: Some(ControlsConfig::default()), ..self }
    }
}
