//! Bucket of a remote object store: presigns and sends requests; retries while the store is busy or unreachable.

use crate::object_storage::s3_api::Signer;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt as _, stream};
use inferstore_fetch::over_ring;
use instant_xml::FromXml;
use md5::{Digest, Md5};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, RANGE};
use reqwest::{Body, Client, Method, Response, StatusCode};
use url::Url;

use super::{Listed, Pages};
use crate::clock::Clock;
use crate::config::S3Config;
use crate::{Error, Result};

pub(super) const S3_NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";
/// Lifetime of the signature of a request by this process: long enough for a small clock skew.
const SIGNATURE_LIFE: Duration = Duration::from_mins(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Minimum throughput in bytes per second, below which an upload counts as stuck.
const MIN_THROUGHPUT: u64 = 128 * 1024;
/// Backoff between attempts. A store that is unreachable for longer is reported as unavailable.
const BACKOFF: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(200), Duration::from_millis(600)];
/// Timeout of a request without bytes of an object, such as a page of a listing, because callers wait for it.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_TIMEOUT: Duration = Duration::from_secs(4);
const MAX_ERROR_BODY: usize = 300;

#[derive(FromXml)]
#[xml(rename = "ListBucketResult", ns(S3_NAMESPACE))]
struct ListPage {
    contents: Vec<ListedObject>,
    #[xml(rename = "IsTruncated")]
    is_truncated: Option<bool>,
    #[xml(rename = "NextContinuationToken")]
    next_token: Option<String>,
}

#[derive(FromXml)]
#[xml(rename = "Contents", ns(S3_NAMESPACE))]
struct ListedObject {
    #[xml(rename = "Key")]
    key: String,
    #[xml(rename = "Size")]
    size: Option<u64>,
    #[xml(rename = "ETag")]
    etag: Option<String>,
    #[xml(rename = "LastModified")]
    last_modified: Option<String>,
}

pub(in crate::object_storage) struct Bucket {
    pub(super) config: S3Config,
    pub(super) signer: Signer,
    pub(super) clock: Clock,
    http: Client,
    /// Client for uploads. The timeout of `http` includes the time for sending the body.
    uploads: Client,
}

struct Request<'a> {
    method: Method,
    /// Key below the prefix; empty for the bucket itself.
    key: &'a str,
    /// Query parameters, sorted by name.
    query: &'a [(&'a str, &'a str)],
    headers: HeaderMap,
    size: u64,
}

impl<'a> Request<'a> {
    fn new(method: Method, key: &'a str) -> Self {
        Self { method, key, query: &[], headers: HeaderMap::new(), size: 0 }
    }
}

impl Bucket {
    pub(super) fn new(config: S3Config, clock: Clock) -> Result<Self> {
        Self::with_read_timeout(config, clock, READ_TIMEOUT)
    }

    fn with_read_timeout(config: S3Config, clock: Clock, read_timeout: Duration) -> Result<Self> {
        let builder = || {
            over_ring(Client::builder())
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .connect_timeout(CONNECT_TIMEOUT)
        };
        let failed = |cause| Error::new("preparing the client of the object store", cause);
        let http = builder().read_timeout(read_timeout).build().map_err(failed)?;
        let uploads = builder();
        // A store that disappeared sends no acknowledgments.
        #[cfg(target_os = "linux")]
        let uploads = uploads.tcp_user_timeout(READ_TIMEOUT);
        let uploads = uploads.build().map_err(failed)?;
        let signer = Signer::new(&config.access_key, &config.secret_key, &config.region);
        Ok(Self { config, signer, clock, http, uploads })
    }

    pub(super) async fn create(&self) -> Result<bool> {
        let region = &*self.config.region;
        let body = match region {
            "us-east-1" => String::new(),
            _ => format!(
                "<CreateBucketConfiguration xmlns=\"{S3_NAMESPACE}\">\
                 <LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
            ),
        };
        if self.find("looking for the bucket", &Request::new(Method::HEAD, "")).await?.is_some() {
            return Ok(false);
        }
        let create = Request::new(Method::PUT, "");
        let created = self.send("creating the bucket", &create, || Body::from(body.clone())).await?;
        match created.status() {
            StatusCode::CONFLICT => Ok(false),
            _ => self.succeed("creating the bucket", created).await.map(|_| true),
        }
    }

