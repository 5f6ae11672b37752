//! Form uploads: `POST multipart/form-data` to the bucket, with a signed policy and the file as the last field.

use crate::object_storage::ObjectApi;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, ETAG, HeaderMap, LOCATION};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use futures_util::stream::{self, Stream, StreamExt};
use jiff::Timestamp;
use multer::{Field, Multipart};
use subtle::ConstantTimeEq;
use tokio::time::timeout;

use super::sign::{ACCESS_KEY, ALGORITHM, TARGET_FIELD, Upload, mismatch, signing_date, unknown_access_key};
use super::{Code, S3Error, not_allowed, policy};
use crate::Error;
use crate::http::slow_clients::{BodyError, BoundedBody};
use crate::object_storage::uploads::{admit, receive};

const MAX_FIELDS: u64 = 64 * 1024;
/// Maximum number of bytes read before the signature is verified: the fields, and the file's first chunk.
const MAX_UNSIGNED: u64 = 4 * MAX_FIELDS;
const FIELDS_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_FIELD_COUNT: usize = 32;

pub(super) fn is_form(headers: &HeaderMap) -> bool {
    content_type(headers).trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

pub(super) async fn upload(
    api: &Arc<ObjectApi>,
    head: &Parts,
    body: Body,
) -> Result<Response<Body>, S3Error> {
    let bucket = head.uri.path().trim_matches('/');
    if bucket.contains('/') {
        return Err(not_allowed("GET, HEAD, PUT"));
    }
    let body = BoundedBody::new(body, MAX_UNSIGNED);
    let mut parts = multipart(content_type(&head.headers), body.clone())?;
    // Forms with an unverified signature use memory, so their number is limited.
    let form = api.objects.unsigned_forms.admit().await.ok_or_else(S3Error::slow_down)?;
    let read = form.evicted.run_until_cancelled(timeout(FIELDS_TIMEOUT, read_fields(&mut parts))).await;
    let (fields, file) = read.ok_or_else(S3Error::slow_down)?.map_err(|_| BodyError::TooSlow)??;
    let (expiration, signed_at) = verify(api, &fields)?;
    drop(form);

    // The identifier is not verified yet, and PostgreSQL refuses a NUL.
    let id = field(&fields, TARGET_FIELD).filter(|id| !id.contains('\0')).unwrap_or_default();
    let target = admit(api, id, bucket).await?;
    check(&api.objects.signer.form(&Upload::of(&target), expiration, signed_at)?, bucket, &fields)?;
    body.raise_limit(target.size);
    let location = api.objects.locations.url(&target.bucket, &target.key);
    let etag = receive(api, target, None, to_the_end(file, parts, body)).await?;
    let response = Response::builder()
        .status(StatusCode::NO_CONTENT)
        .header(ETAG, format!("\"{etag}\""))
        .header(LOCATION, location)
        .body(Body::empty());
    Ok(response.map_err(|cause| Error::new("responding to an upload", cause))?)
}

pub(crate) fn multipart(content_type: &str, body: BoundedBody) -> Result<Multipart<'static>, S3Error> {
    let boundary = multer::parse_boundary(content_type).map_err(|_| malformed())?;
    Ok(Multipart::new(body, boundary))
}

/// Reads the fields before the file, which must come last. Field names are in lower case.
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

/// Streams the bytes of the file. The stream fails unless the form ends after the file, and the request after the form.
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

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

fn verify(api: &ObjectApi, fields: &[(String, String)]) -> Result<(Timestamp, Timestamp), S3Error> {
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
    let signer = &api.objects.signer;
    let day = date.get(..8).filter(|day| signed_scope == signer.scope(day)).ok_or_else(mismatch)?;
    let right = signer.signature(day, policy)?;
    if !bool::from(right.as_bytes().ct_eq(signature.as_bytes())) {
        return Err(mismatch());
    }
    let expiration = policy::expiration(policy).ok_or_else(mismatch)?;
    if expiration <= api.objects.clock.signing_time() {
        return Err(invalid("Policy expired."));
    }
    Ok((expiration, signing_date(date)?))
}

fn check(signed: &[(&str, String)], bucket: &str, fields: &[(String, String)]) -> Result<(), S3Error> {
    for (name, value) in signed {
        let name = name.to_ascii_lowercase();
        if field(fields, &name) != Some(value) {
            return Err(invalid(&format!("Policy Condition failed: [\"eq\", \"${name}\"]")));
        }
    }
    for (name, value) in fields {
        // The address determines the bucket; a field may repeat it.
        let is_free = name.starts_with("x-ignore-") || (name == "bucket" && value == bucket);
        if !is_free && !signed.iter().any(|(signed, _)| signed.eq_ignore_ascii_case(name)) {
            return Err(invalid(&format!("Extra input fields: {name}")));
        }
    }
    Ok(())
}

fn invalid(why: &str) -> S3Error {
    S3Error::new(Code::AccessDenied, format!("Invalid according to Policy: {why}"))
}

fn malformed() -> S3Error {
    S3Error::new(Code::MalformedPOSTRequest, "The body is not well-formed multipart/form-data.")
}

