//! Uploads by PUT to a presigned URL.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use futures_util::TryStreamExt;
use subtle::ConstantTimeEq;
use url::form_urlencoded;

use super::sign::{ACCESS_KEY, SignedPut, TARGET_PARAMETER, mismatch, signing_date, unknown_access_key};
use super::{Code, ObjectApi, S3Error};
use crate::Error;
use crate::http::slow_clients::BodyError;
use crate::object_storage::location;
use crate::object_storage::uploads::{admit, receive};

pub(super) async fn upload(
    api: &Arc<ObjectApi>,
    head: &Parts,
    body: Body,
) -> Result<Response<Body>, S3Error> {
    let denied = || S3Error::new(Code::AccessDenied, "Access Denied");
    let location = location::read(head.uri.path()).ok_or_else(denied)?;
    let query = head.uri.query().unwrap_or_default();
    let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let target_id = parameter(&query, TARGET_PARAMETER).unwrap_or_default();
    let sent = SignedPut {
        url: api.objects.locations.parsed_url(&location.path())?,
        target: Some(target_id),
        mime: text(CONTENT_TYPE.as_str()),
        size: text(CONTENT_LENGTH.as_str()),
    };
    verify(api, &query, sent)?;
    only_signed_headers(&head.headers)?;
    let target = admit(api, target_id, &location.bucket).await?;
    // Signing parses the URL, which resolves `./`, so another spelling of the path has the same signature.
    if location.key != target.key {
        return Err(mismatch());
    }
    let content_md5 = head.headers.contains_key("content-md5").then(|| text("content-md5"));
    let chunks = body.into_data_stream().map_err(|_| S3Error::from(BodyError::CutOff));
    let etag = receive(api, target, content_md5, chunks).await?;
    let response = Response::builder().header(ETAG, format!("\"{etag}\"")).body(Body::empty());
    Ok(response.map_err(|cause| Error::new("responding to an upload", cause))?)
}

fn parameter<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = query.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let value = values.next();
    value.filter(|_| values.next().is_none())
}

fn verify(api: &ObjectApi, query: &[(String, String)], sent: SignedPut<'_>) -> Result<(), S3Error> {
    let missing = |name: &str| S3Error::denied(&format!("the URL has no {name}."));
    let get = |name| parameter(query, name).ok_or_else(|| missing(name));
    let signature = get("X-Amz-Signature")?;
    if get("X-Amz-Credential")?.split('/').next() != Some(ACCESS_KEY) {
        return Err(unknown_access_key());
    }
    let date = signing_date(get("X-Amz-Date")?)?;
    let life = Duration::from_secs(get("X-Amz-Expires")?.parse().map_err(|_| mismatch())?);
    if date.saturating_add(life).map_err(|_| mismatch())? <= api.objects.clock.signing_time() {
        return Err(S3Error::new(Code::AccessDenied, "Request has expired"));
    }
    let right = api.objects.signer.put(sent, life, date)?;
    let right: Vec<_> = right.query_pairs().into_owned().collect();
    let is_same = |(name, value): &(String, String)| match name.as_str() {
        "X-Amz-Signature" => bool::from(value.as_bytes().ct_eq(signature.as_bytes())),
        name => parameter(query, name) == Some(value),
    };
    if right.len() == query.len() && right.iter().all(is_same) { Ok(()) } else { Err(mismatch()) }
}

fn only_signed_headers(headers: &HeaderMap) -> Result<(), S3Error> {
    // A target signs the length and the MIME type of the file, and no header of S3.
    const HARMLESS: [&str; 4] =
        ["x-amz-content-sha256", "x-amz-date", "x-amz-user-agent", "x-amz-request-id"];
    for name in headers.keys() {
        if name.as_str().starts_with("x-amz-") && !HARMLESS.contains(&name.as_str()) {
            let message = "There were headers present in the request which were not signed";
            return Err(S3Error::new(Code::AccessDenied, format!("{message}: {name}")));
        }
    }
    let is_streaming =
        headers.get("x-amz-content-sha256").is_some_and(|value| value.as_bytes().starts_with(b"STREAMING"));
    if is_streaming || headers.contains_key(IF_MATCH) || headers.contains_key(IF_NONE_MATCH) {
        let message = "Signed chunks and conditions on uploads are not implemented.";
        return Err(S3Error::new(Code::NotImplemented, message));
    }
    Ok(())
}
