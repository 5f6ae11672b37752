//! Middleware of the API: a limit on concurrent requests, the support of idempotency keys, CORS.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::Semaphore;
use tower_http::cors::CorsLayer;

use crate::background::BackgroundTasks;
use crate::config::CorsOrigin;
use crate::http::observe::{REQUEST_ID, TRACEPARENT, cors_of};
use crate::http::response::Failure;
use crate::queue::KEY_RETENTION;

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_KEY_RETENTION: HeaderName = HeaderName::from_static("idempotency-key-retention");

/// Adds the retention of idempotency keys to every response, by which clients detect the support.
pub(crate) fn announce_keys(mut response: Response) -> Response {
    response.headers_mut().insert(IDEMPOTENCY_KEY_RETENTION, KEY_RETENTION.as_secs().into());
    response
}

pub(crate) struct RequestLimit {
    pub(crate) requests: Arc<Semaphore>,
    pub(crate) background: BackgroundTasks,
}

/// Backpressure (503). A request without a client keeps its permit until its work ends, which limits abandoned work.
pub(super) async fn limit_requests(
    State(limit): State<Arc<RequestLimit>>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let permit = Arc::clone(&limit.requests).try_acquire_owned().map_err(|_| {
        let message = "too many requests are in progress; try again";
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(1)
    })?;
    let respond = async move {
        let _permit = permit;
        next.run(request).await
    };
    Ok(limit.background.run_to_end("responding", respond).await?)
}

pub(super) fn cors(origins: &[CorsOrigin]) -> Option<CorsLayer> {
    let layer = cors_of(origins)?
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([HeaderName::from_static("x-api-key"), CONTENT_TYPE, IDEMPOTENCY_KEY, TRACEPARENT])
        .expose_headers([REQUEST_ID, RETRY_AFTER, IDEMPOTENCY_KEY_RETENTION]);
    Some(layer)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use tokio::sync::oneshot;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{Config, Error, Service};

    #[tokio::test]
    async fn a_request_keeps_its_permit_after_a_disconnect_until_its_work_ends() -> Result<(), Error> {
        let service = Service::start(Config::ephemeral()).await?;
        let requests = Arc::new(Semaphore::new(8));
        let limit = RequestLimit { requests: Arc::clone(&requests), background: service.background.clone() };
        let (end, ends) = oneshot::channel::<()>();
        let (ended, has_ended) = oneshot::channel();
        let gates = Arc::new(std::sync::Mutex::new(Some((ends, ended))));
        let handler = async move || {
            let gates = gates.lock().ok().and_then(|mut gates| gates.take());
            if let Some((ends, ended)) = gates {
                let _ = ends.await;
                let _ = ended.send(());
            }
        };
        let layer = from_fn_with_state(Arc::new(limit), limit_requests);
        let router = Router::new().route("/", get(handler)).layer(layer);
        let free = requests.available_permits();
        let mut response = Box::pin(router.oneshot(Request::new(Body::empty())));
        for _ in 0..10 {
            assert!(futures_util::poll!(&mut response).is_pending());
            tokio::task::yield_now().await;
        }
        drop(response);
        assert_eq!(requests.available_permits(), free - 1);
        let _ = end.send(());
        assert!(has_ended.await.is_ok());
        while requests.available_permits() < free {
            tokio::task::yield_now().await;
        }
        service.shutdown().await;
        Ok(())
    }
}
