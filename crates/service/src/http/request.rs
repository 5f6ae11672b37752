//! Checks of a request before it is routed: what another server on the way could read differently.

use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::{Request, StatusCode, Version};

use crate::api::Failure;

/// Why a request is refused before it is routed.
pub(crate) fn defect(request: &Request<Incoming>) -> Option<&'static str> {
    let headers = request.headers();
    let hosts = headers.get_all(HOST).iter().count();
    if hosts > 1 || hosts == 0 && request.version() >= Version::HTTP_11 {
        return Some("a request needs exactly one header host");
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_plain = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let is_stacked = codings.next().is_some_and(|first| !is_plain(first)) || codings.next().is_some();
    is_stacked.then_some("the only transfer coding is chunked")
}

/// The refusal of such a request, in the shape of the API. The connection is closed after it.
pub(crate) fn bad_request(message: &str) -> Response {
    let mut response = Failure::new(StatusCode::BAD_REQUEST, message).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
