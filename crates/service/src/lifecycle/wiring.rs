//! Wiring: gives each part of a service what it uses.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use inferstore_fetch::Fetcher;
use inferstore_server::Connections;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::listeners::Routers;
use crate::admin::Admin;
use crate::api::{self, Api, Middleware, RequestLimit};
use crate::background::BackgroundTasks;
use crate::clock::Clock;
use crate::config::Config;
use crate::database::Database;
use crate::http::observe::Observer;
use crate::http::share_limit::{RateLimit, ShareLimit};
use crate::jobs::{ClockWatch, Jobs};
use crate::metrics::Metrics;
use crate::nodes::{self, Dispatcher, LocalNode, Nodes};
use crate::object_storage::{self, ObjectApi, Objects};
use crate::operations::{self, Operations};
use crate::random::Randomness;
use crate::telemetry::Spans;

/// Downloads use at most 1/N of the connections.
const DOWNLOADS_SHARE: usize = 4;

pub(super) const LEASE_FILES: usize = 8;

pub(super) struct Wiring {
    pub(super) config: Config,
    pub(super) database: Arc<dyn Database>,
    pub(super) clock: Clock,
    pub(super) random: Randomness,
    pub(super) objects: Arc<Objects>,
    pub(super) background: BackgroundTasks,
    pub(super) metrics: Arc<Metrics>,
    pub(super) spans: Arc<Spans>,
    pub(super) dispatcher: Arc<Dispatcher>,
}

impl Wiring {
    pub(super) fn nodes(&self, local: LocalNode) -> Nodes {
        let limits = self.config.limits;
        Nodes {
            database: Arc::clone(&self.database),
            clock: self.clock.clone(),
            random: self.random.clone(),
            objects: Arc::clone(&self.objects),
            background: self.background.clone(),
            metrics: Arc::clone(&self.metrics),
            spans: Arc::clone(&self.spans),
            fetcher: Fetcher::default(),
            local,
            dispatcher: Arc::clone(&self.dispatcher),
            files: ShareLimit::new(limits.max_requests, LEASE_FILES),
            lease: self.config.lease,
            lease_attempts: self.config.lease_attempts,
            workers: self.config.workers,
            shutdown_timeout: self.config.shutdown_timeout,
            limits,
        }
    }

    pub(super) fn jobs(&self) -> Jobs {
        Jobs {
            database: Arc::clone(&self.database),
            clock: self.clock.clone(),
            clock_watch: ClockWatch::new(self.clock.real_time(), Instant::now()),
            objects: Arc::clone(&self.objects),
            metrics: Arc::clone(&self.metrics),
            background: self.background.clone(),
            storage_billing_interval: self.config.storage_billing_interval,
            lease: self.config.lease,
            lease_grace: self.config.lease_grace,
        }
    }

    pub(super) fn admin(&self) -> Admin {
        Admin {
            database: Arc::clone(&self.database),
            clock: self.clock.clone(),
            random: self.random.clone(),
            objects: Arc::clone(&self.objects),
            dispatcher: Arc::clone(&self.dispatcher),
            background: self.background.clone(),
            requests: TaskTracker::new(),
            limits: self.config.limits,
        }
    }

    pub(super) fn routers(
        &self,
        nodes: &Arc<Nodes>,
        connections: &Arc<Connections>,
        max_connections: usize,
        around_api: &dyn Fn(Router) -> Router,
        around_objects: &dyn Fn(Router) -> Router,
    ) -> Routers {
        let limits = self.config.limits;
        let requests = Arc::new(Semaphore::new(limits.max_requests));
        let observer = Observer {
            random: self.random.clone(),
            metrics: Arc::clone(&self.metrics),
            clock: self.clock.clone(),
            spans: Arc::clone(&self.spans),
        };
        let observer = Arc::new(observer);
        let api = Api {
            database: Arc::clone(&self.database),
            clock: self.clock.clone(),
            random: self.random.clone(),
            objects: Arc::clone(&self.objects),
            dispatcher: Arc::clone(&self.dispatcher),
            background: self.background.clone(),
            account_requests: ShareLimit::quarter(limits.max_requests),
            request_rate: self.config.request_rate.map(RateLimit::new),
            insufficient_balance: self.config.insufficient_balance,
            lease: self.config.lease,
            limits,
        };
        let middleware = Middleware {
            origins: &self.config.cors_origins,
            requests: RequestLimit { requests: Arc::clone(&requests), background: self.background.clone() },
            observer: Arc::clone(&observer),
            with_controls: around_api,
        };
        let object_api = ObjectApi {
            objects: Arc::clone(&self.objects),
            background: self.background.clone(),
            metrics: Arc::clone(&self.metrics),
            downloads: ShareLimit::quarter(max_connections.div_ceil(DOWNLOADS_SHARE)),
            uploads: ShareLimit::quarter(limits.max_requests),
        };
        let operations = Operations {
            database: Arc::clone(&self.database),
            clock: self.clock.clone(),
            metrics: Arc::clone(&self.metrics),
            background: self.background.clone(),
            connections: Arc::clone(connections),
            requests,
            lease: self.config.lease,
            limits,
        };
        Routers {
            api: api::router(api, middleware),
            storage: object_storage::router(object_api, &self.config.storage_origins, around_objects),
            operations: operations::router(operations),
            nodes: nodes::router(nodes, observer),
        }
    }
}
