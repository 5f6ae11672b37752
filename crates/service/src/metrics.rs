//! Metrics of one service in the OpenMetrics text format.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use parking_lot::Mutex;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};

use crate::clock::{Moment, elapsed};
use crate::queue::{Lease, ModelLoad, Status};
use crate::{Error, Result};

const LATENCY_BUCKETS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

const TASK_BUCKETS: [f64; 11] = [0.05, 0.25, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 600.0, 3600.0];

/// Label for the name of a job, because Prometheus itself uses the label `job`.
const JOB: &str = "job_name";

/// Labels of a request. Routes are templates and methods are from a fixed set, so that the number of series is bounded.
type Labels<const N: usize> = [(&'static str, String); N];

pub(crate) struct Metrics {
    registry: Registry,
    of_database: Registry,
    database_up: Gauge,
    requests: Family<Labels<3>, Counter>,
    latencies: Family<Labels<2>, Histogram, fn() -> Histogram>,
    tasks: Family<Labels<1>, Gauge>,
    model_tasks: Family<Labels<2>, Gauge>,
    model_queue_ages: Family<Labels<1>, Gauge>,
    model_nodes: Family<Labels<1>, Gauge>,
    waits: Family<Labels<1>, Histogram, fn() -> Histogram>,
    runs: Family<Labels<2>, Histogram, fn() -> Histogram>,
    leases: Family<Labels<1>, Counter>,
    repeated_leases: Family<Labels<2>, Counter>,
    failed_by_jobs: Family<Labels<1>, Counter>,
    jobs: Family<Labels<2>, Counter>,
    job_durations: Family<Labels<1>, Gauge<f64, AtomicU64>>,
    job_successes: Family<Labels<1>, Gauge>,
    pub(crate) dropped_spans: Counter,
    pub(crate) queue_age: Gauge,
    pub(crate) requests_in_progress: Gauge,
    pub(crate) open_connections: Gauge,
    stored_bytes: Gauge,
    held_money: Gauge<f64, AtomicU64>,
    unused_targets: Gauge,
    orphans: Gauge,
    scraping: Mutex<()>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) stored_bytes: i64,
    /// Reserved money of unfinished tasks, in billionths.
    pub(crate) held: i64,
    pub(crate) unused_targets: i64,
}

#[derive(Clone)]
pub(crate) struct DatabaseMetrics {
    connections: Family<Labels<1>, Gauge>,
    waiting: Gauge,
    pub(crate) connection_waits: Histogram,
    pub(crate) retries: Counter,
    lock_waiting: Gauge,
    lock_wait: Gauge<f64, AtomicU64>,
}

pub(crate) struct ConnectionLoad {
    pub(crate) busy: usize,
    pub(crate) idle: usize,
    pub(crate) waiting: usize,
}

#[cfg_attr(
    not(any(feature = "postgres", test)),
    expect(dead_code, reason = "the embedded database has no connections")
)]
impl DatabaseMetrics {
    pub(crate) fn new() -> Self {
        Self {
            connections: Family::default(),
            waiting: Gauge::default(),
            connection_waits: Histogram::new(LATENCY_BUCKETS),
            retries: Counter::default(),
            lock_waiting: Gauge::default(),
            lock_wait: Gauge::default(),
        }
    }

    pub(crate) fn set_connections(&self, load: &ConnectionLoad) {
        for (state, connections) in [("busy", load.busy), ("idle", load.idle)] {
            self.connections.get_or_create(&[("state", state.to_owned())]).set(number(connections));
        }
        self.waiting.set(number(load.waiting));
    }

    pub(crate) fn set_locks(&self, waiting: u64, wait: Duration) {
        self.lock_waiting.set(number(waiting));
        self.lock_wait.set(wait.as_secs_f64());
    }

    fn register(&self, registry: &mut Registry, of_database: &mut Registry) {
        let help = "Connections of this process to the database by state";
        registry.register("database_connections", help, self.connections.clone());
        let help = "Requests that wait for a connection to the database";
        registry.register("database_connection_waiting", help, self.waiting.clone());
        let help = "Time that requests waited for a connection to the database";
        registry.register("database_connection_wait_seconds", help, self.connection_waits.clone());
        let help = "Attempts on the database that were retried after a conflict or a lost connection";
        registry.register("database_retries", help, self.retries.clone());
        let help = "Statements of all processes that wait for a lock in the database";
        of_database.register("database_lock_waiting", help, self.lock_waiting.clone());
        let help = "How long the first statement that waits for a lock has waited";
        of_database.register("database_lock_wait_seconds", help, self.lock_wait.clone());
    }
}

