//! Start and shutdown of a service: its data folder, its database, its listeners and its background tasks.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use inferstore_models::Model;
use inferstore_server::{Connections, Listener, Server, Timeouts};

use super::bootstrap;
use super::listeners::Listeners;
#[cfg(test)]
use super::listeners::Routers;
use super::start_timeout::StartTimeout;
use super::wiring::Wiring;
use crate::accounts::NewKey;
use crate::admin::Admin;
use crate::api::announce_keys;
use crate::background::BackgroundTasks;
use crate::config::{Config, Data};
use crate::controls::{self, Controls, Side, Tester};
use crate::database::Durability;
use crate::folder::{Folder, OBJECTS};
use crate::http::response::refuse_unrouted;
use crate::jobs::Jobs;
use crate::metrics::Metrics;
use crate::nodes::{LocalNode, Nodes};
use crate::object_storage::Objects;
use crate::policies::Policies;
use crate::random::Randomness;
use crate::shared_files;
use crate::telemetry::Spans;
use crate::{Error, admin, database, jobs, models, nodes, object_storage, shared_clock};

/// Time after the shutdown timeout for last statements, so that a hanging one does not keep the process alive.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// A running service. Dropping it stops the service; `shutdown` is a graceful shutdown.
#[must_use = "a service ends when it is dropped"]
pub struct Service {
    pub(crate) admin: Admin,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) jobs: Arc<Jobs>,
    server: Server,
    shutdown_timeout: Duration,
    tester: Option<Arc<Tester>>,
    api_url: String,
    operations_url: Option<String>,
    nodes_url: Option<String>,
    api_key: Option<NewKey>,
    is_key_read: AtomicBool,
    #[cfg(test)]
    pub(crate) routers: Routers,
}

impl Service {
    /// Starts a service, which accepts requests when this function returns. Fails if a port is in use, or the data
    /// folder cannot be used; the error contains the address or path and the cause.
    pub async fn start(config: Config) -> Result<Self, Error> {
        Self::start_with_models(config, Vec::new()).await
    }

    /// Starts a service whose local node also runs these models, by their kind. A model replaces the built-in model of
    /// the same kind. The catalog must list the models: see `publish_model`. Fails as `start` does.
    ///
    /// A model that does not state its memory (`Model::memory`) counts as `Limits::memory`; by default,
    /// `Limits::memory_of_all_runs` allows two such runs at once, with any number of workers. A run that ignores its
    /// deadline keeps its memory to its end; tasks that do not fit fail after `Config::lease_attempts`.
    pub async fn start_with_models(config: Config, models: Vec<Arc<dyn Model>>) -> Result<Self, Error> {
        Self::open(config, models, true).await
    }

    /// Opens the data of a stopped service for its operator, without listeners, local node and jobs.
    pub(crate) async fn open_stopped(folder: &Path) -> Result<Self, Error> {
        let mut config = Config::folder(folder);
        config.workers = 0;
        Self::open(config, Vec::new(), false).await
    }

    /// Boxes the future, so that this crate compiles it, not every crate that starts a service.
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

        // All listeners are bound before any part runs, so that a failed start leaves nothing behind.
        let listeners = Listeners::bind(&config, serves)?;
        let (tester, controls_listener) = Tester::bind(&config)?.unzip();

