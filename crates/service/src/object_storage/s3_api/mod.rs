//! S3 protocol on its own listener: form uploads, presigned PUTs and downloads, with identifiers and the access log.

mod conditions;
mod error;
pub(super) mod form;
pub(super) mod policy;
mod put;
mod read;
mod sign;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Response};
use axum::middleware::{Next, from_fn_with_state};
use tower::util::option_layer;
use tower_http::cors::AllowHeaders;

pub(crate) use error::{Code, S3Error};
pub(crate) use sign::{Presigned, Signer, Upload};

use super::Objects;
use crate::accounts::AccountId;
use crate::background::BackgroundTasks;
use crate::config::CorsOrigin;
use crate::http::observe::{RequestId, cors_of, set_date};
use crate::http::share_limit::ShareLimit;
use crate::metrics::{Metrics, label};

/// Label of all requests in the metrics, because there are as many paths as files.
const ROUTE: &str = "/{bucket}/{key}";

pub(crate) struct ObjectApi {
    pub(crate) objects: Arc<Objects>,
    pub(crate) background: BackgroundTasks,
    pub(crate) metrics: Arc<Metrics>,
    /// Permits for concurrent downloads by bucket and key, because a client needs only a URL to start them.
    pub(crate) downloads: ShareLimit<(String, String)>,
    pub(crate) uploads: ShareLimit<AccountId>,
}

pub(crate) fn router(
    api: ObjectApi,
    origins: &[CorsOrigin],
    with_controls: &dyn Fn(Router) -> Router,
) -> Router {
    let exposed = ["etag", "location", "content-range", "accept-ranges", "x-amz-request-id"];
    let cors = cors_of(origins).map(|cors| {
        cors.allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PUT])
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(exposed.map(HeaderName::from_static))
    });
    let api = Arc::new(api);
    with_controls(Router::new().fallback(serve).with_state(Arc::clone(&api)))
        .layer(from_fn_with_state(api, observe))
        .layer(option_layer(cors))
}

async fn observe(State(api): State<Arc<ObjectApi>>, mut request: Request, next: Next) -> Response<Body> {
    let id = api.objects.random.uuid().unwrap_or_default();
    let method = request.method().clone();
    let begun = Instant::now();
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).await;
    let (status, elapsed) = (response.status(), begun.elapsed());
    // The log contains neither path nor query, because a presigned URL is a credential (redaction).
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(id, method = label(&method), route = ROUTE, status = status.as_u16(), ms, "request");
    api.metrics.observe(&method, ROUTE, status, elapsed);
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(HeaderName::from_static("x-amz-request-id"), id);
    }
    set_date(&api.objects.clock, headers);
    // A replaced object has the same URL as before.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    // Objects are arbitrary: a browser must not sniff types, and HTML must have no origin and run no script.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    response
}

async fn serve(
    State(api): State<Arc<ObjectApi>>,
    Extension(RequestId(id)): Extension<RequestId>,
    request: Request,
) -> Response<Body> {
    respond(&api, request).await.unwrap_or_else(|error| error.respond(&id))
}

async fn respond(api: &Arc<ObjectApi>, request: Request) -> Result<Response<Body>, S3Error> {
    refuse_extras(request.method(), request.headers(), request.uri().query().unwrap_or_default())?;
    let (head, body) = request.into_parts();
    match head.method {
        Method::GET | Method::HEAD => read::read(api, &head).await,
        Method::PUT | Method::POST if api.objects.direct().is_some() => Err(not_allowed("GET, HEAD")),
        Method::PUT => put::upload(api, &head, body).await,
        Method::POST if form::is_form(&head.headers) => form::upload(api, &head, body).await,
        Method::POST => Err(S3Error::denied("a POST is a form, whose content-type is multipart/form-data.")),
        Method::DELETE => Err(S3Error::new(Code::AccessDenied, "Access Denied")),
        _ if api.objects.direct().is_some() => Err(not_allowed("GET, HEAD")),
        _ => Err(not_allowed("GET, HEAD, POST, PUT")),
    }
}

fn not_allowed(methods: &str) -> S3Error {
    let message = "The specified method is not allowed against this resource.";
    S3Error::new(Code::MethodNotAllowed, message).with(header::ALLOW, methods.to_owned())
}

fn refuse_extras(method: &Method, headers: &HeaderMap, query: &str) -> Result<(), S3Error> {
    if headers.contains_key("x-api-key") {
        let message = "The API key does not belong here: send the request without the header x-api-key.";
        return Err(S3Error::new(Code::InvalidRequest, message));
    }
    // Targets are signed in their URL or form, so this header is a second authentication.
    if headers.contains_key(header::AUTHORIZATION) {
        let message = "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature \
                       query string parameter or the Authorization header should be specified";
        return Err(S3Error::new(Code::InvalidArgument, message));
    }
    if query.split('&').any(|pair| pair.starts_with("Signature=") || pair.starts_with("AWSAccessKeyId=")) {
        let message = "The authorization mechanism you have provided is not supported. Please use \
                       AWS4-HMAC-SHA256.";
        return Err(S3Error::new(Code::InvalidRequest, message));
    }
    let is_upload = [Method::PUT, Method::POST].contains(method);
    let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
    if is_upload && (is_chunked || !headers.contains_key(header::CONTENT_LENGTH)) {
        let message = "You must provide the Content-Length HTTP header.";
        return Err(S3Error::new(Code::MissingContentLength, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_credentials_are_refused_and_an_upload_states_its_size() {
        let refused = |method: Method, header: Option<HeaderName>, query: &str| {
            let headers = header.into_iter().map(|name| (name, HeaderValue::from_static("1"))).collect();
            refuse_extras(&method, &headers, query).is_err()
        };
        assert!(!refused(Method::GET, None, "versionId=null"));
        for query in ["Signature=a", "x=y&AWSAccessKeyId=b"] {
            assert!(refused(Method::GET, None, query), "{query}");
        }
        for name in ["x-api-key", "authorization"] {
            assert!(refused(Method::GET, Some(HeaderName::from_static(name)), ""), "{name}");
        }
        for method in [Method::PUT, Method::POST] {
            assert!(refused(method.clone(), None, ""));
            assert!(refused(method.clone(), Some(header::TRANSFER_ENCODING), ""));
            assert!(!refused(method, Some(header::CONTENT_LENGTH), ""));
        }
    }
}