impl Metrics {
    pub(crate) fn new(database: Option<&DatabaseMetrics>) -> Self {
        let latencies: fn() -> Histogram = || Histogram::new(LATENCY_BUCKETS);
        let of_tasks: fn() -> Histogram = || Histogram::new(TASK_BUCKETS);
        let mut metrics = Self {
            registry: Registry::with_prefix("inferstore"),
            of_database: Registry::with_prefix("inferstore"),
            database_up: Gauge::default(),
            requests: Family::default(),
            latencies: Family::new_with_constructor(latencies),
            tasks: Family::default(),
            model_tasks: Family::default(),
            model_queue_ages: Family::default(),
            model_nodes: Family::default(),
            waits: Family::new_with_constructor(of_tasks),
            runs: Family::new_with_constructor(of_tasks),
            leases: Family::default(),
            repeated_leases: Family::default(),
            failed_by_jobs: Family::default(),
            jobs: Family::default(),
            job_durations: Family::default(),
            job_successes: Family::default(),
            dropped_spans: Counter::default(),
            queue_age: Gauge::default(),
            requests_in_progress: Gauge::default(),
            open_connections: Gauge::default(),
            stored_bytes: Gauge::default(),
            held_money: Gauge::default(),
            unused_targets: Gauge::default(),
            orphans: Gauge::default(),
            scraping: Mutex::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("requests", "Responses by route and status", metrics.requests.clone());
        let help = "Time from the head of a request to the head of its response";
        registry.register("request_duration_seconds", help, metrics.latencies.clone());
        let help = "Time from the creation of a task to its first lease by this process";
        registry.register("task_wait_seconds", help, metrics.waits.clone());
        let help = "Time from the last lease of a task to its end, which this process has written";
        registry.register("task_run_seconds", help, metrics.runs.clone());
        let help = "Leases of tasks by this process: attempts to run them";
        registry.register("leases", help, metrics.leases.clone());
        let help =
            "Leases of tasks that were leased before: after a lease that expired, or released ones alone";
        registry.register("repeated_leases", help, metrics.repeated_leases.clone());
        let help = "Tasks that jobs of this process failed: abandoned by their nodes, or queued for too long";
        registry.register("tasks_failed_by_jobs", help, metrics.failed_by_jobs.clone());
        registry.register("job_runs", "Runs of jobs in this process by outcome", metrics.jobs.clone());
        let help = "How long the last run of a job in this process took";
        registry.register("job_duration_seconds", help, metrics.job_durations.clone());
        let help = "When a job last succeeded in this process, in seconds since 1970";
        registry.register("job_last_success_timestamp_seconds", help, metrics.job_successes.clone());
        let help = "Spans that were not exported: too many waited, or the collector failed";
        registry.register("dropped_spans", help, metrics.dropped_spans.clone());
        let help = "Requests of the API that are worked on";
        registry.register("requests_in_progress", help, metrics.requests_in_progress.clone());
        registry.register("open_connections", "Open connections", metrics.open_connections.clone());
        let help = "1 if the database was read for this response, 0 if it could not be read";
        registry.register("database_up", help, metrics.database_up.clone());
        let of_database = &mut metrics.of_database;
        of_database.register("tasks", "Tasks by status", metrics.tasks.clone());
        let help = "Unfinished tasks by model and status";
        of_database.register("model_tasks", help, metrics.model_tasks.clone());
        let help = "How long the first queued task of a model has waited";
        of_database.register("model_queue_age_seconds", help, metrics.model_queue_ages.clone());
        let help = "Nodes that serve a model now, processes of the service included";
        of_database.register("model_nodes", help, metrics.model_nodes.clone());
        let help = "How long the oldest queued task has waited";
        of_database.register("queue_age_seconds", help, metrics.queue_age.clone());
        let help = "Bytes of files that accounts store and pay for";
        of_database.register("stored_bytes", help, metrics.stored_bytes.clone());
        of_database.register("held_money", "Money held for unfinished tasks", metrics.held_money.clone());
        let help = "Upload targets that have no upload yet and are not forgotten";
        of_database.register("unused_targets", help, metrics.unused_targets.clone());
        let help = "Blobs without a row that wait for their deletion, at the last run of the sweeper";
        of_database.register("orphans", help, metrics.orphans.clone());
        if let Some(database) = database {
            database.register(registry, of_database);
        }
        metrics
    }

    pub(crate) fn observe(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration) {
        let method = ("method", label(method).to_owned());
        let route = ("route", route.to_owned());
        self.latencies.get_or_create(&[method.clone(), route.clone()]).observe(elapsed.as_secs_f64());
        self.requests.get_or_create(&[method, route, ("status", status.as_str().to_owned())]).inc();
    }

    pub(crate) fn leased(&self, lease: &Lease, wait: Duration) {
        let model = [("model", lease.model.clone())];
        self.leases.get_or_create(&model).inc();
        if lease.attempt > 1 {
            let after = if lease.attempt - lease.releases > 1 { "expiry" } else { "release" };
            let labels = [model[0].clone(), ("after", after.to_owned())];
            self.repeated_leases.get_or_create(&labels).inc();
        } else {
            self.waits.get_or_create(&model).observe(wait.as_secs_f64());
        }
    }

    pub(crate) fn failed_by_job(&self, job: &str, tasks: usize) {
        let tasks = u64::try_from(tasks).unwrap_or(u64::MAX);
        self.failed_by_jobs.get_or_create(&[(JOB, job.to_owned())]).inc_by(tasks);
    }

    pub(crate) fn run_ended(&self, model: &str, succeeded: bool, elapsed: Duration) {
        let labels = [("model", model.to_owned()), outcome(succeeded)];
        self.runs.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }

    pub(crate) fn job_ended(&self, job: &str, succeeded: bool, elapsed: Duration, now: Moment) {
        let job = [(JOB, job.to_owned())];
        self.jobs.get_or_create(&[job[0].clone(), outcome(succeeded)]).inc();
        self.job_durations.get_or_create(&job).set(elapsed.as_secs_f64());
        if succeeded {
            self.job_successes.get_or_create(&job).set(now.0 / 1_000);
        }
    }

    fn set_models(&self, loads: &[ModelLoad], now: Moment) {
        self.model_tasks.clear();
        self.model_queue_ages.clear();
        self.model_nodes.clear();
        for ModelLoad { model, queued, computing, waits_since, nodes } in loads {
            let model = [("model", model.to_owned())];
            for (status, tasks) in [(Status::Queued, queued), (Status::Computing, computing)] {
                let labels = [model[0].clone(), ("status", status.word().to_owned())];
                self.model_tasks.get_or_create(&labels).set(number(*tasks));
            }
            let age = elapsed(waits_since.unwrap_or(now), now);
            self.model_queue_ages.get_or_create(&model).set(number(age.as_secs()));
            self.model_nodes.get_or_create(&model).set(number(*nodes));
        }
    }

    pub(crate) fn set_totals(&self, totals: &Totals, orphans: u64) {
        self.stored_bytes.set(totals.stored_bytes);
        // A double is exact to a billionth below nine million.
        self.held_money.set(totals.held as f64 / 1e9);
        self.unused_targets.set(totals.unused_targets);
        self.orphans.set(number(orphans));
    }

    pub(crate) fn set_tasks(&self, status: &str, tasks: u64) {
        self.tasks.get_or_create(&[("status", status.to_owned())]).set(number(tasks));
    }

    /// Encodes the metrics; those of the process alone without loads, because the database could not be read.
    pub(crate) fn encode(&self, loads: Option<&[ModelLoad]>, now: Moment) -> Result<String> {
        let failed = |cause| Error::new("encoding the metrics", cause);
        let _scraping = self.scraping.lock();
        self.database_up.set(loads.is_some().into());
        let mut text = String::new();
        encode_registry(&mut text, &self.registry).map_err(failed)?;
        if let Some(loads) = loads {
            self.set_models(loads, now);
            encode_registry(&mut text, &self.of_database).map_err(failed)?;
        }
        encode_eof(&mut text).map_err(failed)?;
        Ok(text)
    }
}

fn outcome(succeeded: bool) -> (&'static str, String) {
    ("outcome", if succeeded { "success" } else { "failure" }.to_owned())
}

pub(crate) fn number(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// Returns the label of a method. Unknown methods share one, so that clients cannot add series.
pub(crate) fn label(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::accounts::AccountId;

    fn page(name: &str) -> Result<String> {
        let file = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(file).map_err(|cause| Error::new("reading a page", cause))
    }

    fn of_every_family() -> Result<String> {
        let database = DatabaseMetrics::new();
        database.set_connections(&ConnectionLoad { busy: 1, idle: 1, waiting: 0 });
        database.set_locks(0, Duration::ZERO);
        let metrics = Metrics::new(Some(&database));
        let second = Duration::from_secs(1);
        metrics.observe(&Method::GET, "/", StatusCode::OK, second);
        for (attempt, releases) in [(1, 0), (2, 0), (2, 1)] {
            let lease = Lease {
                task: String::new(),
                model: "model".to_owned(),
                input: String::new(),
                input_format: String::new(),
                output_format: String::new(),
                attempt,
                releases,
                traceparent: None,
                account: AccountId(1),
                created_at: Moment(0),
            };
            metrics.leased(&lease, second);
        }
        metrics.run_ended("model", true, second);
        metrics.failed_by_job("job", 0);
        metrics.job_ended("job", true, second, Moment(0));
        let load =
            ModelLoad { model: "model".to_owned(), queued: 1, computing: 1, waits_since: None, nodes: 1 };
        metrics.set_tasks("success", 1);
        metrics.set_totals(&Totals { held: 1_500_000_000, ..Totals::default() }, 2);
        metrics.encode(Some(&[load]), Moment(0))
    }

    #[test]
    fn scrapes_side_by_side_have_the_rows_of_every_model() {
        let metrics = Metrics::new(None);
        let load =
            ModelLoad { model: "model".to_owned(), queued: 1, computing: 1, waits_since: None, nodes: 1 };
        let rows = || {
            let text = metrics.encode(Some(std::slice::from_ref(&load)), Moment(0)).unwrap_or_default();
            text.matches("model=\"model\"").count()
        };
        let expected = rows();
        assert!(expected > 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..2_000).for_each(|_| assert_eq!(rows(), expected)));
            }
        });
    }

    fn described(text: &str) -> (BTreeSet<String>, Vec<String>) {
        let mut help = "";
        let mut names = BTreeSet::new();
        let mut labels = BTreeMap::<&str, BTreeSet<&str>>::new();
        let mut rows = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                help = rest.split_once(' ').map_or("", |(_, help)| help.trim_end_matches('.'));
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (family, kind) = rest.split_once(' ').unwrap_or_default();
                let end = if kind == "counter" { "_total" } else { "" };
                rows.push((family, format!("`{family}{end}` | {kind}"), help));
            } else if let (Some((name, _)), Some((family, ..))) = (line.split_once(['{', ' ']), rows.last())
                && name.starts_with("inferstore_")
            {
                names.insert(name.to_owned());
                let of_family = labels.entry(family).or_default();
                let pairs = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
                let pairs = pairs.map_or("", |(pairs, _)| pairs);
                of_family.extend(pairs.split(',').filter_map(|pair| pair.split_once('=')).map(|pair| pair.0));
            }
        }
        let rows = rows.into_iter().map(|(family, begin, help)| {
            let labels = labels.get(family).into_iter().flatten().filter(|label| **label != "le");
            let labels: Vec<String> = labels.map(|label| format!("`{label}`")).collect();
            format!("| {begin} | {} | {help} |", labels.join(", "))
        });
        (names, rows.collect())
    }

    #[test]
    fn the_page_describes_every_metric_and_alerts_and_dashboard_use_no_other() -> Result<()> {
        let text = of_every_family()?;
        assert!(text.contains("inferstore_held_money 1.5\n"), "{text}");
        for after in ["expiry", "release"] {
            let series = format!("inferstore_repeated_leases_total{{model=\"model\",after=\"{after}\"}} 1\n");
            assert!(text.contains(&series), "{text}");
        }
        let (names, rows) = described(&text);
        let page_text = page("monitoring.md")?;
        let on_page: Vec<&str> =
            page_text.lines().filter(|line| line.starts_with("| `inferstore_")).collect();
        assert_eq!(on_page, rows, "the tables of docs/monitoring.md are to be:\n{}", rows.join("\n"));
        let alerts = page("monitoring/alerts.yml")?;
        for used in [&alerts, &page("monitoring/dashboard.json")?] {
            let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            for (at, _) in used.match_indices("inferstore_") {
                let name: String = used[at..].chars().take_while(|letter| is_of_name(*letter)).collect();
                assert!(names.contains(&name), "{name} is no metric");
            }
        }
        for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
            assert!(page_text.contains(&format!("| {alert} |")), "the page leaves {alert} out");
        }
        Ok(())
    }
}
