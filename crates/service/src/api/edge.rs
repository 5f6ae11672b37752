//! What happens to every request before and after its handler: an identifier, a log line, limits.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::ALLOW;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use super::{Failure, failure};
use crate::lifecycle::app::App;

/// Tells requests apart, in logs and to whoever asks about one.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The identifier of a request, for whoever is further inside.
#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Gives every request an identifier, logs its end, counts it. Neither headers nor bodies nor queries
/// are logged.
pub(crate) async fn observe(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let id = app.random.uuid().unwrap_or_default();
    request.extensions_mut().insert(RequestId(id.clone()));
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unknown".to_owned(), |path| path.as_str().to_owned());
    let method = request.method().clone();
    let span = tracing::info_span!("request", id, %method, route);
    let begun = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let (status, elapsed) = (response.status(), begun.elapsed());
    span.in_scope(|| tracing::info!(status = status.as_u16(), ?elapsed, "answered"));
    app.metrics.answered(&method, &route, status, elapsed);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Answers 503 rather than letting requests pile up.
pub(crate) async fn limit_requests(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match app.requests.try_acquire() {
        Ok(_permit) => next.run(request).await,
        Err(_) => Failure::busy().into_response(),
    }
}

/// axum answers HEAD wherever there is a GET; the document declares no HEAD. To be laid around routes, so
/// that it sees a HEAD only where there is a GET.
pub(crate) async fn refuse_undeclared_head(request: Request, next: Next) -> Response {
    if request.method() == Method::HEAD {
        let refusal = failure::wrong_method(Method::HEAD, request.uri().clone()).await;
        return ([(ALLOW, HeaderValue::from_static("GET"))], refusal).into_response();
    }
    next.run(request).await
}

/// Takes HEAD out of the methods that a refusal names as allowed: see above.
pub(crate) async fn allow_what_is_declared(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let allowed = response.headers().get(ALLOW).and_then(|value| value.to_str().ok());
    if let Some(allowed) = allowed
        && let Ok(allowed) = HeaderValue::from_str(&allowed.replace(",HEAD", ""))
    {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}
