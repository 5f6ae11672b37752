//! Starting and ending a service: its folder, its store, its listeners and everything that runs beside
//! them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use inferstore_fetch::Fetcher;
use inferstore_models::Model;
use inferstore_server::{Connections, Server, Timeouts};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::accounts::NewKey;
use crate::admin::Admin;
#[cfg(feature = "controls")]
use crate::controls::{self, Controls, Tester};
use crate::database::Durability;
use crate::http::account_limit::{AccountLimit, RateLimit};
use crate::lifecycle::app::App;
use crate::lifecycle::bootstrap;
use crate::lifecycle::config::{Config, Data};
use crate::lifecycle::folder::{Folder, OBJECTS};
use crate::lifecycle::listeners::{self, Listeners};
use crate::lifecycle::parts::Parts;
use crate::lifecycle::policies::Policies;
use crate::lifecycle::start_timeout::StartTimeout;
use crate::lifecycle::{shared_clock, shared_files};
use crate::object_storage::Objects;
use crate::operations::metrics::Metrics;
use crate::random::Randomness;
use crate::{Error, admin, api, database, jobs, models, nodes, object_storage};

/// Downloads take one in so many of the connections at most, so that everything else goes on.
const DOWNLOADS_SHARE: usize = 4;

/// How long after the shutdown timeout the rest may still end: runs that were interrupted, and the last statements. A
/// database that accepts a statement and never responds would keep the process for ever.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// A running service. It ends when it is dropped; `shutdown` ends it in order.
#[must_use = "a service ends when it is dropped"]
pub struct Service {
    pub(crate) app: Arc<App>,
    pub(crate) admin: Admin,
    api_url: String,
    operations_url: Option<String>,
    nodes_url: Option<String>,
    api_key: Option<NewKey>,
    is_key_read: AtomicBool,
}

impl Service {
    /// Starts a service. When this returns, it accepts requests.
    ///
    /// # Errors
    /// When a port is taken, or the data folder cannot be used: it says which and why.
    pub async fn start(config: Config) -> Result<Self, Error> {
        Self::start_with_models(config, Vec::new()).await
    }

    /// Starts a service whose own node runs these models too, by their kind; one takes the place of a
    /// built-in model of the same kind. The catalog has to list them: see `publish_model`.
    ///
    /// A model that does not state its memory (`Model::memory`) counts as `Limits::memory`, of which
    /// `Limits::memory_of_all_runs` allows two at once by default, whatever the number of workers. A run that ignores
    /// its deadline keeps its memory until it ends; tasks that cannot run beside it fail after `Config::lease_attempts`.
    ///
    /// # Errors
    /// As `start`.
    pub async fn start_with_models(config: Config, models: Vec<Arc<dyn Model>>) -> Result<Self, Error> {
        Self::open(config, models, true).await
    }

    /// Opens the data of a stopped service for its operator: without listeners, node and jobs.
    pub(crate) async fn open_stopped(folder: &Path) -> Result<Self, Error> {
        let mut config = Config::folder(folder);
        config.workers = 0;
        Self::open(config, Vec::new(), false).await
    }