    pub(super) async fn put(
        &self,
        key: &str,
        size: u64,
        md5: &[u8],
        body: impl Fn() -> Body + Send + Sync,
    ) -> Result<()> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, size.into());
        if let Ok(md5) = STANDARD.encode(md5).parse() {
            headers.insert("content-md5", md5);
        }
        let put = Request { headers, size, ..Request::new(Method::PUT, key) };
        let doing = "storing an object";
        let stored = self.send(doing, &put, body).await?;
        self.succeed(doing, stored).await.map(drop)
    }

    pub(in crate::object_storage) async fn put_text(&self, key: &str, text: &str) -> Result<()> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let md5 = Md5::digest(&bytes);
        self.put(key, bytes.len() as u64, &md5, || Body::from(bytes.clone())).await
    }

    pub(super) async fn get(
        &self,
        key: &str,
        range: Option<std::ops::Range<u64>>,
    ) -> Result<Option<Response>> {
        let mut headers = HeaderMap::new();
        if let Some(range) = range
            && let Ok(range) = format!("bytes={}-{}", range.start, range.end.saturating_sub(1)).parse()
        {
            headers.insert(RANGE, range);
        }
        self.find("reading an object", &Request { headers, ..Request::new(Method::GET, key) }).await
    }

    pub(super) async fn has(&self, key: &str) -> Result<bool> {
        Ok(self.find("looking for an object", &Request::new(Method::HEAD, key)).await?.is_some())
    }

    pub(super) async fn delete(&self, key: &str) -> Result<()> {
        self.find("removing an object", &Request::new(Method::DELETE, key)).await.map(drop)
    }

    /// Lists the objects of a folder by name, page by page: those with the prefix `beginning`, after the name `after`.
    pub(super) fn list(&self, folder: &'static str, beginning: &str, after: &str) -> Pages<'_, Listed> {
        let folder = format!("{}{folder}", self.config.prefix);
        let prefix = format!("{folder}{beginning}");
        let after = if after.is_empty() { String::new() } else { format!("{folder}{after}") };
        let pages = stream::try_unfold(Some(String::new()), move |token| {
            let (folder, prefix, after) = (folder.clone(), prefix.clone(), after.clone());
            async move {
                let Some(token) = token else { return Ok(None) };
                let (page, next) = self.page(&folder, &prefix, &after, &token).await?;
                Ok(Some((page, next)))
            }
        });
        pages.boxed()
    }

    async fn page(
        &self,
        folder: &str,
        prefix: &str,
        after: &str,
        token: &str,
    ) -> Result<(Vec<Listed>, Option<String>)> {
        let doing = "listing the objects";
        let mut query = vec![("list-type", "2"), ("max-keys", "1000"), ("prefix", prefix)];
        if !token.is_empty() {
            query.insert(0, ("continuation-token", token));
        } else if !after.is_empty() {
            query.push(("start-after", after));
        }
        let list = Request { query: &query, ..Request::new(Method::GET, "") };
        let response = self.succeed(doing, self.send(doing, &list, Body::default).await?).await?;
        let text = response.text().await.map_err(|cause| self.lost(doing, cause))?;
        let page: ListPage =
            instant_xml::from_str(&text).map_err(|cause| self.failed(doing, cause.to_string()))?;
        if page.is_truncated == Some(true) && page.next_token.as_deref().unwrap_or_default().is_empty() {
            return Err(self.failed(doing, "the page says that more follows, and has no token for it"));
        }
        let listed = page.contents.into_iter().filter_map(|object| {
            Some(Listed {
                name: object.key.strip_prefix(folder)?.to_owned(),
                size: object.size?,
                etag: object.etag.unwrap_or_default().trim_matches('"').to_owned(),
                modified: object.last_modified?.parse().ok()?,
            })
        });
        Ok((listed.collect(), page.next_token.filter(|_| page.is_truncated != Some(false))))
    }

    pub(super) async fn cors(&self) -> Result<Option<String>> {
        let get = Request { query: &[("cors", "")], ..Request::new(Method::GET, "") };
        let doing = "reading the CORS configuration of the bucket";
        let Some(response) = self.find(doing, &get).await? else {
            return Ok(None);
        };
        response.text().await.map(Some).map_err(|cause| self.lost(doing, cause))
    }

    pub(super) async fn set_cors(&self, xml: &str) -> Result<()> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, reqwest::header::HeaderValue::from_static("application/xml"));
        if let Ok(md5) = STANDARD.encode(Md5::digest(xml)).parse() {
            headers.insert("content-md5", md5);
        }
        let put = Request { query: &[("cors", "")], headers, ..Request::new(Method::PUT, "") };
        let doing = "setting the CORS configuration of the bucket";
        let body = Bytes::copy_from_slice(xml.as_bytes());
        let response = self.send(doing, &put, || Body::from(body.clone())).await?;
        self.succeed(doing, response).await.map(drop)
    }

    pub(super) fn url(&self, bucket: &Url, key: &str) -> Url {
        let mut url = bucket.clone();
        if !key.is_empty() {
            // Keys have no character that URLs escape.
            url.set_path(&format!("{}/{}{key}", bucket.path().trim_end_matches('/'), self.config.prefix));
        }
        url
    }

    pub(super) fn sign(
        &self,
        method: &Method,
        url: Url,
        life: Duration,
        query: &[(&str, &str)],
    ) -> Result<Url> {
        self.signer.url(method, url, life, query, &[], self.clock.signing_time())
    }

    async fn send(
        &self,
        doing: &'static str,
        request: &Request<'_>,
        body: impl Fn() -> Body + Send + Sync,
    ) -> Result<Response> {
        let mut pauses = BACKOFF.into_iter();
        let begun = Instant::now();
        loop {
            let url = self.url(&self.config.address, request.key);
            let url = self.sign(&request.method, url, SIGNATURE_LIFE, request.query)?;
            let client = if request.size > 0 { &self.uploads } else { &self.http };
            let mut sent =
                client.request(request.method.clone(), url).headers(request.headers.clone()).body(body());
            if matches!((request.method.as_str(), request.key), ("HEAD" | "DELETE", _) | ("GET", "")) {
                sent = sent.timeout(SHORT_TIMEOUT);
            } else if request.size > 0 {
                sent = sent.timeout(READ_TIMEOUT + Duration::from_secs(request.size / MIN_THROUGHPUT));
            }
            let failure = match sent.send().await {
                Ok(response) if !is_busy(response.status()) => return Ok(response),
                Ok(response) => {
                    let cause = refusal(response).await;
                    Error::unavailable(self.doing(doing), cause)
                }
                Err(cause) => self.lost(doing, cause),
            };
            let Some(pause) = pauses.next().filter(|_| begun.elapsed() < RETRY_TIMEOUT) else {
                return Err(failure);
            };
            // Jitter: processes that lost the store at the same time do not retry at the same time.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        }
    }

    async fn find(&self, doing: &'static str, request: &Request<'_>) -> Result<Option<Response>> {
        let response = self.send(doing, request, Body::default).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            _ => self.succeed(doing, response).await.map(Some),
        }
    }

    async fn succeed(&self, doing: &str, response: Response) -> Result<Response> {
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let cause = refusal(response).await;
        let failed = if is_busy(status) { Error::unavailable } else { Error::new };
        Err(failed(self.doing(doing), cause))
    }

    fn doing(&self, doing: &str) -> String {
        format!("{doing} ({})", self.config.description())
    }

    fn failed(&self, doing: &str, cause: impl Into<String>) -> Error {
        Error::new(self.doing(doing), cause.into())
    }

    fn lost(&self, doing: &str, cause: reqwest::Error) -> Error {
        Error::unavailable(self.doing(doing), causes(cause))
    }
}