        let storage_url =
            object_storage::address(config.storage_url.as_deref(), listeners.storage_address())?;
        // The bootstrap follows the validation of addresses, because the key is shown only once.
        let api_key = match serves && roles.api {
            true => bootstrap::bootstrap(&*database, &config, clock.now(), &random).await?,
            false => None,
        };
        if serves {
            Policies::set(&config, &*database).await?;
        }
        let objects = Objects::open(blobs, Arc::clone(&database), storage_url, &config, &random, &clock);
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
        let background = BackgroundTasks::new(folder);
        // The guard stops the spawned tasks if the start fails from here on.
        let stop_on_failure = background.stop.clone().drop_guard();
        let runs_models = roles.nodes && config.workers > 0;
        let local = LocalNode::new(
            &config,
            nodes::local_name(&*database, &random)?,
            runs_models.then(|| models::table(&config.excluded_models, models)),
            #[cfg(unix)]
            background.folder.path(),
            tester.as_ref().map(|tester| tester.switch()),
        )?;
        let server = Server {
            timeouts: Timeouts {
                head: limits.head_timeout,
                keep_alive: limits.keep_alive,
                response: limits.response_timeout,
                shutdown: config.shutdown_timeout,
            },
            connections: Connections::new(max_connections),
            stop: background.stop.clone(),
            refusal: |reason| announce_keys(refuse_unrouted(reason)),
        };
        let metrics = Arc::new(Metrics::new(database.metrics()));
        let spans = Arc::new(Spans::start(config.otlp_endpoint.as_deref(), &metrics.dropped_spans)?);
        let dispatcher = Arc::default();
        let wiring =
            Wiring { config, database, clock, random, objects, background, metrics, spans, dispatcher };
        let nodes = Arc::new(wiring.nodes(local));
        let jobs = Arc::new(wiring.jobs());
        let admin = wiring.admin();
        let around = |side, routes| match &tester {
            Some(tester) => tester.around_routes(side, &wiring.clock, routes),
            None => routes,
        };
        let (around_api, around_objects) =
            (|routes| around(Side::Api, routes), |routes| around(Side::Objects, routes));
        let routers =
            wiring.routers(&nodes, &server.connections, max_connections, &around_api, &around_objects);
        let Wiring { config, database, clock, background, .. } = wiring;
        let service = Self {
            admin,
            nodes,
            jobs,
            server,
            shutdown_timeout: config.shutdown_timeout,
            tester,
            api_url,
            operations_url,
            nodes_url,
            api_key,
            is_key_read: AtomicBool::new(false),
            #[cfg(test)]
            routers: routers.clone(),
        };
        let controls = service.test_controls();
        if let Some(controls) = &controls {
            controls.set_baseline().await?;
        }
        if roles.nodes {
            nodes::start(&service.nodes).await?;
        }
        background.spawn_until_stop("shared clock", shared_clock::follow(database, clock));
        let serve = |listener: Option<Listener>, router| {
            if let Some(listener) = listener {
                background.spawn("listener", listener.serve(router, service.server.clone()));
            }
        };
        listeners.serve(serve, routers);
        if let Some(controls) = controls {
            serve(controls_listener, controls::router(controls));
        }
        if serves && roles.jobs {
            jobs::start(&service.jobs);
        }
        if serves {
            #[cfg(unix)]
            admin::socket::serve(&service.admin, service.shutdown_timeout);
        }
        background.running.close();
        stop_on_failure.disarm();
        Ok(service)
    }

    /// Returns the base URL of the API, which ends in `/api/v1`.
    pub fn base_url(&self) -> &str {
        &self.api_url
    }

    /// Returns the public base URL of object storage.
    pub fn storage_url(&self) -> &str {
        self.admin.objects.locations.address()
    }

    /// Returns the base URL of `/health` and `/metrics`, if served.
    pub fn operations_url(&self) -> Option<&str> {
        self.operations_url.as_deref()
    }

    /// Returns the base URL of the node API, where external nodes claim tasks, if served.
    pub fn nodes_url(&self) -> Option<&str> {
        self.nodes_url.as_deref()
    }

    /// Returns the connection limits of the listeners, for a further server whose connections count with the service's.
    pub fn server(&self) -> Server {
        self.server.clone()
    }

    /// Returns the API key of the first account if this start created it; the database has only the hash. Starts create
    /// a new key until `api_key_shown` is called, or `shutdown` after the key was read, or the key is revoked.
    pub fn api_key(&self) -> Option<&str> {
        self.is_key_read.store(true, Ordering::Relaxed);
        self.api_key.as_ref().map(|key| key.text.as_str())
    }

    /// Records that a person or program has the API key of the first account, so that no start creates another.
    pub async fn api_key_shown(&self) -> Result<(), Error> {
        let Some(key) = &self.api_key else { return Ok(()) };
        self.admin.database.first_key_shown(&key.kept.id).await
    }

    /// Returns the path of the data folder.
    pub fn data_folder(&self) -> &Path {
        self.admin.background.folder.path()
    }

    /// Returns the test controls. Fails if the controls are off; `Config::controls` turns them on.
    #[cfg(feature = "controls")]
    pub fn controls(&self) -> Result<Controls, Error> {
        let off = "they are off; set Config::controls to turn them on";
        self.test_controls().ok_or_else(|| Error::new("getting at the controls", off))
    }

    fn test_controls(&self) -> Option<Controls> {
        let tester = self.tester.clone()?;
        let (nodes, jobs) = (Arc::clone(&self.nodes), Arc::clone(&self.jobs));
        Some(Controls { tester, admin: self.admin.clone(), nodes, jobs })
    }

    /// Graceful shutdown: accepts no new connections, waits for requests in progress, and flushes all data to disk.
    pub async fn shutdown(self) {
        let BackgroundTasks { stop, running, folder, .. } = &self.admin.background;
        stop.cancel();
        let deadline = Instant::now() + self.shutdown_timeout;
        // A slot can be dropped with a claimed lease until the last task has ended.
        let ended = async {
            running.wait().await;
            if let Err(cause) = nodes::release_unwanted(&self.nodes).await {
                tracing::warn!(%cause, "leases that no slot took cannot be released; they expire");
            }
        };
        if tokio::time::timeout_at((deadline + SHUTDOWN_GRACE).into(), ended).await.is_err() {
            tracing::warn!(
                tasks = running.len(),
                "these have not ended within the shutdown timeout, and are left"
            );
        }
        self.admin.requests.close();
        if tokio::time::timeout_at(deadline.into(), self.admin.requests.wait()).await.is_err() {
            tracing::warn!("requests of the operator are ended: the shutdown timeout is over");
        }
        if self.is_key_read.load(Ordering::Relaxed)
            && let Err(cause) = self.api_key_shown().await
        {
            tracing::warn!(%cause, "the next start creates another API key for the first account");
        }
        self.admin.database.close(deadline).await;
        folder.close();
        self.nodes.spans.flush().await;
    }
}

