//! Entry points for the fuzz targets: parsers of the object store.

use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use jiff::Timestamp;
use reqwest::Method;
use url::Url;

use super::location;
use super::s3_api::{Signer, form, policy};
use crate::http::slow_clients::BoundedBody;

/// A parsed form upload.
#[derive(Debug, PartialEq, Eq)]
pub struct UploadForm {
    /// Fields before the file, with lower-case names.
    pub fields: Vec<(String, String)>,
    /// Content of the file.
    pub file: Vec<u8>,
}

/// Parses a body that arrives in these pieces.
pub async fn form(content_type: &str, pieces: Vec<Vec<u8>>) -> Result<UploadForm, String> {
    let body = stream::iter(pieces.into_iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece))));
    let body = BoundedBody::new(Body::from_stream(body), u64::MAX);
    let mut parts = form::multipart(content_type, body).map_err(|refusal| refusal.to_string())?;
    let read = form::read_fields(&mut parts).await;
    let (fields, file) = read.map_err(|refusal| refusal.to_string())?;
    let file = file.bytes().await.map_err(|cause| cause.to_string())?;
    Ok(UploadForm { fields, file: file.into() })
}

/// Signs a URL of any object store for so long; None if it is no URL. For a benchmark.
pub fn signed_url(
    method: &str,
    url: &str,
    [access_key, secret]: [&str; 2],
    life: Duration,
) -> Option<String> {
    let signer = Signer::new(access_key, secret, "us-east-1");
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let url = Url::parse(url).ok()?;
    signer.url(&method, url, life, &[], &[], Timestamp::now()).ok().map(String::from)
}

/// Returns the expiration of a policy.
pub fn policy_expiration(policy: &str) -> Option<Timestamp> {
    policy::expiration(policy)
}

/// Parses the path of a URL: returns bucket, token and key.
pub fn location(path: &str) -> Option<[String; 3]> {
    location::read(path).map(|location| [location.bucket, location.token, location.key])
}

/// Returns the path of an object.
pub fn path([bucket, token, key]: [&str; 3]) -> String {
    let owned = str::to_owned;
    location::Location { bucket: owned(bucket), token: owned(token), key: owned(key) }.path()
}
