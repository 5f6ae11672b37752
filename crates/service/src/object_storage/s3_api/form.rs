//! Uploading by form: `POST multipart/form-data` to the bucket, with a signed policy among its fields
//! and the file as the last one.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::body::Bytes;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, LOCATION};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use futures_util::stream::{self, Stream, StreamExt};
use multer::{Constraints, Field, Multipart, SizeLimit};
use subtle::ConstantTimeEq;
use tokio::time::{Instant, timeout_at};

use super::policy::{self, SizeRange, field};
use super::sign::{ACCESS_KEY, ALGORITHM, TARGET_FIELD, mismatch, own_scope, unknown_access_key};
use super::{Code, S3Error, not_allowed};
use crate::Error;
use crate::http::slow_clients::{BodyError, BoundedBody, TooSlow};
use crate::lifecycle::app::App;
use crate::object_storage::MAX_FORM_FILE;
use crate::object_storage::uploads::{Claim, admit, receive};

/// How large the names and values of all fields before the file may be.
const MAX_FIELDS: u64 = 64 * 1024;
/// How much of a body is read before a signature vouches for the rest: the fields with what is around
/// them, and the chunk in which the file begins.
const MAX_UNSIGNED: u64 = 4 * MAX_FIELDS;
/// How long a form waits until others have shown their signatures.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// How many fields may come before the file.
const MAX_FIELD_COUNT: usize = 32;

/// Whether a request is an upload by form.
pub(super) fn is_form(headers: &HeaderMap) -> bool {
    content_type(headers).trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

/// Stores the file of a form in the bucket that the path names.
pub(super) async fn upload(app: &Arc<App>, head: &Parts, body: Body) -> Result<Response<Body>, S3Error> {
    let bucket = head.uri.path().trim_matches('/');
    if bucket.contains('/') {
        return Err(not_allowed());
    }
    let body = BoundedBody::new(body, MAX_UNSIGNED);
    let mut parts = multipart(content_type(&head.headers), body.clone())?;
    let deadline = Instant::now() + app.config.limits.body_time;
    // What is sent without a signature takes memory. A request that waits keeps its connection from being closed, so
    // that it waits for a moment only.
    let moment = deadline.min(Instant::now() + MAX_WAIT);
    let permit = timeout_at(moment, app.objects.unsigned_forms.acquire()).await.map_err(|_| busy())?;
    let (fields, file) = timeout_at(deadline, read_fields(&mut parts)).await.map_err(|_| TooSlow)??;
    let policy = verify(app, &fields)?;
    drop(permit);

    let range = policy::check(policy, bucket, &fields, app.clock.signing_time())?;
    let length =
        head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > range.max + 2 * MAX_FIELDS) {
        let message = "Your proposed upload exceeds the maximum allowed size.";
        return Err(S3Error::new(Code::EntityTooLarge, message));
    }
    let claim = Claim {
        target: field(&fields, TARGET_FIELD).unwrap_or_default(),
        bucket,
        key: field(&fields, "key").unwrap_or_default(),
        mime: field(&fields, "content-type").unwrap_or_default(),
    };
    let target = admit(app, &claim).await?;
    let exact = SizeRange { min: target.size, max: target.size };
    if range != exact || target.size > MAX_FORM_FILE {
        return Err(S3Error::new(
            Code::AccessDenied,
            "Invalid according to Policy: it is of another target.",
        ));
    }
    body.raise_limit(target.size);
    let location = app.objects.locations.url(&target.bucket, &target.key);
    let etag = receive(app, target, None, to_the_end(file, parts, body)).await?;
    let response = Response::builder()
        .status(StatusCode::NO_CONTENT)
        .header(ETAG, format!("\"{etag}\""))
        .header(LOCATION, location)
        .body(Body::empty());
    Ok(response.map_err(|cause| Error::new("responding to an upload", cause))?)
}

fn busy() -> S3Error {
    S3Error::new(Code::SlowDown, "Please reduce your request rate.")
}

