//! One attempt to read a URL, from where the last one broke off.

use std::time::Duration;

use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_RANGE,
    LAST_MODIFIED, LOCATION, RANGE,
};
use reqwest::{Response, StatusCode, Url};
use tokio::time::timeout;

use super::sink::Sink;
use super::{DownloadProgress, OnProgress};
use crate::client::Inner;
use crate::files::source::{trouble, trouble_from};
use crate::files::upload::fault::{Failed, Fault, Kind};
use crate::transport::mask::Mask;
use crate::transport::redact::redact;

/// Past this many redirects there is a loop.
const MAX_REDIRECTS: u32 = 5;

/// What has come so far, and of what.
#[derive(Default)]
pub(super) struct Received {
    pub(super) bytes: u64,
    pub(super) mime: Option<String>,
    total: Option<u64>,
    /// What names this version of the content. Without it a rest cannot be asked for.
    version: Option<HeaderValue>,
}

/// What is read, and for whom.
pub(super) struct Exchange<'a> {
    pub(super) client: &'a Inner,
    pub(super) url: Url,
    /// How errors call what is written to.
    pub(super) target: &'a str,
    pub(super) max_size: Option<u64>,
}

impl Exchange<'_> {
    /// The host, which is all of a URL that grants nothing.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or("a host without a name")
    }

    /// Reads the rest of the content, or the whole if there is none yet.
    pub(super) async fn once(
        &self,
        received: &mut Received,
        sink: &mut Sink<'_>,
        on_progress: OnProgress<'_>,
    ) -> Result<(), Failed> {
        let mut response = self.ask(received).await.map_err(Failed::There)?;
        let known = self.begin(&response, received, sink).await?;
        self.check_size(received.total)?;
        self.read(&mut response, known, received, sink, on_progress).await
    }

    /// Decides what the answer is the beginning of. Returns how many of its first bytes are there
    /// already.
    async fn begin(
        &self,
        response: &Response,
        received: &mut Received,
        sink: &mut Sink<'_>,
    ) -> Result<u64, Failed> {
        let headers = response.headers();
        let asked_for_rest = received.rest().is_some();
        match response.status() {
            StatusCode::PARTIAL_CONTENT if asked_for_rest && received.goes_on_with(headers) => return Ok(0),
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if asked_for_rest => {
                // The next attempt asks for the whole.
                self.forget(received, sink).await?;
                return Err(Failed::There(Fault::new(Kind::Passing, "the rest of the content does not fit")));
            }
            _ => {}
        }
        let version = version(headers);
        let is_the_same = version.is_some() && version == received.version;
        let known = if is_the_same { received.bytes } else { 0 };
        if !is_the_same && received.bytes > 0 {
            self.forget(received, sink).await?;
        }
        received.version = version;
        received.total = response.content_length();
        received.mime = headers.get(CONTENT_TYPE).and_then(|mime| mime.to_str().ok()).map(str::to_owned);
        Ok(known)
    }

    async fn read(
        &self,
        response: &mut Response,
        mut known: u64,
        received: &mut Received,
        sink: &mut Sink<'_>,
        on_progress: OnProgress<'_>,
    ) -> Result<(), Failed> {
        let idle = self.client.settings.transfer_timeout;
        while let Some(chunk) = within(idle, response.chunk()).await.map_err(Failed::There)? {
            let skipped = known.min(chunk.len() as u64);
            known -= skipped;
            let new = &chunk[skipped as usize..];
            if new.is_empty() {
                continue;
            }
            let bytes = received.bytes + new.len() as u64;
            self.check_size(Some(bytes))?;
            sink.write(new).await.map_err(|error| self.unwritable(error))?;
            received.bytes = bytes;
            on_progress(DownloadProgress { received: bytes, total: received.total });
        }
        match received.total {
            Some(total) if total != received.bytes => {
                let problem = format!("{} of {total} bytes came", received.bytes);
                Err(Failed::There(Fault::new(Kind::Passing, problem)))
            }
            _ => Ok(()),
        }
    }

    async fn forget(&self, received: &mut Received, sink: &mut Sink<'_>) -> Result<(), Failed> {
        sink.begin_anew().await.map_err(|error| self.unwritable(error))?;
        *received = Received::default();
        Ok(())
    }

    /// The answer of whoever has the content, behind redirects.
    async fn ask(&self, received: &Received) -> Result<Response, Fault> {
        let client = self.client;
        let patience = client.settings.transfer_timeout.max(client.settings.read_timeout);
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            // Whatever packs the content would change its length.
            let mut request = client.storage.get(url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(version) = received.rest() {
                request =
                    request.header(RANGE, format!("bytes={}-", received.bytes)).header(IF_RANGE, version);
            }
            let response = within(patience, request.send()).await?;
            let status = response.status();
            if status.is_redirection() {
                url = redirected(&url, response.headers())?;
            } else if status == StatusCode::RANGE_NOT_SATISFIABLE || status == StatusCode::PARTIAL_CONTENT {
                let problem = "a part of the content came, but the whole was asked for";
                return received.rest().map(|_| response).ok_or_else(|| Fault::new(Kind::Final, problem));
            } else if status.is_success() {
                return Ok(response);
            } else {
                let mask = Mask::of(&url, &[]);
                let hide = |text: &str| redact(&mask.over(text), client.key.expose());
                return Err(Fault::answered(response, hide).await);
            }
        }
        Err(Fault::new(Kind::Final, format!("there are more than {MAX_REDIRECTS} redirects")))
    }

    fn check_size(&self, size: Option<u64>) -> Result<(), Failed> {
        match (size, self.max_size) {
            (Some(size), Some(max)) if size > max => {
                let problem = format!("the content has more than the {max} bytes that it may have");
                Err(Failed::Here(trouble(self.host(), problem)))
            }
            _ => Ok(()),
        }
    }

    fn unwritable(&self, error: std::io::Error) -> Failed {
        Failed::Here(trouble_from(self.target, format!("it cannot be written: {error}"), error))
    }
}