/// Returns an error of a request and the causes behind it, without the URL, which is a credential (redaction).
pub(super) fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |cause| cause.source());
    // A request inside the request would have a URL of its own.
    let inner = chain.skip(1).filter(|cause| !cause.is::<reqwest::Error>());
    inner.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

const fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 500 | 502 | 503 | 504)
}

async fn refusal(response: Response) -> String {
    let status = response.status();
    let text = response.text().await.unwrap_or_default();
    let part = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        let (part, _) = rest.split_once("</")?;
        Some(part.chars().filter(|c| !c.is_control()).take(MAX_ERROR_BODY).collect::<String>())
    };
    let words = [Some(status.to_string()), part("Code"), part("Message")];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::clock::Moment;

    #[tokio::test]
    async fn storing_a_large_object_may_take_as_long_as_a_slow_line_needs() -> Result<()> {
        let size = 8 << 20;
        let failed = |cause| Error::new("listening", cause);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            let mut received = 0;
            let mut chunk = vec![0; 65_536];
            while received < size {
                received += stream.read(&mut chunk).await?;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: 0\r\n\r\n").await
        });
        let config = S3Config::new(&format!("s3://bucket?endpoint=http://{address}"), "key", "secret");
        let config = config.map_err(|cause| Error::new("reading", cause.to_string()))?;
        let bucket = Bucket::with_read_timeout(config, Clock::default(), Duration::from_millis(300))?;
        bucket.put("blobs/a", size as u64, b"", || Body::from(vec![1; size])).await
    }

    #[tokio::test]
    async fn a_lost_store_is_reported_with_its_cause_and_without_a_signature() -> Result<()> {
        let failed = |cause| Error::new("listening", cause);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        drop(listener);
        let config =
            S3Config::new(&format!("s3://bucket?endpoint=http://{address}"), "the-key", "the-secret");
        let config = config.map_err(|cause| Error::new("reading", cause.to_string()))?;
        let bucket = Bucket::new(config, Clock::default())?;
        let lost = bucket.has("blobs/a").await.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(lost.contains("error sending request: ") && lost.contains("onnect"), "{lost}");
        for hidden in ["X-Amz", "the-key", "the-secret", "blobs/a"] {
            assert!(!lost.contains(hidden), "{hidden}: {lost}");
        }
        Ok(())
    }

    #[test]
    fn signatures_have_the_time_that_all_processes_follow() -> Result<()> {
        let config = S3Config::new("s3://bucket?endpoint=http://store.example", "key", "secret");
        let config = config.map_err(|cause| Error::new("reading", cause.to_string()))?;
        let bucket = Bucket::new(config, Clock::following(Moment(0)))?;
        let url = bucket.url(&bucket.config.address, "blobs/a");
        let signed = bucket.sign(&Method::GET, url, SIGNATURE_LIFE, &[])?;
        assert!(signed.as_str().contains("X-Amz-Date=19700101T0000"), "{signed}");
        Ok(())
    }
}
