//! Signing upload targets, the way S3 signs: a URL to put to, or the fields of a form to post.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use rusty_s3::actions::{PutObject, S3Action};
use rusty_s3::{Bucket, Credentials, UrlStyle};
use serde::Serializer;
use sha2::Sha256;

use super::policy;
use crate::Error;
use crate::object_storage::{LARGEST_FORM_FILE, Target};

/// The one access key of the object store. Its secret is in the database of the service.
pub(crate) const ACCESS_KEY: &str = "inferstore";
pub(crate) const REGION: &str = "us-east-1";
pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Carries the identifier of the target in a signed URL.
pub(crate) const TARGET_PARAMETER: &str = "x-target";
/// Carries the identifier of the target in a form.
pub(crate) const TARGET_FIELD: &str = "x-amz-meta-target";

/// S3 knows no longer life of a signed URL.
const LONGEST_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A signed target, as it is handed to whoever uploads.
pub(crate) struct Presigned {
    pub(crate) endpoint: String,
    /// A JSON object as text.
    pub(crate) fields: String,
}

/// Signs and verifies with the secret of the object store.
pub(crate) struct Signer {
    url: String,
    secret: String,
}

impl Signer {
    pub(crate) fn new(url: String, secret: String) -> Self {
        Self { url, secret }
    }

    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    /// Signs a target for so long. `now` is the system's time, against which signatures are verified.
    pub(crate) fn presign(
        &self,
        target: &Target,
        life: Duration,
        now: Timestamp,
    ) -> Result<Presigned, Error> {
        let life = life.clamp(Duration::from_secs(1), LONGEST_LIFE);
        if target.size <= LARGEST_FORM_FILE {
            self.form(target, life, now)
        } else {
            self.put(target, life, now)
        }
    }

    fn put(&self, target: &Target, life: Duration, now: Timestamp) -> Result<Presigned, Error> {
        let doing = "signing an upload target";
        let origin = self.url.parse().map_err(|cause| Error::new(doing, format!("{}: {cause}", self.url)))?;
        let bucket = Bucket::new(origin, UrlStyle::Path, target.bucket.clone(), REGION)
            .map_err(|cause| Error::new(doing, cause))?;
        let credentials = Credentials::new(ACCESS_KEY, self.secret.as_str());
        let mut put = PutObject::new(&bucket, Some(&credentials), &target.key);
        put.query_mut().insert(TARGET_PARAMETER, target.id.as_str());
        // Without these two in the signature, any size and any type would be stored.
        put.headers_mut().insert("content-length", target.size.to_string());
        put.headers_mut().insert("content-type", target.mime.as_str());
        Ok(Presigned {
            endpoint: put.sign_with_time(life, &now).into(),
            fields: object(&[("Content-Type", target.mime.as_str())])?,
        })
    }

    fn form(&self, target: &Target, life: Duration, now: Timestamp) -> Result<Presigned, Error> {
        let day = now.strftime("%Y%m%d").to_string();
        let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let credential = format!("{ACCESS_KEY}/{}", scope(&day));
        let fields = [
            ("key", target.key.as_str()),
            ("Content-Type", target.mime.as_str()),
            ("x-amz-algorithm", ALGORITHM),
            ("x-amz-credential", credential.as_str()),
            ("x-amz-date", date.as_str()),
            (TARGET_FIELD, target.id.as_str()),
        ];
        let expiration = now.saturating_add(life).unwrap_or(now);
        let policy = policy::write(&target.bucket, &fields, target.size, expiration);
        let signature = self.signature(&day, &policy)?;
        let mut all = fields.to_vec();
        all.extend([("policy", policy.as_str()), ("x-amz-signature", signature.as_str())]);
        Ok(Presigned { endpoint: format!("{}/{}", self.url, target.bucket), fields: object(&all)? })
    }

    /// The signature of a policy that was signed on that day.
    pub(crate) fn signature(&self, day: &str, policy: &str) -> Result<String, Error> {
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [day, REGION, "s3", "aws4_request"] {
            key = keyed_hash(&key, part)?;
        }
        Ok(hex(&keyed_hash(&key, policy)?))
    }
}

/// What a signature of that day is good for.
pub(crate) fn scope(day: &str) -> String {
    format!("{day}/{REGION}/s3/aws4_request")
}

fn keyed_hash(key: &[u8], text: &str) -> Result<Vec<u8>, Error> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|cause| Error::new("signing", cause))?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().to_vec())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A JSON object as text, its members in this order.
fn object(members: &[(&str, &str)]) -> Result<String, Error> {
    let failed = |cause| Error::new("writing the fields of an upload target", cause);
    let mut text = Vec::new();
    serde_json::Serializer::new(&mut text).collect_map(members.iter().copied()).map_err(failed)?;
    String::from_utf8(text).map_err(|cause| Error::new("writing the fields of an upload target", cause))
}
