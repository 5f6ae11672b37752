//! Operations: `/health` and `/metrics`, on a listener of their own.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use inferstore_server::Connections;
use tokio::sync::Semaphore;

use crate::background::BackgroundTasks;
use crate::clock::{Clock, Moment, elapsed};
use crate::config::Limits;
use crate::database::Database;
use crate::database::FIRST_ACCOUNT;
use crate::metrics::{Metrics, number};
use crate::queue::ModelLoad;
use crate::{Result, totals};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) struct Operations {
    pub(crate) database: Arc<dyn Database>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) background: BackgroundTasks,
    pub(crate) connections: Arc<Connections>,
    pub(crate) requests: Arc<Semaphore>,
    pub(crate) lease: Duration,
    pub(crate) limits: Limits,
}

pub(crate) fn router(operations: Operations) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(operations))
}

/// Responds with 200 if every part runs and the database reads and commits in time, else with 503 and the reason.
async fn health(State(operations): State<Arc<Operations>>) -> (StatusCode, &'static str) {
    let unavailable = |reason| (StatusCode::SERVICE_UNAVAILABLE, reason);
    if let Some(part) = operations.background.panicked() {
        tracing::error!(part, "the health check failed: a part of the service has panicked");
        return unavailable("a part of the service has panicked; restart it\n");
    }
    let check = async {
        operations.database.setting(FIRST_ACCOUNT).await?;
        operations.database.check_writer().await
    };
    match tokio::time::timeout(operations.limits.health_timeout, check).await {
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

async fn metrics(State(operations): State<Arc<Operations>>) -> Result<Response, StatusCode> {
    let now = operations.clock.now();
    let read = read_database(&operations, now);
    let loads = match tokio::time::timeout(operations.limits.health_timeout, read).await {
        Ok(Ok(loads)) => Some(loads),
        Ok(Err(cause)) => {
            tracing::error!(%cause, "the metrics lack those of the database");
            None
        }
        Err(_) => {
            tracing::error!("the metrics lack those of the database: it does not respond in time");
            None
        }
    };
    let in_progress = operations.limits.max_requests.saturating_sub(operations.requests.available_permits());
    operations.metrics.requests_in_progress.set(number(in_progress));
    operations.metrics.open_connections.set(number(operations.connections.count()));
    let text = operations.metrics.encode(loads.as_deref(), now).map_err(|cause| {
        tracing::error!(%cause, "the metrics cannot be written");
        StatusCode::INTERNAL_SERVER_ERROR
    })?;
    Ok(([(CONTENT_TYPE, OPENMETRICS)], text).into_response())
}

async fn read_database(operations: &Operations, now: Moment) -> Result<Vec<ModelLoad>> {
    let Operations { database, metrics, .. } = operations;
    database.measure().await?;
    let depths = database.depths().await?;
    let oldest = database.oldest_queued().await?;
    let loads = database.model_loads(now.before(operations.lease)).await?;
    let totals = totals::read(&**database).await?;
    let orphans = totals::read_orphans(&**database).await?;
    metrics.set_totals(&totals, orphans);
    for (status, tasks) in depths {
        metrics.set_tasks(status.word(), tasks);
    }
    metrics.queue_age.set(number(elapsed(oldest.unwrap_or(now), now).as_secs()));
    Ok(loads)
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use crate::config::FREE_PORT;
    use crate::{Config, Service};

    #[tokio::test]
    #[expect(clippy::panic, reason = "it is what a defect does")]
    async fn a_service_is_not_healthy_when_one_of_its_parts_has_panicked() -> Result<(), Box<dyn Error>> {
        let mut config = Config::ephemeral();
        config.operations = Some(FREE_PORT);
        let service = Service::start(config).await?;
        let url = format!("{}/health", service.operations_url().unwrap_or_default());
        let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build()?;
        let health = async || client.get(&url).send().await.map(|response| response.status().as_u16());
        assert_eq!(health().await?, 200);
        service.background.spawn("test", async { panic!() }).await?;
        assert_eq!(health().await?, 503);
        service.shutdown().await;
        Ok(())
    }
}
