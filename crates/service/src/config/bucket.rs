//! Settings of a remote object store: a bucket of Amazon S3 or of a compatible store.

use std::collections::BTreeMap;
use std::fmt;

use url::Url;

use crate::{Error, Result};

/// Default region of signatures. Most stores but Amazon's accept any.
const DEFAULT_REGION: &str = "us-east-1";

/// Retention in days of replaced or deleted bytes in a versioned bucket, equal to the retention of orphans.
const NONCURRENT_DAYS: u32 = 7;

/// A bucket of an S3-compatible object store, with its access key.
///
/// ```
/// use inferstore_service::S3Config;
///
/// let url = "s3://files?endpoint=https://s3.example&region=eu-central-1";
/// let config = S3Config::new(url, "access key", "secret key")?;
/// assert!(!format!("{config:?}").contains("secret key"));
/// assert!(S3Config::new("s3://files", "", "").is_err());
/// # Ok::<(), inferstore_service::Error>(())
/// ```
#[derive(Clone)]
pub struct S3Config {
    pub(crate) bucket: String,
    /// Prefix of every key: empty, or ending in `/`.
    pub(crate) prefix: String,
    /// URL of the bucket for this process, without a trailing slash.
    pub(crate) address: Url,
    pub(crate) public_address: Url,
    /// True if callers upload to the bucket and read from it. Otherwise all bytes pass through the service.
    pub(crate) is_direct: bool,
    pub(crate) region: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
}

impl fmt::Debug for S3Config {
    /// Redaction: omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("S3Config").field(&self.description()).finish_non_exhaustive()
    }
}