/// The parts of a form, none of which may be large but the file.
pub(crate) fn multipart(content_type: &str, body: BoundedBody) -> Result<Multipart<'static>, S3Error> {
    let boundary = multer::parse_boundary(content_type).map_err(|_| malformed())?;
    let limits =
        Constraints::new().size_limit(SizeLimit::new().per_field(MAX_FIELDS).for_field("file", u64::MAX));
    Ok(Multipart::with_constraints(body, boundary, limits))
}

/// Reads the fields up to the file, which has to come last; their names in lower case.
pub(crate) async fn read_fields<'form>(
    parts: &mut Multipart<'form>,
) -> Result<(Vec<(String, String)>, Field<'form>), S3Error> {
    let mut fields: Vec<(String, String)> = Vec::new();
    loop {
        let Some(part) = parts.next_field().await.map_err(broken)? else {
            let message = "POST requires exactly one file upload per request.";
            return Err(S3Error::new(Code::InvalidArgument, message));
        };
        let name = part.name().ok_or_else(malformed)?.to_ascii_lowercase();
        if name == "file" {
            return Ok((fields, part));
        }
        // `Field::text` would drop a byte order mark, and the policy covers every byte.
        let value = part.bytes().await.map_err(broken)?;
        let value = String::from_utf8(value.into()).map_err(|_| malformed())?;
        if field(&fields, &name).is_some() {
            let message = format!("POST requires exactly one {name:?} per request.");
            return Err(S3Error::new(Code::InvalidArgument, message));
        }
        fields.push((name, value));
        let size: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        if fields.len() > MAX_FIELD_COUNT || size as u64 > MAX_FIELDS {
            let message = "The fields before the file are too large.";
            return Err(S3Error::new(Code::MaxPostPreDataLengthExceededError, message));
        }
    }
}

/// The bytes of the file. They end well only when the form ends after them, and the request with it.
fn to_the_end<'a>(
    file: Field<'a>,
    mut parts: Multipart<'a>,
    mut body: BoundedBody,
) -> impl Stream<Item = Result<Bytes, S3Error>> + Unpin + 'a {
    let rest = async move {
        if parts.next_field().await.map_err(broken)?.is_some() {
            let message = "The file must be the last field of the form.";
            return Err(S3Error::new(Code::InvalidArgument, message));
        }
        while let Some(piece) = body.next().await {
            piece?;
        }
        Ok(())
    };
    let rest = stream::once(rest).filter_map(async |ended| ended.err().map(Err));
    Box::pin(file.map(|piece| piece.map_err(broken)).chain(rest))
}

/// Verifies the signature of a form and returns the policy that it covers.
fn verify<'a>(app: &App, fields: &'a [(String, String)]) -> Result<&'a str, S3Error> {
    let missing = |name: &str| S3Error::denied(&format!("the form has no field {name:?}."));
    let get = |name: &'static str| field(fields, name).ok_or_else(|| missing(name));
    let policy = get("policy")?;
    let signature = get("x-amz-signature")?;
    let credential = get("x-amz-credential")?;
    let date = get("x-amz-date")?;
    if get("x-amz-algorithm")? != ALGORITHM {
        return Err(S3Error::new(Code::InvalidArgument, format!("x-amz-algorithm must be {ALGORITHM}.")));
    }
    let (access_key, signed_scope) = credential.split_once('/').ok_or_else(mismatch)?;
    if access_key != ACCESS_KEY {
        return Err(unknown_access_key());
    }
    let day = date.get(..8).filter(|day| signed_scope == own_scope(day)).ok_or_else(mismatch)?;
    let right = app.objects.signer.signature(day, policy)?;
    if right.as_bytes().ct_eq(signature.as_bytes()).into() { Ok(policy) } else { Err(mismatch()) }
}

fn malformed() -> S3Error {
    S3Error::new(Code::MalformedPOSTRequest, "The body is not well-formed multipart/form-data.")
}

/// What is wrong with a form that cannot be read on.
fn broken(cause: multer::Error) -> S3Error {
    match cause {
        multer::Error::FieldSizeExceeded { .. } => BodyError::TooLarge.into(),
        multer::Error::IncompleteFieldData { .. } => BodyError::CutOff.into(),
        multer::Error::StreamReadFailed(cause) => {
            cause.downcast_ref::<BodyError>().copied().unwrap_or(BodyError::CutOff).into()
        }
        _ => malformed(),
    }
}
