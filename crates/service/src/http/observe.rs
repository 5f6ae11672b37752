//! Middleware of every request: request identifier, access log, metrics, `Date`, CORS.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, DATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tracing::Instrument;

use crate::clock::Clock;
use crate::config::CorsOrigin;
use crate::metrics::{Metrics, label};
use crate::random::Randomness;
use crate::telemetry::Spans;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const PREFLIGHT_MAX_AGE: Duration = Duration::from_hours(1);

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Routes of nodes, which poll: their requests get no span.
const NODE_ROUTES: &str = "/nodes/";

/// W3C Trace Context of a request: of its span if the service exports spans, otherwise of the caller.
#[derive(Clone)]
pub(crate) struct TraceParent(pub(crate) Option<String>);

impl TraceParent {
    fn of(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(TRACEPARENT).iter();
        let only = sent.next().filter(|_| sent.next().is_none()).and_then(|value| value.to_str().ok());
        Self(only.filter(|value| is_traceparent(value)).map(str::to_owned))
    }
}

impl<S: Sync> FromRequestParts<S> for TraceParent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or(Self(None)))
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

pub(crate) struct Observer {
    pub(crate) random: Randomness,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) spans: Arc<Spans>,
}

#[derive(Clone, Default)]
pub(crate) struct CallerSlot(Arc<OnceLock<String>>);

impl CallerSlot {
    pub(crate) fn set(&self, username: &str) {
        let _ = self.0.set(username.to_owned());
    }

    fn username(&self) -> &str {
        self.0.get().map_or("", String::as_str)
    }
}

/// Writes the access log, without headers, bodies, path parameters and queries (redaction); updates the metrics.
pub(crate) async fn observe(
    State(observer): State<Arc<Observer>>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = observer.random.uuid().unwrap_or_default();
    let caller = CallerSlot::default();
    request.extensions_mut().insert(RequestId(id.clone()));
    request.extensions_mut().insert(caller.clone());
    let matched = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = matched.as_deref().unwrap_or("unknown");
    let method = request.method().clone();
    let TraceParent(sent) = TraceParent::of(request.headers());
    let traceparent = match route.starts_with(NODE_ROUTES) {
        true => sent.clone(),
        false => observer.spans.request_context(sent.as_deref()),
    };
    request.extensions_mut().insert(TraceParent(traceparent.clone()));
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
    observer.metrics.observe(&method, route, status, elapsed);
    let contexts = (sent.as_deref(), traceparent.as_deref());
    observer.spans.request_ended(contexts, &method, matched.as_deref(), status, elapsed);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    // Responses contain private data: balances, and URLs of files.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set_date(&observer.clock, response.headers_mut());
    response
}

/// Sets `Date` by the clock of tasks and files, with which clients compare it. The machine's may be wrong.
pub(crate) fn set_date(clock: &Clock, headers: &mut HeaderMap) {
    let Ok(now) = SystemTime::try_from(clock.now().timestamp()) else { return };
    if let Ok(value) = HeaderValue::from_str(&httpdate::fmt_http_date(now)) {
        headers.insert(DATE, value);
    }
}

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
