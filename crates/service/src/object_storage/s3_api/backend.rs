//! What the object store does once s3s has read a request and verified its signature: get, head, put.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};
use futures_util::TryStreamExt;
use percent_encoding::percent_decode_str;
use s3s::dto::{
    ETag, ETagCondition, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, PutObjectInput,
    PutObjectOutput, StreamingBlob, Timestamp, TimestampFormat,
};
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use crate::Error;
use crate::lifecycle::app::App;
use crate::object_storage::receive::{Claim, Cut, admit, internal, receive};
use crate::object_storage::s3_api::sign::TARGET_PARAMETER;
use crate::object_storage::{Object, blobs};

/// The object store behind the protocol.
pub(crate) struct Backend {
    pub(crate) app: Arc<App>,
}

#[async_trait]
impl S3 for Backend {
    async fn get_object(&self, mut req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let log = log(&mut req.extensions);
        self.get(req).with_subscriber(log).await
    }

    async fn head_object(
        &self,
        mut req: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let log = log(&mut req.extensions);
        self.head(req).with_subscriber(log).await
    }

    async fn put_object(&self, mut req: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let log = log(&mut req.extensions);
        self.put(req).with_subscriber(log).await
    }
}

/// Where to log to: the log is switched off around s3s, and comes along with the request.
fn log(extensions: &mut Extensions) -> Dispatch {
    extensions.remove::<Dispatch>().unwrap_or_default()
}

impl Backend {
    async fn get(&self, req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = &req.input;
        let overrides = [
            &input.response_cache_control,
            &input.response_content_disposition,
            &input.response_content_encoding,
            &input.response_content_language,
            &input.response_content_type,
        ];
        if overrides.into_iter().any(Option::is_some) || input.response_expires.is_some() {
            return Err(s3_error!(
                InvalidRequest,
                "Request specific response headers cannot be used for anonymous GET requests."
            ));
        }
        only_version(input.version_id.as_deref())?;
        let Some(opened) = self.app.objects.read(&input.bucket, &input.key).await.map_err(internal)? else {
            return Err(s3_error!(NoSuchKey, "The specified key does not exist."));
        };
        let object = opened.object;
        let conditions = Conditions {
            if_match: input.if_match.as_ref(),
            if_none_match: input.if_none_match.as_ref(),
            if_modified_since: input.if_modified_since.clone(),
            if_unmodified_since: input.if_unmodified_since.clone(),
        };
        conditions.check(&object)?;
        let part = part(input.range.as_ref(), &req.headers, &object)?;
        let bytes = part.clone().unwrap_or(0..object.size);
        let length = bytes.end - bytes.start;
        let body = blobs::stream(opened.file, bytes.start, length).await;
        let body = body.map_err(|cause| internal(Error::new("reading an object", cause)))?;
        Ok(S3Response::new(GetObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            body: Some(StreamingBlob::from(body)),
            content_length: i64::try_from(length).ok(),
            content_range: part.map(|part| content_range(&part, &object)),
            content_type: Some(object.mime.clone()),
            e_tag: Some(ETag::Strong(object.etag.clone())),
            last_modified: Some(last_modified(&object)),
            ..GetObjectOutput::default()
        }))
    }

    async fn head(&self, req: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = &req.input;
        only_version(input.version_id.as_deref())?;
        let object = self.app.database.object(&input.bucket, &input.key).await.map_err(internal)?;
        let Some(object) = object else {
            return Err(s3_error!(NoSuchKey, "The specified key does not exist."));
        };
        let conditions = Conditions {
            if_match: input.if_match.as_ref(),
            if_none_match: input.if_none_match.as_ref(),
            if_modified_since: input.if_modified_since.clone(),
            if_unmodified_since: input.if_unmodified_since.clone(),
        };
        conditions.check(&object)?;
        let part = part(input.range.as_ref(), &req.headers, &object)?;
        let bytes = part.clone().unwrap_or(0..object.size);
        Ok(S3Response::new(HeadObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: i64::try_from(bytes.end - bytes.start).ok(),
            content_range: part.map(|part| content_range(&part, &object)),
            content_type: Some(object.mime.clone()),
            e_tag: Some(ETag::Strong(object.etag.clone())),
            last_modified: Some(last_modified(&object)),
            ..HeadObjectOutput::default()
        }))
    }

    async fn put(&self, req: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        only_signed_headers(&req.headers)?;
        let target = target_parameter(req.uri.query().unwrap_or_default());
        let claim = Claim {
            target: target.as_deref(),
            bucket: &req.input.bucket,
            key: &req.input.key,
            mime: req.input.content_type.as_deref().unwrap_or_default(),
        };
        let target = admit(&self.app, &claim).await?;
        let declared = req.input.content_length.and_then(|length| u64::try_from(length).ok());
        if declared != Some(target.size) {
            return Err(s3_error!(AccessDenied, "Access Denied: the size is not the one of the target."));
        }
        let body = req.input.body.unwrap_or_else(|| StreamingBlob::from(s3s::Body::empty()));
        let body = body.map_err(|_| S3Error::from(Cut::Short));
        let etag = receive(&self.app, target, req.input.content_md5.as_deref(), body).await?;
        Ok(S3Response::new(PutObjectOutput { e_tag: Some(ETag::Strong(etag)), ..PutObjectOutput::default() }))
    }
}

