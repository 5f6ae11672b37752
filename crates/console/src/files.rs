//! Files on their way through the console: those that a browser sent, and those of the service, which are
//! strangers' files. None of them is ever served as HTML.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use inferstore::reqwest::Url;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tempfile::TempPath;
use tower::ServiceExt;
use tower_http::services::ServeFile;

use crate::failure::{Failure, Result};
use crate::pages::Words;
use crate::state::{App, random_id};

/// The largest file that the storage takes, and the largest output that is shown.
pub(crate) const MAX_FILE: u64 = 100 * 1024 * 1024;
const MAX_OUTPUT: u64 = 256 * 1024 * 1024;

const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// Types that a browser shows without running anything. SVG is not among them.
const INERT: &str = "image/png image/jpeg image/gif image/webp image/bmp image/avif video/mp4 video/webm video/ogg \
    video/quicktime audio/mpeg audio/wav audio/ogg audio/mp4 audio/flac audio/aac";

/// A file of a browser or of the service on this machine. The last clone deletes it.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) mime: String,
    pub(crate) path: Arc<TempPath>,
}

impl App {
    /// The address on the console under which the browser gets this file of the service.
    pub(crate) fn link(&self, url: &str) -> String {
        let id = format!("{:016x}", self.hasher.hash_one(url));
        if self.links.get(&id).is_none() {
            self.links.insert(id.clone(), url.to_owned(), 1);
        }
        format!("/view/{id}")
    }

    /// The URL that such an address leads to.
    pub(crate) fn linked(&self, id: &str) -> Result<String> {
        self.links.get(id).ok_or_else(|| Failure::not_found("This link is too old. Open its page again."))
    }

    /// Keeps a file, so that pages can show it.
    pub(crate) fn keep(&self, kept: &Kept) {
        self.kept.insert(kept.id.clone(), kept.clone(), kept.size);
    }

    async fn fetch(&self, id: &str) -> Result<Kept> {
        let url = self.linked(id)?;
        if !self.may_fetch(&url) {
            let text = "The file is said to be in the local network, unlike the service.";
            return Err(Failure::new(StatusCode::FORBIDDEN, "The request is refused", text));
        }
        let download = self.client.download(&url).max_size(MAX_OUTPUT).deadline(DOWNLOAD_TIMEOUT);
        let download = download.to_file(self.folder.path().join(random_id()?)).await?;
        let path = Arc::new(TempPath::try_from_path(download.path)?);
        let name = name_of(&url).to_owned();
        let mime = download.mime.unwrap_or_default();
        let kept = Kept { id: id.to_owned(), name, size: download.size, mime, path };
        self.keep(&kept);
        Ok(kept)
    }

    /// A service elsewhere must not make this machine read its local network.
    fn may_fetch(&self, url: &str) -> bool {
        let is_local = |url: &str| {
            let url = Url::parse(url).ok()?;
            let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some(match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
                // The system takes it for the loopback.
                Ok(ip) if ip.is_unspecified() => true,
                Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
                Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
                Err(_) => host == "localhost" || host.ends_with(".localhost"),
            })
        };
        is_local(self.client.base_url()) != Some(false) || is_local(url) == Some(false)
    }
}

/// The last segment of the path of a URL.
pub(crate) fn name_of(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// A file of the service, or one that a browser sent.
pub(crate) async fn show(app: &App, id: &str, query: &Words, request: Request) -> Result<Response> {
    let kept = match app.kept.get(id) {
        Some(kept) => kept,
        None => app.fetch(id).await?,
    };
    let served = served_type(&kept.mime);
    let response = match ServeFile::new(&*kept.path).oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let mut response = response.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(served));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=600"));
    if query.contains_key("download") || served == "application/octet-stream" {
        let name = utf8_percent_encode(&kept.name, NON_ALPHANUMERIC);
        if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename*=UTF-8''{name}")) {
            headers.insert(CONTENT_DISPOSITION, value);
        }
    }
    Ok(response)
}

/// The type to serve a file as, a text of this program: no text of a stranger becomes a header.
fn served_type(mime: &str) -> &'static str {
    let essence = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = essence.starts_with("text/") || essence == "application/json";
    let other = if is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    INERT.split(' ').find(|inert| *inert == essence).unwrap_or(other)
}

#[cfg(test)]
mod tests;
