//! Signatures of upload targets, as in S3: of a presigned URL for a PUT, or of a form's policy.

use std::fmt;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::json;
use sha2::{Digest, Sha256};
use url::Url;

use super::{Code, S3Error, policy};
use crate::files::{MAX_FORM_FILE, Target};
use crate::hex::hex;
use crate::{Error, Result};

/// Only access key of the object store. The service's database has its secret.
pub(super) const ACCESS_KEY: &str = "inferstore";
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
pub(super) const TARGET_PARAMETER: &str = "x-target";
pub(super) const TARGET_FIELD: &str = "x-amz-meta-target";

/// Maximum lifetime of a presigned URL, as in S3.
const MAX_LIFE: Duration = Duration::from_hours(7 * 24);

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(crate) struct Presigned {
    pub(crate) endpoint: String,
    pub(crate) fields: String,
}

pub(super) type Fields = Vec<(&'static str, String)>;

pub(crate) struct Upload<'a> {
    pub(crate) bucket: &'a str,
    pub(crate) key: &'a str,
    pub(crate) mime: &'a str,
    pub(crate) size: u64,
    /// Identifier of the target, unless the key contains it.
    pub(crate) target: Option<&'a str>,
}

impl<'a> Upload<'a> {
    pub(crate) fn of(target: &'a Target) -> Self {
        let Target { id, bucket, key, mime, size, .. } = target;
        Self { bucket, key, mime, size: *size, target: Some(id) }
    }
}

pub(super) struct SignedPut<'a> {
    pub(super) url: Url,
    pub(super) target: Option<&'a str>,
    pub(super) mime: &'a str,
    pub(super) size: &'a str,
}

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

    pub(crate) fn embedded(secret: &str) -> Self {
        Self::new(ACCESS_KEY, secret, "us-east-1")
    }

    /// Presigns an upload: by form to the bucket's URL, or by PUT to the object's. Signatures are verified by `now`.
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
        Ok(Presigned { endpoint: self.put(put, life, now)?.into(), fields })
    }

    pub(super) fn put(&self, put: SignedPut<'_>, life: Duration, now: Timestamp) -> Result<Url> {
        let query: Vec<_> = put.target.map(|target| (TARGET_PARAMETER, target)).into_iter().collect();
        // Without these headers in the signature, the store would accept any size and MIME type.
        let headers = [("content-length", put.size), ("content-type", put.mime)];
        self.url(&Method::PUT, put.url, life, &query, &headers, now)
    }

    /// Signs a URL for so long (Signature Version 4 in the query). None of the headers is `host`.
    pub(crate) fn url(
        &self,
        method: &Method,
        mut url: Url,
        life: Duration,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        now: Timestamp,
    ) -> Result<Url> {
        let day = now.strftime("%Y%m%d").to_string();
        let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let scope = self.scope(&day);
        let credential = format!("{}/{scope}", self.access_key);
        let life = life.as_secs().to_string();
        // Without the port that a scheme implies, as HTTP clients send it.
        let host = url.authority().rsplit('@').next().unwrap_or_default().to_owned();
        let mut headers = [headers, &[("host", host.as_str())]].concat();
        headers.sort_unstable();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let own = [
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &date),
            ("X-Amz-Expires", &life),
            ("X-Amz-SignedHeaders", &names),
        ];
        let mut query = [&own, query].concat();
        query.sort_unstable();
        let encoded = |text| utf8_percent_encode(text, ESCAPED);
        let query: Vec<_> =
            query.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        let query = query.join("&");
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}:{}\n", one_spaced(value))).collect();
        let request = format!("{method}\n{}\n{query}\n{headers}\n{names}\nUNSIGNED-PAYLOAD", url.path());
        let signed = format!("{ALGORITHM}\n{date}\n{scope}\n{}", hex(&Sha256::digest(request)));
        let signature = self.signature(&day, &signed)?;
        url.set_query(Some(&format!("{query}&X-Amz-Signature={signature}")));
        Ok(url)
    }

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

    pub(super) fn signature(&self, day: &str, text: &str) -> Result<String> {
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [day, &self.region, "s3", "aws4_request", text] {
            let hash = Hmac::<Sha256>::new_from_slice(&key).map_err(|cause| Error::new("signing", cause))?;
            key = hash.chain_update(part).finalize().into_bytes().to_vec();
        }
        Ok(hex(&key))
    }

    pub(super) fn scope(&self, day: &str) -> String {
        format!("{day}/{}/s3/aws4_request", self.region)
    }
}

fn one_spaced(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn signing_date(text: &str) -> Result<Timestamp, S3Error> {
    let date =
        DateTime::strptime("%Y%m%dT%H%M%SZ", text).and_then(|date| date.to_zoned_datetime(TimeZone::UTC));
    date.map(|date| date.timestamp()).map_err(|_| mismatch())
}

pub(super) fn mismatch() -> S3Error {
    let message = "The request signature we calculated does not match the signature you provided.";
    S3Error::new(Code::SignatureDoesNotMatch, message)
}

pub(super) fn unknown_access_key() -> S3Error {
    S3Error::new(Code::InvalidAccessKeyId, "The access key is not known.")
}

fn fields<Text: AsRef<str>>(members: &[(&str, Text)]) -> String {
    let member = |(name, value): &(&str, Text)| format!("{}:{}", json!(name), json!(value.as_ref()));
    let members: Vec<String> = members.iter().map(member).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of "Authenticating Requests: Using Query Parameters" in the reference of S3.
    #[test]
    fn a_url_has_the_signature_that_s3_documents() -> Result<()> {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let signer = Signer::new("AKIAIOSFODNN7EXAMPLE", secret, "us-east-1");
        let at = Timestamp::from_second(1_369_353_600).map_err(|cause| Error::new("reading", cause))?;
        let url = |text| Url::parse(text).map_err(|cause| Error::new("reading", cause));
        let file = url("https://examplebucket.s3.amazonaws.com/test.txt")?;
        let signed = signer.url(&Method::GET, file, Duration::from_hours(24), &[], &[], at)?;
        let query = "X-Amz-Algorithm=AWS4-HMAC-SHA256\
            &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
            &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
            &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert_eq!(signed.query(), Some(query));

        // With headers, as an independent implementation signs them.
        let file = url("https://examplebucket.s3.amazonaws.com/test.txt")?;
        let headers = [
            ("content-type", "application/x-www-form-urlencoded;  charset=utf-8"),
            ("x-amz-date", "20150830T123600Z"),
        ];
        let signed = signer.url(&Method::GET, file, Duration::from_hours(24), &[], &headers, at)?;
        let end = "&X-Amz-SignedHeaders=content-type%3Bhost%3Bx-amz-date\
            &X-Amz-Signature=e965ee011ab5dbe8aa2c04a1ff2db8503c0cc117f62ea9274415c0f593ea199f";
        assert!(signed.as_str().ends_with(end), "{signed}");
        Ok(())
    }

    #[test]
    fn a_signer_shows_its_region_and_never_its_secret() {
        let signer = Signer::new("access", "hidden", "eu-north-1");
        assert_eq!(signer.scope("20260102"), "20260102/eu-north-1/s3/aws4_request");
        let shown = format!("{signer:?}");
        assert!(shown.contains("eu-north-1") && !shown.contains("hidden"), "{shown}");
    }
}