impl Deref for Service {
    type Target = Admin;

    fn deref(&self) -> &Admin {
        &self.admin
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.admin.background.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use inferstore_wire::until;

    use super::*;

    type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

    #[tokio::test]
    async fn the_folder_of_a_dropped_service_is_free_when_its_last_task_has_ended() -> TestResult {
        let folder = tempfile::tempdir()?;
        let service = Service::start(Config::folder(folder.path())).await?;
        let still_writes = service.background.clone();
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
    async fn a_shutdown_ends_although_something_waits_for_ever() -> TestResult {
        let mut config = Config::ephemeral();
        config.shutdown_timeout = Duration::ZERO;
        let service = Service::start(config).await?;
        service.background.spawn("test", std::future::pending::<()>());
        tokio::time::timeout(Duration::from_secs(60), service.shutdown()).await?;
        Ok(())
    }

    #[tokio::test]
    async fn the_folder_is_free_after_a_shutdown_whoever_still_knows_the_service() -> TestResult {
        let folder = tempfile::tempdir()?;
        let service = Service::start(Config::folder(folder.path())).await?;
        let operator = service.admin.clone();
        service.shutdown().await;
        Service::start(Config::folder(folder.path())).await?.shutdown().await;
        drop(operator);
        Ok(())
    }

    #[tokio::test]
    async fn temporary_data_are_removed_though_the_service_is_dropped() -> TestResult {
        let service = Service::start(Config::ephemeral()).await?;
        let folder = service.data_folder().to_owned();
        drop(service);
        until("the folder is removed", || async { !folder.exists() }).await;
        Ok(())
    }
}