    /// Boxed, so that it is compiled here and not by every crate that starts a service.
    fn open(
        config: Config,
        models: Vec<Arc<dyn Model>>,
        serves: bool,
    ) -> BoxFuture<'static, Result<Self, Error>> {
        Box::pin(Self::open_unboxed(config, models, serves))
    }

    async fn open_unboxed(config: Config, models: Vec<Arc<dyn Model>>, serves: bool) -> Result<Self, Error> {
        let config = config.checked()?;
        let random = Randomness::new(config.seed);
        let max_connections = config.limits.max_connections.min(inferstore_server::max_connections());
        let folder = Folder::open(&config.data, config.allow_unlocked_folder)?;
        let durability = match config.data {
            Data::Ephemeral => Durability::None,
            Data::Folder(_) => Durability::Full,
        };
        let start = StartTimeout::new(config.start_timeout);
        let database = match &config.database {
            Some(url) => start.outlast(|| database::connect(&url.0)).await?,
            None => database::open(folder.path(), durability).await?,
        };
        let clock = shared_clock::start(&*database).await?;
        let roles = config.roles;
        let objects_folder = folder.path().join(OBJECTS);
        let is_new = !bootstrap::is_done(&*database).await?;
        let blobs = start.outlast(|| {
            object_storage::open_blobs(
                &config,
                &objects_folder,
                durability,
                &*database,
                is_new,
                serves,
                &clock,
            )
        });
        let blobs = match blobs.await {
            Ok(blobs) => blobs,
            Err(refusal) => {
                database.close(Instant::now()).await;
                return Err(refusal);
            }
        };

        if config.objects.is_none() {
            shared_files::check(folder.path(), &*database).await?;
        }

        // All of them before anything runs, so that a start that fails leaves nothing behind.
        let listeners = Listeners::bind(&config, serves)?;
        #[cfg(feature = "controls")]
        let (tester, controls_listener) = Tester::bind(&config)?.unzip();

        let storage_url =
            object_storage::address(config.storage_url.as_deref(), listeners.storage_address())?;
        // After the addresses were found good: the key is printed once.
        let api_key = match serves && roles.api {
            true => bootstrap::bootstrap(&*database, &config, clock.now(), &random).await?,
            false => None,
        };
        if serves {
            Policies::set(&config, &*database).await?;
        }
        let max_forms = config.limits.unsigned_forms;
        let objects = Objects::open(blobs, Arc::clone(&database), storage_url, max_forms, &random, &clock);
        let objects = Arc::new(objects.await?);
        if serves && roles.nodes && objects.locations.address().is_empty() {
            let cause = "no process with the role api has had a storage URL, which is part of the URL of every output";
            return Err(Error::new("reading the storage URL", cause)
                .with_hint("set it with --storage-url, or start a process with the role api first"));
        }

        folder.restrict_entries();
        let (operations_url, nodes_url) = (listeners.operations_url(), listeners.nodes_url());
        let api_url = listeners.api_url().unwrap_or_default();
        let limits = config.limits;
        let parts = Parts::default();
        // A start that fails from here on ends what it has begun.
        let stop_on_failure = parts.stop.clone().drop_guard();
        let runs_models = roles.nodes && config.workers > 0;
        let node = nodes::LocalNode::new(
            &config,
            nodes::local_name(&*database, &random)?,
            runs_models.then(|| models::table(&config.excluded_models, models)),
            #[cfg(unix)]
            folder.path(),
            #[cfg(feature = "controls")]
            tester.as_ref().map(|tester| Arc::clone(&tester.switch)),
        )?;
        let app = Arc::new(App {
            folder,
            server: Server {
                timeouts: Timeouts {
                    head: limits.head_timeout,
                    keep_alive: limits.keep_alive,
                    response: limits.response_timeout,
                    shutdown: config.shutdown_timeout,
                },
                connections: Connections::new(max_connections),
                stop: parts.stop.clone(),
                refusal: api::refuse_unrouted,
            },
            requests: Arc::new(Semaphore::new(limits.max_requests)),
            account_requests: AccountLimit::new(limits.max_requests),
            downloads: Arc::new(Semaphore::new(max_connections.div_ceil(DOWNLOADS_SHARE))),
            uploads: AccountLimit::new(limits.max_requests),
            admin_requests: TaskTracker::new(),
            request_rate: config.request_rate.map(RateLimit::new),
            config,
            parts,
            clock,
            random,
            metrics: Metrics::new(database.metrics()),
            database,
            objects,
            fetcher: Fetcher::default(),
            node,
            dispatcher: nodes::Dispatcher::default(),
            #[cfg(feature = "controls")]
            tester,
        });

        #[cfg(feature = "controls")]
        if let Some(controls) = Controls::of(&app) {
            controls.set_baseline().await?;
        }
        if roles.nodes {
            nodes::start(&app).await?;
        }
        app.parts.spawn_until_stop("shared clock", shared_clock::follow(Arc::clone(&app)));
        listeners.serve(&app);
        #[cfg(feature = "controls")]
        listeners::serve(&app, controls_listener, controls::router(&app));
        if serves && roles.jobs {
            jobs::start(&app);
        }
        if serves {
            #[cfg(unix)]
            admin::socket::serve(&app);
        }
        app.parts.running.close();
        stop_on_failure.disarm();
        let admin = Admin::new(&app);
        Ok(Self {
            app,
            admin,
            api_url,
            operations_url,
            nodes_url,
            api_key,
            is_key_read: AtomicBool::new(false),
        })
    }

    /// The base URL of the API; it ends in `/api/v1`.
    pub fn base_url(&self) -> &str {
        &self.api_url
    }

    /// Where object storage is, as others reach it.
    pub fn storage_url(&self) -> &str {
        self.app.objects.locations.address()
    }

    /// Where `/health` and `/metrics` are, if anywhere.
    pub fn operations_url(&self) -> Option<&str> {
        self.operations_url.as_deref()
    }

    /// Where nodes outside the process pull tasks, if anywhere.
    pub fn nodes_url(&self) -> Option<&str> {
        self.nodes_url.as_deref()
    }

    /// Limits that its listeners share, for a server beside it: its connections count with those of the service.
    pub fn server(&self) -> Server {
        self.app.server.clone()
    }

    /// The API key of the first account, if this start created it: only its hash is kept. A start creates
    /// one until `api_key_shown` was called, or `shutdown` after the key was read, or the key was revoked.
    pub fn api_key(&self) -> Option<&str> {
        self.is_key_read.store(true, Ordering::Relaxed);
        self.api_key.as_ref().map(|key| key.text.as_str())
    }

    /// Notes that the API key of the first account has reached a person or a program that keeps it, so that
    /// the next start does not create another.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn api_key_shown(&self) -> Result<(), Error> {
        let Some(key) = &self.api_key else { return Ok(()) };
        self.app.database.first_key_shown(&key.kept.id).await
    }

    /// Where the data are.
    pub fn data_folder(&self) -> &Path {
        self.app.folder.path()
    }

    /// Controls for testers.
    ///
    /// # Errors
    /// When they are not on: `Config::controls` turns them on.
    #[cfg(feature = "controls")]
    pub fn controls(&self) -> Result<Controls, Error> {
        let off = "they are off; set Config::controls to turn them on";
        Controls::of(&self.app).ok_or_else(|| Error::new("getting at the controls", off))
    }

    /// Ends the service in order: no new connections, requests in progress end, everything is on disk.
    pub async fn shutdown(self) {
        let Parts { stop, running, .. } = &self.app.parts;
        stop.cancel();
        let deadline = Instant::now() + self.app.config.shutdown_timeout;
        // A slot may be dropped with a lease in it until the last part has ended.
        let ended = async {
            running.wait().await;
            if let Err(cause) = nodes::release_unwanted(&self.app).await {
                tracing::warn!(%cause, "leases that no slot took cannot be released; they expire");
            }
        };
        if tokio::time::timeout_at((deadline + SHUTDOWN_GRACE).into(), ended).await.is_err() {
            tracing::warn!(
                tasks = running.len(),
                "these have not ended within the shutdown timeout, and are left"
            );
        }
        self.app.admin_requests.close();
        if tokio::time::timeout_at(deadline.into(), self.app.admin_requests.wait()).await.is_err() {
            tracing::warn!("requests of the operator are ended: the shutdown timeout is over");
        }
        if self.is_key_read.load(Ordering::Relaxed)
            && let Err(cause) = self.api_key_shown().await
        {
            tracing::warn!(%cause, "the next start creates another API key for the first account");
        }
        self.app.database.close(deadline).await;
        self.app.folder.close();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.app.parts.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

    #[tokio::test]
    async fn the_folder_of_a_dropped_service_is_free_when_its_last_task_has_ended() -> Outcome {
        let folder = tempfile::tempdir()?;
        let service = Service::start(Config::folder(folder.path())).await?;
        let still_writes = Arc::clone(&service.app);
        drop(service);
        let refused = Service::start(Config::folder(folder.path())).await;
        assert!(refused.is_err_and(|error| error.is_folder_taken()));
        drop(still_writes);
        let restarted = async {
            loop {
                match Service::start(Config::folder(folder.path())).await {
                    Err(error) if error.is_folder_taken() => {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    started => return started,
                }
            }
        };
        let second = tokio::time::timeout(Duration::from_secs(30), restarted).await??;
        #[cfg(unix)]
        assert!(folder.path().join("admin.sock").exists(), "the first service removed its own socket alone");
        second.shutdown().await;
        Ok(())
    }

    #[tokio::test]
    async fn a_shutdown_ends_although_something_waits_for_ever() -> Outcome {
        let mut config = Config::ephemeral();
        config.shutdown_timeout = Duration::ZERO;
        let service = Service::start(config).await?;
        // As for a database that accepts a statement and never responds.
        service.app.parts.spawn("test", std::future::pending::<()>());
        tokio::time::timeout(Duration::from_secs(60), service.shutdown()).await?;
        Ok(())
    }

    #[tokio::test]
    async fn the_folder_is_free_after_a_shutdown_whoever_still_knows_the_service() -> Outcome {
        let folder = tempfile::tempdir()?;
        let service = Service::start(Config::folder(folder.path())).await?;
        let operator = service.admin.clone();
        service.shutdown().await;
        Service::start(Config::folder(folder.path())).await?.shutdown().await;
        drop(operator);
        Ok(())
    }

    #[tokio::test]
    async fn temporary_data_are_removed_though_the_service_is_dropped() -> Outcome {
        let service = Service::start(Config::ephemeral()).await?;
        let folder = service.data_folder().to_owned();
        drop(service);
        let removed = async {
            while folder.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), removed).await?;
        Ok(())
    }
}
