//! Operations: `/health` and `/metrics`, on a listener of their own.

pub(crate) mod metrics;
pub(crate) mod totals;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use self::metrics::number;
use crate::Error;
use crate::clock::elapsed;
use crate::database::FIRST_ACCOUNT;
use crate::lifecycle::app::App;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn router(app: &Arc<App>) -> Router {
    Router::new().route("/health", get(health)).route("/metrics", get(metrics)).with_state(Arc::clone(app))
}

/// Responds with 200 if every part runs and the database reads and commits in time, else with 503 and the reason.
async fn health(State(app): State<Arc<App>>) -> (StatusCode, &'static str) {
    let unavailable = |reason| (StatusCode::SERVICE_UNAVAILABLE, reason);
    if let Some(part) = app.parts.panicked() {
        tracing::error!(part, "the health check failed: a part of the service has panicked");
        return unavailable("a part of the service has panicked; restart it\n");
    }
    let check = async {
        app.database.setting(FIRST_ACCOUNT).await?;
        app.database.check_writer().await
    };
    match tokio::time::timeout(app.config.limits.health_timeout, check).await {
        Ok(Ok(())) => (StatusCode::OK, "ok\n"),
        Ok(Err(cause)) => {
            tracing::error!(%cause, "the health check failed");
            match cause.is_of_the_disk() {
                true => unavailable("the disk of the database cannot be written\n"),
                false => unavailable("the database fails\n"),
            }
        }
        Err(_) => {
            tracing::error!("the health check failed: the database does not commit");
            unavailable("the database does not commit\n")
        }
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Result<Response, StatusCode> {
    let failed = |cause: Error| {
        tracing::error!(%cause, "the metrics cannot be read");
        StatusCode::INTERNAL_SERVER_ERROR
    };
    let depths = app.database.depths().await.map_err(failed)?;
    let oldest = app.database.oldest_queued().await.map_err(failed)?;
    let now = app.clock.now();
    let loads = app.database.model_loads(now.before(app.config.lease)).await.map_err(failed)?;
    app.database.measure().await.map_err(failed)?;
    let totals = totals::read(&*app.database).await.map_err(failed)?;
    let orphans = totals::read_orphans(&*app.database).await.map_err(failed)?;
    app.metrics.set_totals(&totals, orphans);
    for (status, tasks) in depths {
        app.metrics.set_tasks(status.word(), tasks);
    }
    app.metrics.queue_age.set(number(elapsed(oldest.unwrap_or(now), now).as_secs()));
    let in_progress = app.config.limits.max_requests.saturating_sub(app.requests.available_permits());
    app.metrics.requests_in_progress.set(number(in_progress));
    app.metrics.open_connections.set(number(app.server.connections.count()));
    let text = app.metrics.encode(&loads, now).map_err(failed)?;
    Ok(([(CONTENT_TYPE, OPENMETRICS)], text).into_response())
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::{Config, Service};

    #[tokio::test]
    #[expect(clippy::panic, reason = "it is what a defect does")]
    async fn a_service_is_not_healthy_when_one_of_its_parts_has_panicked() -> Result<(), Box<dyn Error>> {
        let service = Service::start(Config::ephemeral()).await?;
        let health = || health(State(Arc::clone(&service.app)));
        assert_eq!(health().await, (StatusCode::OK, "ok\n"));
        service.app.parts.spawn("test", async { panic!() }).await?;
        assert_eq!(health().await.0, StatusCode::SERVICE_UNAVAILABLE);
        service.shutdown().await;
        Ok(())
    }
}