impl Received {
    /// The version whose rest can be asked for.
    fn rest(&self) -> Option<&HeaderValue> {
        self.version.as_ref().filter(|_| self.bytes > 0)
    }

    /// Whether a part begins where the last one ended, within a content of the same length.
    fn goes_on_with(&self, headers: &HeaderMap) -> bool {
        let range = headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let parts = range.and_then(|range| range.strip_prefix("bytes ")?.split_once('/'));
        let Some((range, total)) = parts else { return false };
        let begin = range.split('-').next().and_then(|begin| begin.trim().parse::<u64>().ok());
        let total = total.trim().parse::<u64>().ok();
        // Some servers do not look at the version that they are asked for.
        let is_the_same = version(headers).is_none_or(|version| Some(version) == self.version);
        is_the_same
            && begin == Some(self.bytes)
            && (self.total.is_none() || total.is_none() || total == self.total)
    }
}

/// Where a redirect leads.
fn redirected(from: &Url, headers: &HeaderMap) -> Result<Url, Fault> {
    let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let to = location.and_then(|location| from.join(location).ok());
    match (from.scheme(), to) {
        (_, Some(to)) if to.scheme() == "https" => Ok(to),
        ("http", Some(to)) if to.scheme() == "http" => Ok(to),
        (_, Some(to)) if to.scheme() == "http" => {
            Err(Fault::new(Kind::Final, "a redirect leads from https to http, where anyone could read along"))
        }
        _ => Err(Fault::new(Kind::Final, "a redirect leads to nothing that can be read")),
    }
}

/// What a version is called, in a form that may go into `If-Range`: no tag that only says "about the
/// same".
fn version(headers: &HeaderMap) -> Option<HeaderValue> {
    let get = |name: &HeaderName| headers.get(name).cloned();
    get(&ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/")).or_else(|| get(&LAST_MODIFIED))
}

async fn within<T>(idle: Duration, work: impl Future<Output = reqwest::Result<T>>) -> Result<T, Fault> {
    timeout(idle, work).await.map_err(|_| Fault::standstill(idle))?.map_err(Fault::transport)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_never_leads_out_of_the_encrypted() {
        let leads = |from: &str, location: &str| {
            let headers =
                HeaderMap::from_iter(HeaderValue::from_str(location).map(|location| (LOCATION, location)));
            match Url::parse(from).map(|from| redirected(&from, &headers)) {
                Ok(Ok(to)) => to.to_string(),
                Ok(Err(fault)) => fault.problem,
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(leads("https://a.example/b/c", "d?e"), "https://a.example/b/d?e");
        assert_eq!(leads("http://a.example/", "https://b.example/"), "https://b.example/");
        assert_eq!(leads("http://a.example/", "//b.example/"), "http://b.example/");
        assert!(leads("https://a.example/", "http://a.example/").contains("from https to http"));
        for location in ["file:///etc/hostname", "data:,x", "https://"] {
            assert!(leads("https://a.example/", location).contains("nothing that can be read"), "{location}");
        }
    }

    #[test]
    fn only_a_version_that_says_exactly_the_same_is_one() {
        let version = |tag: &'static str, date: &'static str| {
            let pairs =
                [(ETAG, tag), (LAST_MODIFIED, date)].into_iter().filter(|(_, value)| !value.is_empty());
            version(&pairs.map(|(name, value)| (name, HeaderValue::from_static(value))).collect())
        };
        assert_eq!(version("\"1\"", "yesterday"), Some(HeaderValue::from_static("\"1\"")));
        assert_eq!(version("W/\"1\"", "yesterday"), Some(HeaderValue::from_static("yesterday")));
        assert_eq!(version("W/\"1\"", ""), None);
    }
}
