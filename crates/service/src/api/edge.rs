//! What surrounds every request: its identifier, the access log, metrics, limits, CORS.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, DATE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::cors::{AllowOrigin, CorsLayer};
use tracing::Instrument;

use super::Failure;
use super::caller::CallerSlot;
use crate::lifecycle::app::App;
use crate::lifecycle::config::CorsOrigin;
use crate::operations::metrics::label;

/// Identifies a request in responses and logs.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How long a browser may keep the response to a preflight.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_hours(1);

/// The identifier of a request.
#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Gives every request an identifier, writes the access log, counts. Neither headers nor bodies nor paths
/// with their parameters nor queries are logged.
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
    let span = tracing::info_span!("request", id);
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
        "request"
    );
    app.metrics.observe(&method, &route, status, elapsed);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    // What an account has, and URLs of its files, are for nobody else.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set_date(&app, response.headers_mut());
    response
}

/// Dates a response by the clock of tasks and files, which clients compare it with; that of the machine may be wrong.
pub(crate) fn set_date(app: &App, headers: &mut HeaderMap) {
    let date = httpdate::fmt_http_date(app.clock.now().timestamp().into());
    if let Ok(value) = HeaderValue::from_str(&date) {
        headers.insert(DATE, value);
    }
}

/// Responds with 503 when too many requests are in progress.
pub(crate) async fn limit_requests(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match app.requests.try_acquire() {
        Ok(_permit) => next.run(request).await,
        Err(_) => {
            let message = "too many requests are in progress; try again";
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(1).into_response()
        }
    }
}

/// CORS of the API for the origins of the settings; None when there are none. A preflight needs no key.
pub(super) fn cors(origins: &[CorsOrigin]) -> Option<CorsLayer> {
    let layer = cors_of(origins)?
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([HeaderName::from_static("x-api-key"), CONTENT_TYPE])
        .expose_headers([REQUEST_ID, RETRY_AFTER]);
    Some(layer)
}

/// CORS for some origins, without methods and headers; None when there are no origins.
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
