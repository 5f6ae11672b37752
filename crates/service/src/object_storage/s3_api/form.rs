//! Uploading by form: `POST multipart/form-data` to the bucket, with a signed policy among its fields
//! and the file as the last one.
//!
//! s3s could do this too, but it reads only parts with one or two headers and plain file names (a name
//! in another language comes as `filename*`, and some clients send the length of every part), and holds
//! the whole file in memory before it looks at the signature.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue, LOCATION};
use axum::http::{Response, StatusCode};
use futures_util::stream::{self, Stream, StreamExt};
use jiff::Timestamp;
use multer::{Constraints, Field, Multipart, SizeLimit};
use s3s::{S3Error, s3_error};
use subtle::ConstantTimeEq;

use crate::lifecycle::app::App;
use crate::object_storage::blobs::Bytes;
use crate::object_storage::receive::{Claim, Cut, admit, internal, receive};
use crate::object_storage::s3_api::measured::{Measured, Unread};
use crate::object_storage::s3_api::policy::{self, SizeRange, field};
use crate::object_storage::s3_api::sign::{ACCESS_KEY, ALGORITHM, TARGET_FIELD, scope};
use crate::object_storage::{LARGEST_FORM_FILE, Target};

/// How large everything but the file may be.
pub(crate) const FIELDS: u64 = 64 * 1024;
/// How much of a body is read before a signature vouches for the rest: the fields with what is around
/// them, and the piece in which the file begins.
const ON_TRUST: u64 = 4 * FIELDS;
/// How many fields may come before the file.
const FIELD_COUNT: usize = 32;

/// Whether a request is an upload by form.
pub(crate) fn is_form(request: &Request) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    request.method() == axum::http::Method::POST
        && kind.trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
}

/// Stores the file of a form in the bucket.
pub(crate) async fn upload(
    app: &Arc<App>,
    bucket: &str,
    request: Request,
) -> Result<Response<Body>, S3Error> {
    let (head, body) = request.into_parts();
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let body = Measured::new(body, ON_TRUST);
    let mut parts = multipart(kind, body.clone())?;
    // All of them together, because nobody knows yet whether this is an upload of ours.
    let read = tokio::time::timeout(app.config.limits.body_time, read_fields(&mut parts)).await;
    let (fields, file) = read.map_err(|_| Cut::Idle)??;

    let now = Timestamp::now();
    let policy = verify(app, &fields)?;
    let range = policy::check(policy, bucket, &fields, now)?;
    let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length
        .and_then(|length| length.parse::<u64>().ok())
        .is_some_and(|length| length > range.most + 2 * FIELDS)
    {
        return Err(s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size."));
    }
    let claim = Claim {
        target: field(&fields, TARGET_FIELD),
        bucket,
        key: field(&fields, "key").unwrap_or_default(),
        mime: field(&fields, "content-type").unwrap_or_default(),
    };
    let target = admit(app, &claim).await?;
    body.allow(target.size);
    let location = app.objects.download_url(&target.bucket, &target.key);
    let etag = store(app, target, range, to_the_end(file, parts, body)).await?;

    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if let (Ok(etag), Ok(location)) =
        (HeaderValue::from_str(&format!("\"{etag}\"")), HeaderValue::from_str(&location))
    {
        response.headers_mut().insert(ETAG, etag);
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// The parts of a form, none of which may be large but the file.
pub(crate) fn multipart(content_type: &str, body: Measured) -> Result<Multipart<'static>, S3Error> {
    let boundary = multer::parse_boundary(content_type).map_err(|_| malformed())?;
    let limits =
        Constraints::new().size_limit(SizeLimit::new().per_field(FIELDS).for_field("file", u64::MAX));
    Ok(Multipart::with_constraints(body, boundary, limits))
}

/// Reads the fields up to the file, which has to come last; their names in lower case.
pub(crate) async fn read_fields<'form>(
    parts: &mut Multipart<'form>,
) -> Result<(Vec<(String, String)>, Field<'form>), S3Error> {
    let mut fields: Vec<(String, String)> = Vec::new();
    loop {
        let Some(part) = parts.next_field().await.map_err(broken)? else {
            return Err(s3_error!(InvalidArgument, "POST requires exactly one file upload per request."));
        };
        let name = part.name().ok_or_else(malformed)?.to_ascii_lowercase();
        if name == "file" {
            return Ok((fields, part));
        }
        // `Field::text` would drop a byte order mark, and the policy covers every byte.
        let value = part.bytes().await.map_err(broken)?;
        let value = String::from_utf8(value.into()).map_err(|_| malformed())?;
        if field(&fields, &name).is_some() {
            return Err(s3_error!(InvalidArgument, "POST requires exactly one {name:?} per request."));
        }
        fields.push((name, value));
        let size: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        if fields.len() > FIELD_COUNT || size as u64 > FIELDS {
            return Err(s3_error!(
                MaxPostPreDataLengthExceededError,
                "The fields before the file are too large."
            ));
        }
    }
}

/// The bytes of the file. They end well only when the form ends after them, and the request with it.
fn to_the_end<'a>(
    file: Field<'a>,
    mut parts: Multipart<'a>,
    mut body: Measured,
) -> impl Stream<Item = Result<Bytes, S3Error>> + Unpin + 'a {
    let rest = async move {
        if parts.next_field().await.map_err(broken)?.is_some() {
            return Err(s3_error!(InvalidArgument, "The file must be the last field of the form."));
        }
        while let Some(piece) = body.next().await {
            piece?;
        }
        Ok(())
    };
    let rest = stream::once(rest).filter_map(async |ended| ended.err().map(Err));
    Box::pin(file.map(|piece| piece.map_err(broken)).chain(rest))
}

