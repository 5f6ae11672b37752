//! For whoever operates the service: whether it works, and figures, on a listener of their own.

pub(crate) mod metrics;

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::lifecycle::app::App;

/// `GET /health` and `GET /metrics`.
pub(crate) fn router(app: &Arc<App>) -> Router {
    Router::new().route("/health", get(health)).route("/metrics", get(metrics)).with_state(Arc::clone(app))
}

/// 200 when the database commits writes, else 503.
async fn health(State(app): State<Arc<App>>) -> (StatusCode, &'static str) {
    match app.database.check_writer().await {
        Ok(()) => (StatusCode::OK, "ok\n"),
        Err(cause) => {
            tracing::error!(%cause, "the database does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n")
        }
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let mut text = String::new();
    app.metrics.write_requests(&mut text);
    text.push_str("# HELP inferstore_tasks Tasks by status.\n# TYPE inferstore_tasks gauge\n");
    match app.database.depths().await {
        Ok(depths) => {
            for (status, tasks) in depths {
                let _ = writeln!(text, "inferstore_tasks{{status=\"{}\"}} {tasks}", status.word());
            }
        }
        Err(cause) => tracing::error!(%cause, "the tasks could not be counted"),
    }
    let in_progress = app.config.limits.requests.saturating_sub(app.requests.available_permits());
    text.push_str("# HELP inferstore_requests_in_progress Requests being worked on.\n");
    text.push_str("# TYPE inferstore_requests_in_progress gauge\n");
    let _ = writeln!(text, "inferstore_requests_in_progress {in_progress}");
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
