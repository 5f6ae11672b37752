//! Middleware of every request: request identifier, access log, metrics, limits, CORS.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, DATE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tracing::Instrument;

use super::Failure;
use super::caller::CallerSlot;
use crate::lifecycle::app::App;
use crate::lifecycle::config::CorsOrigin;
use crate::operations::metrics::label;
use crate::queue::KEY_RETENTION;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_KEY_RETENTION: HeaderName = HeaderName::from_static("idempotency-key-retention");

/// Time for which a browser may cache a preflight response.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_hours(1);

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Trace context of a request (W3C Trace Context); None without a valid `traceparent` header.
pub(super) struct TraceParent(pub(super) Option<String>);

impl TraceParent {
    fn of(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(TRACEPARENT).iter();
        let only = sent.next().filter(|_| sent.next().is_none()).and_then(|value| value.to_str().ok());
        Self(only.filter(|value| is_traceparent(value)).map(str::to_owned))
    }
}

impl FromRequestParts<Arc<App>> for TraceParent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}

/// Returns true for `version-trace-parent-flags` in lower-case hexadecimal digits, trace and parent not zero.
fn is_traceparent(value: &str) -> bool {
    let parts: Vec<&str> = value.split('-').collect();
    let [version, trace, parent, flags] = parts[..] else { return false };
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    [version, trace, parent, flags].map(str::len) == [2, 32, 16, 2]
        && parts.iter().all(|part| is_hex(part))
        && version != "ff"
        && !is_zero(trace)
        && !is_zero(parent)
}

#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Assigns a request identifier, writes the access log and updates the metrics. The log has no headers, bodies, path
/// parameters or queries (redaction).
pub(crate) async fn observe(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let id = app.random.uuid().unwrap_or_default();
    let caller = CallerSlot::default();
    request.extensions_mut().insert(RequestId(id.clone()));
    request.extensions_mut().insert(caller.clone());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unknown".to_owned(), |path| path.as_str().to_owned());
    let method = request.method().clone();
    let TraceParent(traceparent) = TraceParent::of(request.headers());
    let span = tracing::info_span!("request", id, traceparent);
    let begun = Instant::now();
    let mut response = next.run(request).instrument(span).await;
    let status = response.status();
    let elapsed = begun.elapsed();
    tracing::info!(
        id,
        method = label(&method),
        route,
        status = status.as_u16(),
        ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        account = caller.username(),
        traceparent,
        "request"
    );
    app.metrics.observe(&method, &route, status, elapsed);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    // Responses contain private data: balances, and URLs of files.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set_date(&app, response.headers_mut());
    response
}

/// Adds the retention of idempotency keys to every response, by which clients detect the support.
pub(super) async fn announce_keys(mut response: Response) -> Response {
    response.headers_mut().insert(IDEMPOTENCY_KEY_RETENTION, KEY_RETENTION.as_secs().into());
    response
}

/// Sets `Date` by the clock of tasks and files, with which clients compare it. The machine's may be wrong.
pub(crate) fn set_date(app: &App, headers: &mut HeaderMap) {
    let Ok(now) = SystemTime::try_from(app.clock.now().timestamp()) else { return };
    if let Ok(value) = HeaderValue::from_str(&httpdate::fmt_http_date(now)) {
        headers.insert(DATE, value);
    }
}

/// Backpressure: responds with 503 if too many requests are in progress. A request whose client disconnects keeps its
/// permit until its work ends; otherwise abandoned work would have no limit.
pub(super) async fn limit_requests(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let permit = Arc::clone(&app.requests).try_acquire_owned().map_err(|_| {
        let message = "too many requests are in progress; try again";
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(1)
    })?;
    let respond = async move {
        let _permit = permit;
        next.run(request).await
    };
    Ok(app.parts.run_to_end("responding", respond).await?)
}

/// Returns the CORS layer of the API for the configured origins; None without origins. A preflight needs no key.
pub(super) fn cors(origins: &[CorsOrigin]) -> Option<CorsLayer> {
    let layer = cors_of(origins)?
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([HeaderName::from_static("x-api-key"), CONTENT_TYPE, IDEMPOTENCY_KEY, TRACEPARENT])
        .expose_headers([REQUEST_ID, RETRY_AFTER, IDEMPOTENCY_KEY_RETENTION]);
    Some(layer)
}

/// Returns a CORS layer without methods and headers for these origins; None without origins.
pub(crate) fn cors_of(origins: &[CorsOrigin]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let allowed = if origins.contains(&CorsOrigin::any()) {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().map(|origin| origin.0.clone()))
    };
    Some(CorsLayer::new().allow_origin(allowed).max_age(PREFLIGHT_MAX_AGE))
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
    async fn a_request_whose_client_hangs_up_is_in_progress_until_what_it_began_has_ended()
    -> Result<(), Error> {
        let service = Service::start(Config::ephemeral()).await?;
        let requests = &service.app.requests;
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
        let layer = from_fn_with_state(Arc::clone(&service.app), limit_requests);
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