async fn store(
    app: &Arc<App>,
    target: Target,
    range: SizeRange,
    file: impl Stream<Item = Result<Bytes, S3Error>> + Unpin,
) -> Result<String, S3Error> {
    let exact = SizeRange { least: target.size, most: target.size };
    if range != exact || target.size > LARGEST_FORM_FILE {
        return Err(s3_error!(AccessDenied, "Invalid according to Policy: it is of another target."));
    }
    receive(app, target, None, file).await
}

/// Verifies the signature of a form and returns the policy that it covers.
fn verify<'a>(app: &App, fields: &'a [(String, String)]) -> Result<&'a str, S3Error> {
    let missing = |name: &str| s3_error!(AccessDenied, "Access Denied: the form has no field {name:?}.");
    let get = |name: &'static str| field(fields, name).ok_or_else(|| missing(name));
    let (policy, sent) = (get("policy")?, get("x-amz-signature")?);
    let (credential, date) = (get("x-amz-credential")?, get("x-amz-date")?);
    if get("x-amz-algorithm")? != ALGORITHM {
        return Err(s3_error!(InvalidArgument, "x-amz-algorithm must be {ALGORITHM}."));
    }
    let mismatch = || {
        s3_error!(
            SignatureDoesNotMatch,
            "The request signature we calculated does not match the signature you provided."
        )
    };
    let (access_key, signed_scope) = credential.split_once('/').ok_or_else(mismatch)?;
    if access_key != ACCESS_KEY {
        return Err(s3_error!(InvalidAccessKeyId, "The access key is not known."));
    }
    let day = date.get(..8).filter(|day| signed_scope == scope(day)).ok_or_else(mismatch)?;
    let right = app.objects.signer().signature(day, policy).map_err(internal)?;
    if right.as_bytes().ct_eq(sent.as_bytes()).into() { Ok(policy) } else { Err(mismatch()) }
}

impl From<Unread> for S3Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Short => Cut::Short.into(),
            Unread::TooLarge => s3_error!(
                MaxPostPreDataLengthExceededError,
                "There is more around the fields and the file than there may be."
            ),
        }
    }
}

fn malformed() -> S3Error {
    s3_error!(MalformedPOSTRequest, "The body is not well-formed multipart/form-data.")
}

/// What is wrong with a form that cannot be read on.
fn broken(cause: multer::Error) -> S3Error {
    match cause {
        multer::Error::FieldSizeExceeded { .. } => Unread::TooLarge.into(),
        multer::Error::IncompleteFieldData { .. } => Unread::Short.into(),
        multer::Error::StreamReadFailed(cause) => {
            cause.downcast_ref::<Unread>().copied().unwrap_or(Unread::Short).into()
        }
        _ => malformed(),
    }
}