fn broken(cause: multer::Error) -> S3Error {
    match cause {
        multer::Error::IncompleteFieldData { .. } => BodyError::CutOff.into(),
        multer::Error::StreamReadFailed(cause) => {
            cause.downcast_ref::<BodyError>().copied().unwrap_or(BodyError::CutOff).into()
        }
        _ => malformed(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sign::Signer;
    use super::*;

    fn sign(key: &str, mime: &str, size: u64) -> Vec<(&'static str, String)> {
        let upload = Upload { bucket: "b", key, mime, size, target: Some("target") };
        let signer = Signer::embedded("secret");
        signer.form(&upload, Timestamp::MAX, Timestamp::UNIX_EPOCH).unwrap_or_default()
    }

    fn sent(signed: &[(&str, String)]) -> Vec<(String, String)> {
        signed.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect()
    }

    fn judge(change: impl FnOnce(&mut Vec<(String, String)>)) -> Result<(), String> {
        let signed = sign("samples/costs $5 \"$key\" ${filename}.txt", "text/plain", 7);
        let mut fields = sent(&signed);
        change(&mut fields);
        check(&signed, "b", &fields).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn what_was_signed_is_allowed_and_a_refusal_names_the_field() {
        let refused = |why: &str| Err(format!("AccessDenied: Invalid according to Policy: {why}"));
        let condition = |name: &str| refused(&format!("Policy Condition failed: [\"eq\", \"${name}\"]"));
        let push = |name: &str, value: &str| {
            let field = (name.to_owned(), value.to_owned());
            judge(|fields| fields.push(field))
        };
        assert_eq!(judge(|_| {}), Ok(()));
        assert_eq!(judge(|fields| fields.reverse()), Ok(()));
        assert_eq!(push("x-ignore-a", "b"), Ok(()));
        assert_eq!(push("bucket", "b"), Ok(()));
        assert_eq!(push("bucket", "c"), refused("Extra input fields: bucket"));
        assert_eq!(push("acl", "public-read"), refused("Extra input fields: acl"));
        assert_eq!(judge(|fields| fields.retain(|(name, _)| name != "key")), condition("key"));
        assert_eq!(judge(|fields| fields.retain(|(name, _)| name == "key")), condition("content-type"));
        assert_eq!(judge(|fields| fields.iter_mut().for_each(|field| field.1.push('x'))), condition("key"));
    }

    async fn fields(fields: impl Iterator<Item = (String, String)>) -> Result<usize, String> {
        let part = |(name, value)| {
            format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let text: String = fields.map(part).collect();
        let file =
            "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nF\r\n--x--\r\n";
        let body = BoundedBody::new(axum::body::Body::from(text + file), u64::MAX);
        let mut parts = multipart("multipart/form-data; boundary=x", body).map_err(|it| it.to_string())?;
        let read = read_fields(&mut parts).await;
        read.map(|(fields, _)| fields.len()).map_err(|refusal| refusal.to_string())
    }

    #[tokio::test]
    async fn the_fields_before_the_file_are_bounded_in_number_and_in_size_together() {
        let count = |count: usize| fields((0..count).map(|number| (number.to_string(), String::new())));
        assert_eq!(count(MAX_FIELD_COUNT).await, Ok(MAX_FIELD_COUNT));
        assert!(count(MAX_FIELD_COUNT + 1).await.is_err());
        let size = |bytes: usize| {
            let halves = [bytes / 2, bytes - bytes / 2];
            fields(
                halves
                    .into_iter()
                    .zip(["a", "b"])
                    .map(|(size, name)| (name.to_owned(), "v".repeat(size - 1))),
            )
        };
        let most = usize::try_from(MAX_FIELDS).unwrap_or_default();
        assert_eq!(size(most).await, Ok(2));
        assert!(size(most + 1).await.is_err_and(|refusal| refusal.contains("too large")));
    }

    #[tokio::test]
    async fn the_field_of_the_file_may_be_written_in_any_case() -> Result<(), String> {
        let bytes = "v".repeat(1 << 17);
        let head = "--x\r\ncontent-disposition: form-data; name=\"File\"; filename=\"f\"\r\n\r\n";
        let body = axum::body::Body::from(format!("{head}{bytes}\r\n--x--\r\n"));
        let parts = multipart("multipart/form-data; boundary=x", BoundedBody::new(body, u64::MAX));
        let mut parts = parts.map_err(|refusal| refusal.to_string())?;
        let (_, file) = read_fields(&mut parts).await.map_err(|refusal| refusal.to_string())?;
        assert_eq!(file.bytes().await.map_err(|cause| cause.to_string())?, bytes);
        Ok(())
    }

    proptest! {
        #[test]
        fn a_form_allows_what_it_was_signed_for_and_nothing_else(
            key in "\\PC{1,40}|[$\"\\\\{}\\[\\],a-z]{1,40}", mime in "\\PC{1,20}", size in any::<u64>(),
            other in "\\PC{1,40}", other_size in any::<u64>(),
        ) {
            let fields = sent(&sign(&key, &mime, size));
            let is_allowed = |key: &str, mime: &str, size| check(&sign(key, mime, size), "b", &fields).is_ok();
            prop_assert!(is_allowed(&key, &mime, size));
            prop_assert_eq!(is_allowed(&other, &mime, size), other == key);
            prop_assert_eq!(is_allowed(&key, &other, size), other == mime);
            prop_assert_eq!(is_allowed(&key, &mime, other_size), other_size == size);
        }
    }
}
