//! Request smuggling protection: rejects requests that a proxy could parse differently, before routing.

use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::{Request, Version};

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
