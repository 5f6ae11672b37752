//! Metrics of one service in the text format of OpenMetrics.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::{Error, Result};

/// The upper bounds of the latency histogram, in seconds.
const LATENCY_BUCKETS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// The route is a template of ours and the method one of a few words, so that the series are few.
type Labels<const N: usize> = [(&'static str, String); N];

/// The metrics of one service.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels<3>, Counter>,
    latencies: Family<Labels<2>, Histogram, fn() -> Histogram>,
    tasks: Family<Labels<1>, Gauge>,
    pub(super) queue_age: Gauge,
    pub(super) requests_in_progress: Gauge,
    pub(super) open_connections: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let latencies: fn() -> Histogram = || Histogram::new(LATENCY_BUCKETS);
        let mut metrics = Self {
            registry: Registry::with_prefix("inferstore"),
            requests: Family::default(),
            latencies: Family::new_with_constructor(latencies),
            tasks: Family::default(),
            queue_age: Gauge::default(),
            requests_in_progress: Gauge::default(),
            open_connections: Gauge::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("requests", "Responses by route and status", metrics.requests.clone());
        let help = "Time from the head of a request to the head of its response";
        registry.register("request_duration_seconds", help, metrics.latencies.clone());
        registry.register("tasks", "Tasks by status", metrics.tasks.clone());
        let help = "How long the oldest queued task has waited";
        registry.register("queue_age_seconds", help, metrics.queue_age.clone());
        let help = "Requests of the API that are worked on";
        registry.register("requests_in_progress", help, metrics.requests_in_progress.clone());
        registry.register("open_connections", "Open connections", metrics.open_connections.clone());
        metrics
    }

    /// Counts a response.
    pub(crate) fn observe(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration) {
        let method = ("method", label(method).to_owned());
        let route = ("route", route.to_owned());
        self.latencies.get_or_create(&[method.clone(), route.clone()]).observe(elapsed.as_secs_f64());
        self.requests.get_or_create(&[method, route, ("status", status.as_str().to_owned())]).inc();
    }

    /// Sets how many tasks there are of a status.
    pub(super) fn set_tasks(&self, status: &str, tasks: u64) {
        self.tasks.get_or_create(&[("status", status.to_owned())]).set(number(tasks));
    }

    /// The metrics as text.
    pub(super) fn encode(&self) -> Result<String> {
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(|cause| Error::new("encoding the metrics", cause))?;
        Ok(text)
    }
}

/// A count as a gauge has it.
pub(super) fn number(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// The label of a method: strangers may send any word, and each would be a series of its own.
pub(crate) fn label(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}