/// There is one version of every object, and S3 calls it `null`.
fn only_version(id: Option<&str>) -> S3Result<()> {
    match id {
        None | Some("null") => Ok(()),
        Some(_) => Err(s3_error!(NoSuchVersion, "The specified version does not exist.")),
    }
}

/// Refuses what would change the meaning of an upload and is not signed.
fn only_signed_headers(headers: &HeaderMap) -> S3Result<()> {
    // What a target signs are the length and the type of the file, and nothing of S3's own.
    const HARMLESS: [&str; 4] =
        ["x-amz-content-sha256", "x-amz-date", "x-amz-user-agent", "x-amz-request-id"];
    for name in headers.keys() {
        if name.as_str().starts_with("x-amz-") && !HARMLESS.contains(&name.as_str()) {
            let message = "There were headers present in the request which were not signed";
            return Err(s3_error!(AccessDenied, "{message}: {name}"));
        }
    }
    if headers.contains_key(header::IF_MATCH) || headers.contains_key(header::IF_NONE_MATCH) {
        return Err(s3_error!(NotImplemented, "Conditions on uploads are not implemented."));
    }
    Ok(())
}

/// The identifier of the target in the query of a signed URL.
fn target_parameter(query: &str) -> Option<String> {
    let mut values = query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(name, _)| {
        percent_decode_str(name).decode_utf8().is_ok_and(|name| name == TARGET_PARAMETER)
    });
    match (values.next(), values.next()) {
        (Some((_, value)), None) => percent_decode_str(value).decode_utf8().ok().map(Into::into),
        _ => None,
    }
}

/// When the object was stored, in whole seconds as headers have it.
fn last_modified(object: &Object) -> Timestamp {
    let seconds = u64::try_from(object.created_at.0.div_euclid(1_000)).unwrap_or(0);
    Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

fn content_range(part: &Range<u64>, object: &Object) -> String {
    format!("bytes {}-{}/{}", part.start, part.end.saturating_sub(1), object.size)
}

/// Which part of an object is asked for. None means the whole.
fn part(
    range: Option<&s3s::dto::Range>,
    headers: &HeaderMap,
    object: &Object,
) -> S3Result<Option<Range<u64>>> {
    let Some(range) = range else { return Ok(None) };
    // A client that resumes wants the rest only of what it has begun.
    if headers.get(header::IF_RANGE).is_some_and(|value| !is_of(value, object)) {
        return Ok(None);
    }
    match range.check(object.size) {
        Ok(part) => Ok(Some(part)),
        Err(_) => {
            let mut refusal = s3_error!(InvalidRange, "The requested range is not satisfiable");
            let mut headers = xml_headers();
            if let Ok(value) = HeaderValue::from_str(&format!("bytes */{}", object.size)) {
                headers.insert(header::CONTENT_RANGE, value);
            }
            refusal.set_headers(headers);
            Err(refusal)
        }
    }
}

/// Whether the value of `If-Range` is the etag of the object, or when it was stored.
fn is_of(value: &HeaderValue, object: &Object) -> bool {
    let mut stored = Vec::new();
    let _ = last_modified(object).format(TimestampFormat::HttpDate, &mut stored);
    value.as_bytes() == format!("\"{}\"", object.etag).as_bytes() || value.as_bytes() == stored
}

/// Headers given with a refusal take the place of all others.
fn xml_headers() -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"))])
}

/// What a client wants to be true before it reads.
struct Conditions<'a> {
    if_match: Option<&'a ETagCondition>,
    if_none_match: Option<&'a ETagCondition>,
    if_modified_since: Option<Timestamp>,
    if_unmodified_since: Option<Timestamp>,
}

impl Conditions<'_> {
    /// In the order of RFC 9110, 13.2.2.
    fn check(&self, object: &Object) -> S3Result<()> {
        let failed = || {
            let message = "At least one of the pre-conditions you specified did not hold";
            s3_error!(PreconditionFailed, "{message}")
        };
        let stored = last_modified(object);
        let matches = |condition: &ETagCondition| match condition {
            ETagCondition::Any => true,
            ETagCondition::ETag(etag) => etag.value() == object.etag,
        };
        match (self.if_match, &self.if_unmodified_since) {
            (Some(condition), _) if !matches(condition) => return Err(failed()),
            (None, Some(since)) if stored > *since => return Err(failed()),
            _ => {}
        }
        match (self.if_none_match, &self.if_modified_since) {
            (Some(condition), _) if matches(condition) => Err(not_modified(object)),
            (None, Some(since)) if stored <= *since => Err(not_modified(object)),
            _ => Ok(()),
        }
    }
}

fn not_modified(object: &Object) -> S3Error {
    let mut answer = S3Error::new(S3ErrorCode::NotModified);
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{}\"", object.etag)) {
        answer.set_headers(HeaderMap::from_iter([(header::ETAG, etag)]));
    }
    answer
}
