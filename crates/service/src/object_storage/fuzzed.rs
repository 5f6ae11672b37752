//! Doors for the fuzz targets, to what the object store reads.

use axum::body::{Body, Bytes};
use futures_util::stream;
use jiff::Timestamp;

use super::location;
use super::s3_api::{form, policy};
use crate::http::slow_clients::BoundedBody;

/// An upload by form, as it was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Form {
    /// The fields before the file, their names in lower case.
    pub fields: Vec<(String, String)>,
    /// The content of the file.
    pub file: Vec<u8>,
}

/// Reads a body that arrives in these pieces.
pub async fn form(content_type: &str, pieces: Vec<Vec<u8>>) -> Result<Form, String> {
    let body = stream::iter(pieces.into_iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece))));
    let body = BoundedBody::new(Body::from_stream(body), u64::MAX);
    let mut parts = form::multipart(content_type, body).map_err(|refusal| refusal.to_string())?;
    let read = form::read_fields(&mut parts).await;
    let (fields, file) = read.map_err(|refusal| refusal.to_string())?;
    let file = file.bytes().await.map_err(|cause| cause.to_string())?;
    Ok(Form { fields, file: file.into() })
}

/// When a policy expires.
pub fn policy_expiration(policy: &str) -> Option<Timestamp> {
    policy::expiration(policy)
}

/// The bucket, the token and the key behind the path of a URL.
pub fn location(path: &str) -> Option<[String; 3]> {
    location::read(path).map(|location| [location.bucket, location.token, location.key])
}

/// The path of an object.
pub fn path([bucket, token, key]: [&str; 3]) -> String {
    let owned = str::to_owned;
    location::Location { bucket: owned(bucket), token: owned(token), key: owned(key) }.path()
}