impl S3Config {
    /// Parses `s3://bucket/prefix?endpoint=…`; the prefix is optional. Parameters:
    ///
    /// | parameter | default | what it sets |
    /// |---|---|---|
    /// | `endpoint` | Amazon's of the region | the URL of the object store for the service |
    /// | `public_endpoint` | `endpoint` | the URL of the object store for callers, part of upload targets |
    /// | `region` | `us-east-1` | the region that is signed for |
    /// | `style` | `path` | `path`: `endpoint/bucket`; `virtual`: `bucket.endpoint` |
    /// | `direct` | `true` | `false`: callers upload to the service and read from it, which moves every byte |
    ///
    /// # Errors
    /// If the URL has another form, or a key is empty. The message does not contain the keys (redaction).
    pub fn new(url: &str, access_key: &str, secret_key: &str) -> Result<Self> {
        let refused = |why: String| {
            let example = "s3://bucket?endpoint=https://s3.example&region=us-east-1";
            Error::new("reading the URL of the object store", format!("{why}; use one such as {example}"))
        };
        let parsed = Url::parse(url).map_err(|cause| refused(format!("it is not a URL ({cause})")))?;
        if parsed.scheme() != "s3" {
            return Err(refused("it does not begin with s3://".to_owned()));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() || parsed.port().is_some() {
            let why = "it has a user or a port; keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                       the host from endpoint";
            return Err(refused(why.to_owned()));
        }
        let bucket = parsed.host_str().filter(|bucket| !bucket.is_empty());
        let bucket = bucket.ok_or_else(|| refused("it names no bucket".to_owned()))?.to_owned();
        if !is_bucket(&bucket) {
            let why = "the name of a bucket has 3 to 63 lower-case letters, digits, - and .";
            let bucket: String = bucket.chars().take(100).collect();
            return Err(refused(format!("{bucket:?} is no bucket: {why}")));
        }
        let prefix = prefix(parsed.path()).ok_or_else(|| {
            refused("its prefix has characters other than letters, digits, -, _, . and /".to_owned())
        })?;
        let mut parameters: BTreeMap<String, String> = parsed.query_pairs().into_owned().collect();
        let mut parameter = |name| parameters.remove(name);
        let wrong = |name, expected| refused(format!("the value of {name} is not {expected}"));
        let region = parameter("region").unwrap_or_else(|| DEFAULT_REGION.to_owned());
        if !is_region(&region) {
            return Err(wrong("region", "a name of letters, digits and hyphens"));
        }
        let text = parameter("endpoint").unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let public_text = parameter("public_endpoint").unwrap_or_else(|| text.clone());
        let is_virtual = match parameter("style").as_deref() {
            None | Some("path") => false,
            Some("virtual") => true,
            Some(_) => return Err(wrong("style", "path or virtual")),
        };
        let is_direct = match parameter("direct").as_deref() {
            None | Some("true") => true,
            Some("false") => false,
            Some(_) => return Err(wrong("direct", "true or false")),
        };
        if let Some(name) = parameters.keys().next() {
            let name: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
            return Err(refused(format!("it has the unknown parameter {name:?}")));
        }
        if access_key.is_empty() || secret_key.is_empty() {
            let cause = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY have to be set";
            return Err(Error::new("reading the keys of the object store", cause));
        }
        Ok(Self {
            address: address(&text, &bucket, is_virtual).map_err(refused)?,
            public_address: address(&public_text, &bucket, is_virtual).map_err(refused)?,
            bucket,
            prefix,
            is_direct,
            region,
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
        })
    }

    /// Returns the lifecycle rule for a versioned bucket, as JSON for S3: no account pays for replaced versions.
    pub fn lifecycle(&self) -> String {
        let rule = serde_json::json!({
            "ID": "inferstore",
            "Status": "Enabled",
            "Filter": { "Prefix": format!("{}blobs/", self.prefix) },
            "NoncurrentVersionExpiration": { "NoncurrentDays": NONCURRENT_DAYS },
            "Expiration": { "ExpiredObjectDeleteMarker": true },
        });
        format!("{:#}", serde_json::json!({ "Rules": [rule] }))
    }

    pub(crate) fn description(&self) -> String {
        format!("the bucket {} at {}", self.bucket, self.address.origin().ascii_serialization())
    }
}

fn address(endpoint: &str, bucket: &str, is_virtual: bool) -> Result<Url, String> {
    let mut url = Url::parse(endpoint).map_err(|cause| format!("its endpoint is not a URL ({cause})"))?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    let is_root = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || !is_plain || !is_root {
        return Err("its endpoint is more or less than http(s)://host:port".to_owned());
    }
    if is_virtual {
        let host = format!("{bucket}.{}", url.host_str().unwrap_or_default());
        url.set_host(Some(&host)).map_err(|_| "the bucket cannot be a part of the host")?;
    } else {
        url.set_path(bucket);
    }
    Ok(url)
}

fn is_bucket(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    (3..=63).contains(&name.len()) && name.bytes().all(fits)
}

fn is_region(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn prefix(path: &str) -> Option<String> {
    let path = path.trim_matches('/');
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    match path {
        "" => Some(String::new()),
        _ if !path.contains("//") && path.bytes().all(fits) => Some(format!("{path}/")),
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may end when its set-up fails")]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<S3Config> {
        S3Config::new(url, "key", "the secret")
    }

    #[test]
    fn a_bucket_is_a_path_or_a_host_of_its_endpoint() {
        let plain = read("s3://files?endpoint=http://127.0.0.1:9000").unwrap();
        assert_eq!(plain.address.as_str(), "http://127.0.0.1:9000/files");
        assert_eq!(plain.description(), "the bucket files at http://127.0.0.1:9000");
        assert_eq!(plain.public_address, plain.address);
        assert_eq!((plain.region.as_str(), plain.prefix.as_str()), ("us-east-1", ""));

        let split = read("s3://files/a/b/?endpoint=http://inside:1&public_endpoint=https://outside").unwrap();
        assert_eq!(split.address.as_str(), "http://inside:1/files");
        assert_eq!(split.public_address.as_str(), "https://outside/files");
        assert_eq!(split.prefix, "a/b/");

        let hosted = read("s3://files?region=eu-west-1&style=virtual").unwrap();
        assert_eq!(hosted.address.as_str(), "https://files.s3.eu-west-1.amazonaws.com/");
    }

    #[test]
    fn the_lifecycle_rule_is_for_the_blobs_of_the_prefix_alone() {
        let rule = read("s3://files/a/b?endpoint=http://x").unwrap().lifecycle();
        let rule: serde_json::Value = serde_json::from_str(&rule).unwrap();
        let rule = &rule["Rules"][0];
        assert_eq!((&rule["Status"], &rule["Filter"]["Prefix"]), (&"Enabled".into(), &"a/b/blobs/".into()));
        assert_eq!(rule["NoncurrentVersionExpiration"]["NoncurrentDays"], 7);
    }

    #[test]
    fn a_misspelled_url_is_refused_and_no_key_is_repeated() {
        for url in [
            "files",
            "https://files",
            "s3://",
            "s3://UP_PER",
            "s3://key:the%20secret@files",
            "s3://files:9000",
            "s3://files/a b?endpoint=http://x",
            "s3://files?endpoint=http://x/path",
            "s3://files?endpoint=ftp://x",
            "s3://files?endpont=http://x",
            "s3://files?direct=maybe",
            "s3://files?region=",
        ] {
            let refused = read(url).map(|config| format!("{config:?}")).unwrap_err().to_string();
            assert!(refused.contains("s3://bucket?endpoint="), "{url}: {refused}");
            assert!(!refused.contains("the secret"), "{refused}");
        }
        assert!(S3Config::new("s3://files", "key", "").is_err());
        for (url, why) in [
            ("s3://", "it names no bucket"),
            ("s3://Bucket", "\"Bucket\" is no bucket: the name of a bucket has 3 to 63 lower-case letters"),
            ("s3://b", "\"b\" is no bucket"),
            ("s3://files?direct=maybe", "the value of direct is not true or false"),
            ("s3://files?style=weird", "the value of style is not path or virtual"),
            ("s3://files?region=", "the value of region is not a name of letters"),
        ] {
            let refused = read(url).unwrap_err().to_string();
            assert!(refused.contains(why), "{url}: {refused}");
        }
    }
}
