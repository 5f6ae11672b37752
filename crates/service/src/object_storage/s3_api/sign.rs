//! Signatures of upload targets, as in S3: of a presigned URL for a PUT, or of a form's policy.

use std::fmt;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rusty_s3::Method;
use rusty_s3::signing::sign;
use serde_json::json;
use sha2::Sha256;
use url::Url;

use super::{Code, S3Error, policy};
use crate::object_storage::{MAX_FORM_FILE, Target, hex};
use crate::{Error, Result};

/// Only access key of the object store. The service's database has its secret.
pub(super) const ACCESS_KEY: &str = "inferstore";
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Query parameter with the identifier of the target, in a presigned URL.
pub(super) const TARGET_PARAMETER: &str = "x-target";
/// Field with the identifier of the target, in a form.
pub(super) const TARGET_FIELD: &str = "x-amz-meta-target";

/// Maximum lifetime of a presigned URL, as in S3.
const MAX_LIFE: Duration = Duration::from_hours(7 * 24);

/// A presigned upload, as in the response to a client.
pub(crate) struct Presigned {
    pub(crate) endpoint: String,
    pub(crate) fields: String,
}

pub(super) type Fields = Vec<(&'static str, String)>;

/// Properties of an upload that its signature covers.
pub(crate) struct Upload<'a> {
    pub(crate) bucket: &'a str,
    pub(crate) key: &'a str,
    pub(crate) mime: &'a str,
    pub(crate) size: u64,
    /// Identifier of the target, unless the key contains it.
    pub(crate) target: Option<&'a str>,
}

impl<'a> Upload<'a> {
    /// Returns the upload of a target in the embedded object store.
    pub(crate) fn of(target: &'a Target) -> Self {
        let Target { id, bucket, key, mime, size, .. } = target;
        Self { bucket, key, mime, size: *size, target: Some(id) }
    }
}

/// Values that the signature of a PUT covers, beside the method and the time.
pub(super) struct SignedPut<'a> {
    pub(super) url: Url,
    pub(super) target: Option<&'a str>,
    pub(super) mime: &'a str,
    pub(super) size: &'a str,
}

/// Signs requests with the secret key of an object store.
#[derive(Clone)]
pub(crate) struct Signer {
    access_key: String,
    secret: String,
    region: String,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("region", &self.region).finish_non_exhaustive()
    }
}

impl Signer {
    pub(crate) fn new(access_key: &str, secret: &str, region: &str) -> Self {
        let [access_key, secret, region] = [access_key, secret, region].map(str::to_owned);
        Self { access_key, secret, region }
    }

    /// Returns the signer of the embedded object store.
    pub(crate) fn embedded(secret: &str) -> Self {
        Self::new(ACCESS_KEY, secret, "us-east-1")
    }

    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Presigns an upload for this lifetime: by form to the bucket's URL, or by PUT to the object's. `now` is the time
    /// by which signatures are verified.
    pub(crate) fn presign(
        &self,
        upload: &Upload<'_>,
        bucket: String,
        object: Url,
        life: Duration,
        now: Timestamp,
    ) -> Result<Presigned> {
        let life = life.clamp(Duration::from_secs(1), MAX_LIFE);
        if upload.size <= MAX_FORM_FILE {
            let expiration = now.saturating_add(life).unwrap_or(now);
            let fields = fields(&self.form(upload, expiration, now)?);
            return Ok(Presigned { endpoint: bucket, fields });
        }
        let size = upload.size.to_string();
        let put = SignedPut { url: object, target: upload.target, mime: upload.mime, size: &size };
        let fields = fields(&[("Content-Type", upload.mime)]);
        Ok(Presigned { endpoint: self.put(put, life, now).into(), fields })
    }

    pub(super) fn put(&self, put: SignedPut<'_>, life: Duration, now: Timestamp) -> Url {
        let query: Vec<_> = put.target.map(|target| (TARGET_PARAMETER, target)).into_iter().collect();
        // Without these headers in the signature, the store would accept any size and MIME type.
        let headers = [("content-length", put.size), ("content-type", put.mime)];
        self.url(Method::Put, put.url, life, &query, &headers, now)
    }

    /// Presigns a URL for this lifetime. The query and the headers are sorted by name.
    pub(crate) fn url(
        &self,
        method: Method,
        url: Url,
        life: Duration,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        now: Timestamp,
    ) -> Url {
        let Self { access_key, secret, region } = self;
        let (query, headers) = (query.iter().copied(), headers.iter().copied());
        sign(&now, method, url, access_key, secret, None, region, life.as_secs(), query, headers)
    }

    /// Returns the signed fields of a form.
    pub(super) fn form(&self, upload: &Upload<'_>, expiration: Timestamp, now: Timestamp) -> Result<Fields> {
        let day = now.strftime("%Y%m%d").to_string();
        let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let credential = format!("{}/{}", self.access_key, self.scope(&day));
        let mut all = vec![
            ("key", upload.key.to_owned()),
            ("Content-Type", upload.mime.to_owned()),
            ("x-amz-algorithm", ALGORITHM.to_owned()),
            ("x-amz-credential", credential),
            ("x-amz-date", date),
        ];
        all.extend(upload.target.map(|target| (TARGET_FIELD, target.to_owned())));
        let policy = policy::write(upload.bucket, &all, upload.size, expiration);
        let signature = self.signature(&day, &policy)?;
        all.extend([("policy", policy), ("x-amz-signature", signature)]);
        Ok(all)
    }

    /// Signs a policy with the key of this day.
    pub(super) fn signature(&self, day: &str, policy: &str) -> Result<String> {
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [day, &self.region, "s3", "aws4_request", policy] {
            let hash = Hmac::<Sha256>::new_from_slice(&key).map_err(|cause| Error::new("signing", cause))?;
            key = hash.chain_update(part).finalize().into_bytes().to_vec();
        }
        Ok(hex(&key))
    }

    /// Returns the scope of this day's key.
    pub(super) fn scope(&self, day: &str) -> String {
        format!("{day}/{}/s3/aws4_request", self.region)
    }
}

pub(super) fn signing_date(text: &str) -> Result<Timestamp, S3Error> {
    let date = DateTime::strptime("%Y%m%dT%H%M%SZ", text).and_then(|date| date.to_zoned(TimeZone::UTC));
    date.map(|date| date.timestamp()).map_err(|_| mismatch())
}

pub(super) fn mismatch() -> S3Error {
    let message = "The request signature we calculated does not match the signature you provided.";
    S3Error::new(Code::SignatureDoesNotMatch, message)
}

pub(super) fn unknown_access_key() -> S3Error {
    S3Error::new(Code::InvalidAccessKeyId, "The access key is not known.")
}

/// Returns the fields of a target as a JSON object in this order.
fn fields<Text: AsRef<str>>(members: &[(&str, Text)]) -> String {
    let member = |(name, value): &(&str, Text)| format!("{}:{}", json!(name), json!(value.as_ref()));
    let members: Vec<String> = members.iter().map(member).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signer_shows_its_region_and_never_its_secret() {
        let signer = Signer::new("access", "hidden", "eu-north-1");
        assert_eq!(signer.scope("20260102"), "20260102/eu-north-1/s3/aws4_request");
        let shown = format!("{signer:?}");
        assert!(shown.contains("eu-north-1") && !shown.contains("hidden"), "{shown}");
    }
}
