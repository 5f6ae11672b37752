//! Signatures of upload targets, as S3 has them: of a URL for a PUT, or of the policy of a form.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rusty_s3::Method;
use rusty_s3::signing::sign;
use serde::{Serialize, Serializer as _};
use sha2::Sha256;
use url::Url;

use super::{Code, S3Error, policy};
use crate::object_storage::{MAX_FORM_FILE, Target, hex};
use crate::{Error, Result};

/// The one access key of the object store. Its secret is in the database of the service.
pub(super) const ACCESS_KEY: &str = "inferstore";
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Carries the identifier of the target in a signed URL.
pub(super) const TARGET_PARAMETER: &str = "x-target";
/// Carries the identifier of the target in a form.
pub(super) const TARGET_FIELD: &str = "x-amz-meta-target";
const REGION: &str = "us-east-1";

/// The longest life of a signed URL, as in S3.
pub(crate) const MAX_LIFE: Duration = Duration::from_hours(7 * 24);

/// A signed target, as a client gets it.
pub(crate) struct Presigned {
    pub(crate) endpoint: String,
    /// A JSON object as text.
    pub(crate) fields: String,
}

/// What the signature of a PUT covers, beside the method and the time.
pub(super) struct SignedPut<'a> {
    pub(super) path: &'a str,
    pub(super) target: &'a str,
    pub(super) mime: &'a str,
    pub(super) size: &'a str,
}

/// Signs with the secret of the object store.
pub(crate) struct Signer {
    address: String,
    secret: String,
}

impl Signer {
    pub(crate) fn new(address: String, secret: String) -> Self {
        Self { address, secret }
    }

    /// Signs a target for so long. `now` is the time that signatures are verified against.
    pub(crate) fn presign(
        &self,
        target: &Target,
        path: &str,
        life: Duration,
        now: Timestamp,
    ) -> Result<Presigned> {
        let life = life.clamp(Duration::from_secs(1), MAX_LIFE);
        if target.size <= MAX_FORM_FILE {
            let endpoint = format!("{}/{}", self.address, target.bucket);
            return self.for_forms().presign(endpoint, &Form::of(target), life, now);
        }
        let size = target.size.to_string();
        let put = SignedPut { path, target: &target.id, mime: &target.mime, size: &size };
        Ok(Presigned {
            endpoint: self.put(&put, life, now)?.into(),
            fields: fields(&[("Content-Type", target.mime.as_str())])?,
        })
    }

    /// Signs a URL to put to.
    pub(super) fn put(&self, put: &SignedPut<'_>, life: Duration, now: Timestamp) -> Result<Url> {
        let url = format!("{}{}", self.address, put.path);
        let url = Url::parse(&url).map_err(|cause| Error::new("signing an upload target", cause))?;
        let query = [(TARGET_PARAMETER, put.target)].into_iter();
        // Without these two in the signature, any size and any type would be stored.
        let headers = [("content-length", put.size), ("content-type", put.mime)].into_iter();
        let life = life.as_secs();
        Ok(sign(&now, Method::Put, url, ACCESS_KEY, &self.secret, None, REGION, life, query, headers))
    }

    /// The fields of the form of a target, as they were signed at a time.
    pub(super) fn form(
        &self,
        target: &Target,
        expiration: Timestamp,
        signed_at: Timestamp,
    ) -> Result<Fields> {
        self.for_forms().sign(&Form::of(target), expiration, signed_at)
    }

    fn for_forms(&self) -> FormSigner<'_> {
        FormSigner { access_key: ACCESS_KEY, secret: &self.secret, region: REGION }
    }

    /// The signature of a policy that was signed on that day.
    pub(super) fn signature(&self, day: &str, policy: &str) -> Result<String> {
        self.for_forms().signature(day, policy)
    }
}

/// The fields of a form before its file.
pub(super) type Fields = Vec<(&'static str, String)>;

/// An upload by form: what its policy allows.
pub(crate) struct Form<'a> {
    pub(crate) bucket: &'a str,
    pub(crate) key: &'a str,
    pub(crate) mime: &'a str,
    pub(crate) size: u64,
    /// The identifier of the target, where the key does not say it.
    pub(crate) target: Option<&'a str>,
}

impl<'a> Form<'a> {
    fn of(target: &'a Target) -> Self {
        let Target { id, bucket, key, mime, size, .. } = target;
        Self { bucket, key, mime, size: *size, target: Some(id) }
    }
}

/// Signs policies of forms with the key of an object store.
pub(crate) struct FormSigner<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) secret: &'a str,
    pub(crate) region: &'a str,
}

impl FormSigner<'_> {
    /// Signs a form for so long. The endpoint is the URL of the bucket.
    pub(crate) fn presign(
        &self,
        endpoint: String,
        form: &Form<'_>,
        life: Duration,
        now: Timestamp,
    ) -> Result<Presigned> {
        let expiration = now.saturating_add(life).unwrap_or(now);
        Ok(Presigned { endpoint, fields: fields(&self.sign(form, expiration, now)?)? })
    }

    pub(super) fn sign(&self, form: &Form<'_>, expiration: Timestamp, now: Timestamp) -> Result<Fields> {
        let day = now.strftime("%Y%m%d").to_string();
        let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let credential = format!("{}/{}", self.access_key, scope(&day, self.region));
        let mut all = vec![
            ("key", form.key.to_owned()),
            ("Content-Type", form.mime.to_owned()),
            ("x-amz-algorithm", ALGORITHM.to_owned()),
            ("x-amz-credential", credential),
            ("x-amz-date", date),
        ];
        all.extend(form.target.map(|target| (TARGET_FIELD, target.to_owned())));
        let policy = policy::write(form.bucket, &all, form.size, expiration);
        let signature = self.signature(&day, &policy)?;
        all.extend([("policy", policy), ("x-amz-signature", signature)]);
        Ok(all)
    }

    fn signature(&self, day: &str, policy: &str) -> Result<String> {
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [day, self.region, "s3", "aws4_request", policy] {
            let hash = Hmac::<Sha256>::new_from_slice(&key).map_err(|cause| Error::new("signing", cause))?;
            key = hash.chain_update(part).finalize().into_bytes().to_vec();
        }
        Ok(hex(&key))
    }
}

/// What a signature of that day is good for.
fn scope(day: &str, region: &str) -> String {
    format!("{day}/{region}/s3/aws4_request")
}

/// What a signature of the embedded object store is good for, of that day.
pub(super) fn own_scope(day: &str) -> String {
    scope(day, REGION)
}

/// Reads the time of a signature.
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

/// The fields of a target: a JSON object as text, its members in this order.
pub(crate) fn fields(members: &[(&str, impl Serialize)]) -> Result<String> {
    let failed = |cause| Error::new("writing the fields of an upload target", cause);
    let mut text = Vec::new();
    serde_json::Serializer::new(&mut text)
        .collect_map(members.iter().map(|(name, value)| (name, value)))
        .map_err(failed)?;
    String::from_utf8(text).map_err(|cause| Error::new("writing the fields of an upload target", cause))
}
