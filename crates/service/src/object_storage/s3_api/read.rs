//! Downloads: GET and HEAD of an object by its URL, without a signature.

use crate::object_storage::ObjectApi;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderValue, LAST_MODIFIED, LOCATION, REFERRER_POLICY,
};
use axum::http::request::Parts;
use axum::http::{Method, Response, StatusCode};
use futures_util::StreamExt as _;
use inferstore_models::SamplePicture;
use url::form_urlencoded;

use super::{Code, S3Error, conditions};
use crate::Error;
use crate::catalog::sample_at;
use crate::http::mime::is_mime;
use crate::object_storage::location;

const OTHER_RESOURCES: [&str; 9] = [
    "acl",
    "attributes",
    "legal-hold",
    "object-lock",
    "retention",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
];

pub(super) async fn read(api: &Arc<ObjectApi>, head: &Parts) -> Result<Response<Body>, S3Error> {
    check_query(head.uri.query().unwrap_or_default())?;
    if let Some(sample) = sample_at(head.uri.path()) {
        return send_sample(sample, &head.method);
    }
    // A path without a key would be a listing.
    location::read(head.uri.path()).ok_or_else(|| S3Error::new(Code::AccessDenied, "Access Denied"))?;
    let no_key = || S3Error::new(Code::NoSuchKey, "The specified key does not exist.");
    let (bucket, key) = api.objects.object_at(head.uri.path()).await?.ok_or_else(no_key)?;
    let permit = api.downloads.try_acquire((bucket.clone(), key.clone())).ok_or_else(S3Error::slow_down)?;
    if let Some(store) = api.objects.direct() {
        let object = api.objects.find(&bucket, &key).await?.ok_or_else(no_key)?;
        return redirect(&store.download_url(&object, &head.method, !is_inert(&object.mime))?);
    }
    let opened = api.objects.read(&bucket, &key).await?.ok_or_else(no_key)?;
    let object = opened.object.clone();
    conditions::check(&head.headers, &object)?;
    let part = conditions::range(&head.headers, &object)?;
    let range = part.clone().unwrap_or(0..object.size);
    let mut response = Response::builder()
        .header(ACCEPT_RANGES, "bytes")
        .header(CONTENT_LENGTH, range.end - range.start)
        .header(CONTENT_TYPE, &object.mime)
        .header(ETAG, conditions::etag(&object))
        .header(LAST_MODIFIED, httpdate::fmt_http_date(conditions::last_modified(&object)));
    if let Some(part) = part {
        let shown = format!("bytes {}-{}/{}", part.start, part.end.saturating_sub(1), object.size);
        response = response.status(StatusCode::PARTIAL_CONTENT).header(CONTENT_RANGE, shown);
    }
    if !is_inert(&object.mime) {
        response = response.header(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    }
    let body = if head.method == Method::HEAD {
        Body::empty()
    } else {
        // The permit is held until the last byte was written.
        Body::from_stream(opened.read(range).inspect(move |_| {
            let _ = &permit;
        }))
    };
    Ok(response.body(body).map_err(|cause| Error::new("responding with an object", cause))?)
}

fn send_sample(sample: &'static SamplePicture, method: &Method) -> Result<Response<Body>, S3Error> {
    let body = if method == Method::HEAD { Body::empty() } else { Body::from(sample.bytes) };
    let response = Response::builder()
        .header(CONTENT_LENGTH, sample.bytes.len())
        .header(CONTENT_TYPE, sample.mime)
        .header(CACHE_CONTROL, "public, max-age=3600")
        .body(body);
    Ok(response.map_err(|cause| Error::new("responding with a sample", cause))?)
}

/// Redirects to the bucket, which evaluates conditions and ranges, by a short-lived URL under this permanent one.
fn redirect(location: &str) -> Result<Response<Body>, S3Error> {
    let response = Response::builder()
        .status(StatusCode::FOUND)
        .header(LOCATION, location)
        .header(CACHE_CONTROL, "no-store")
        .header(REFERRER_POLICY, "no-referrer")
        .body(Body::empty());
    Ok(response.map_err(|cause| Error::new("responding with an object", cause))?)
}

fn check_query(query: &str) -> Result<(), S3Error> {
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name.starts_with("response-") {
            let message = "Request specific response headers cannot be used for anonymous GET requests.";
            return Err(S3Error::new(Code::InvalidRequest, message));
        }
        // Every object has a single version, which S3 calls `null`.
        if name == "versionId" && value != "null" {
            return Err(S3Error::new(Code::NoSuchVersion, "The specified version does not exist."));
        }
        if OTHER_RESOURCES.contains(&name.as_ref()) {
            return Err(S3Error::new(Code::AccessDenied, "Access Denied"));
        }
    }
    Ok(())
}

/// Returns true if a browser may show a file of this MIME type, which runs no script. Others are downloaded.
fn is_inert(mime: &str) -> bool {
    // An earlier version accepted types that a browser interprets as another type.
    if !is_mime(mime) {
        return false;
    }
    let essence = mime.split(';').next().unwrap_or_default().to_ascii_lowercase();
    match essence.split_once('/') {
        // XML of any type may contain a page or a drawing with scripts.
        Some(("image" | "audio" | "video", subtype)) => subtype != "xml" && !subtype.ends_with("+xml"),
        _ => ["text/plain", "application/pdf", "application/json"].contains(&essence.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_run_script_is_saved_and_not_shown() {
        for shown in ["image/png", "IMAGE/PNG", "video/mp4", "audio/mpeg", "text/plain; charset=utf-8"] {
            assert!(is_inert(shown), "{shown}");
        }
        for saved in ["image/svg+xml", "image/x+xml", "video/x+XML; q=1", "audio/xml", "text/html", "image"] {
            assert!(!is_inert(saved), "{saved}");
        }
    }
}
