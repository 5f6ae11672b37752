//! What the service counts, as text that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::{Method, StatusCode};

/// Counters of one service.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// By method, route (its pattern, so there are few) and status.
    requests: Mutex<BTreeMap<(String, String, u16), Requests>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Requests {
    count: u64,
    seconds: f64,
}

impl Metrics {
    pub(crate) fn answered(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration) {
        let key = (method.to_string(), route.to_owned(), status.as_u16());
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = requests.entry(key).or_default();
        entry.count += 1;
        entry.seconds += elapsed.as_secs_f64();
    }

    /// The counters of requests in the text format of Prometheus.
    pub(crate) fn write_requests(&self, text: &mut String) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        text.push_str("# HELP inferstore_requests_total Requests answered.\n");
        text.push_str("# TYPE inferstore_requests_total counter\n");
        for ((method, route, status), entry) in &requests {
            let labels = labels(method, route, *status);
            let _ = writeln!(text, "inferstore_requests_total{labels} {}", entry.count);
        }
        text.push_str("# HELP inferstore_request_seconds_total Time spent answering.\n");
        text.push_str("# TYPE inferstore_request_seconds_total counter\n");
        for ((method, route, status), entry) in &requests {
            let labels = labels(method, route, *status);
            let _ = writeln!(text, "inferstore_request_seconds_total{labels} {}", entry.seconds);
        }
    }
}

fn labels(method: &str, route: &str, status: u16) -> String {
    // Routes are patterns of our own, but methods are whatever was sent: nothing may end the quotes.
    let method: String = method.chars().filter(char::is_ascii_alphabetic).collect();
    format!("{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}")
}
