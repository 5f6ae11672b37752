//! What happens to every request to the object store before and after it is answered: what no request
//! may carry, an identifier, a log line, and leave for browsers.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Response, StatusCode};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3Error, S3ErrorCode, s3_error};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use super::form;
use crate::lifecycle::app::App;
use crate::object_storage::s3_api::access::{Access, Auth};
use crate::object_storage::s3_api::backend::Backend;
use crate::object_storage::s3_api::linger::Lingering;

/// What requests are counted under: keys are as many as files.
const ROUTE: &str = "/{bucket}/{key}";

#[derive(Clone)]
struct Front {
    app: Arc<App>,
    s3: S3Service,
}

/// The object store over HTTP.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut builder = S3ServiceBuilder::new(Backend { app: Arc::clone(app) });
    builder.set_auth(Auth { secret: app.objects.signer().secret().into() });
    builder.set_access(Access);
    let front = Front { app: Arc::clone(app), s3: builder.build() };
    Router::new().fallback(serve).with_state(front)
}

async fn serve(State(front): State<Front>, request: Request) -> Response<Body> {
    let id = front.app.random.uuid().unwrap_or_default();
    let method = request.method().clone();
    let begun = Instant::now();
    let answered = |request| async {
        match answer(&front, request).await {
            Ok(response) => response,
            Err(refusal) => write(refusal, &id),
        }
    };
    let mut response = match &front.app.tester {
        None => answered(request).await,
        Some(tester) => tester.around_objects(&front.app.clock, &id, request, answered).await,
    };
    let (status, elapsed) = (response.status(), begun.elapsed());
    // Neither the path nor the query is logged: a signed URL is a credential.
    tracing::info!(id, %method, status = status.as_u16(), ?elapsed, "the object store answered");
    front.app.metrics.answered(&method, ROUTE, status, elapsed);
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(HeaderName::from_static("x-amz-request-id"), id);
    }
    // Objects are whatever somebody uploaded: a browser must not guess that one is a page.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    let readable = HeaderValue::from_static("ETag, Location, Content-Range, Accept-Ranges, x-amz-request-id");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, readable);
    response
}

async fn answer(front: &Front, request: Request) -> Result<Response<Body>, S3Error> {
    if request.method() == Method::OPTIONS {
        return Ok(preflight(request.headers()));
    }
    let waits = request.headers().contains_key(header::EXPECT);
    // Who waits for a word before sending has nothing under way that would have to be read.
    let idle = front.app.config.limits.upload_idle;
    let mut request = if waits { request } else { request.map(|body| Lingering::wrap(body, idle)) };
    refuse_extras(&request)?;
    if form::is_form(&request) {
        let bucket = request.uri().path().trim_matches('/').to_owned();
        if bucket.contains('/') {
            let message = "The specified method is not allowed against this resource.";
            return Err(s3_error!(MethodNotAllowed, "{message}"));
        }
        return form::upload(&front.app, &bucket, request).await;
    }
    ignore_odd_range(request.headers_mut());
    // s3s logs whole requests, which would put signatures into the log. What we log ourselves inside
    // goes where it would have gone.
    request.extensions_mut().insert(tracing::dispatcher::get_default(Clone::clone));
    let call = front.s3.call(request.map(s3s::Body::http_body_unsync));
    let answered = call.with_subscriber(NoSubscriber::default()).await;
    let failed = |_| S3Error::new(S3ErrorCode::InternalError);
    let mut response = answered.map_err(failed)?.map(Body::new);
    // For a HEAD, s3s says 200 even of a part.
    if response.status() == StatusCode::OK && response.headers().contains_key(header::CONTENT_RANGE) {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

fn is_upload(request: &Request) -> bool {
    [Method::PUT, Method::POST].contains(request.method())
}

/// Refuses what S3 refuses and s3s lets pass.
fn refuse_extras(request: &Request) -> Result<(), S3Error> {
    let headers = request.headers();
    if headers.contains_key("x-api-key") {
        return Err(s3_error!(
            InvalidRequest,
            "The API key does not belong here: send the request without the header x-api-key."
        ));
    }
    // Targets are signed in their URL or their form, so this header is always one too many.
    if headers.contains_key(header::AUTHORIZATION) {
        return Err(s3_error!(
            InvalidArgument,
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query \
             string parameter or the Authorization header should be specified"
        ));
    }
    let query = request.uri().query().unwrap_or_default();
    if query.split('&').any(|pair| pair.starts_with("Signature=") || pair.starts_with("AWSAccessKeyId=")) {
        return Err(s3_error!(
            InvalidRequest,
            "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."
        ));
    }
    let chunked = headers.contains_key(header::TRANSFER_ENCODING);
    if is_upload(request) && (chunked || !headers.contains_key(header::CONTENT_LENGTH)) {
        return Err(s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."));
    }
    Ok(())
}

/// A range that cannot be understood is to be ignored, says RFC 9110; s3s would refuse it.
fn ignore_odd_range(headers: &mut HeaderMap) {
    let range = headers.get(header::RANGE).map(|range| range.to_str().map(s3s::dto::Range::parse));
    if !matches!(range, None | Some(Ok(Ok(_)))) {
        headers.remove(header::RANGE);
    }
}

/// Browsers ask before they upload. Signatures guard the store, not the page that an upload comes from.
fn preflight(asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, PUT"));
    if let Some(wanted) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    response
}

/// Writes a refusal as S3 does.
fn write(mut refusal: S3Error, id: &str) -> Response<Body> {
    refusal.set_request_id(id);
    let written: Result<_, S3Error> = refusal.to_http_response();
    written.map(|response| response.map(Body::new)).unwrap_or_else(|_| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}
