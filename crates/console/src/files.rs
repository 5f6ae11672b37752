//! Files on their way through the console: those that a browser sent, and those of the service, which are
//! strangers' files. None of them is ever served as HTML.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path as PathOf, Query, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use inferstore::reqwest::Url;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tempfile::TempPath;
use tokio::sync::Mutex;
use tower::ServiceExt;
use tower_http::services::ServeFile;

use crate::failure::{Failure, Result};
use crate::pages::Words;
use crate::state::{App, Shared, random_id};

/// The largest file that the storage takes, and the largest output that is shown.
pub(crate) const MAX_FILE: u64 = 100 * 1024 * 1024;
const MAX_OUTPUT: u64 = 256 * 1024 * 1024;

const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// Types that a browser shows without running anything. SVG is not among them.
const INERT: &str = "image/png image/jpeg image/gif image/webp image/bmp image/avif video/mp4 video/webm video/ogg \
    video/quicktime audio/mpeg audio/wav audio/ogg audio/mp4 audio/flac audio/aac";

/// What is known of a file that a browser sent, also when it is no longer kept.
#[derive(Clone)]
pub(crate) struct FileName {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// A file of a browser or of the service on this machine. The last clone deletes it.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) file: FileName,
    pub(crate) mime: String,
    pub(crate) path: Arc<TempPath>,
}

/// A file of the service that a page links to.
pub(crate) struct Link {
    pub(crate) url: String,
    name: String,
    /// Two requests for one file download it once.
    download: Mutex<()>,
}

impl App {
    /// The address on the console under which the browser gets this file of the service.
    pub(crate) fn link(&self, url: &str, name: &str) -> String {
        let id = format!("{:016x}", self.hasher.hash_one((url, name)));
        if self.links.get(&id).is_none() {
            let link = Link { url: url.to_owned(), name: name.to_owned(), download: Mutex::default() };
            self.links.insert(id.clone(), Arc::new(link), 1);
        }
        format!("/view/{id}")
    }

    /// The file of the service that such an address leads to.
    pub(crate) fn linked(&self, id: &str) -> Result<Arc<Link>> {
        self.links.get(id).ok_or_else(|| Failure::not_found("This link is too old. Open its page again."))
    }

    /// Keeps a file, so that pages can show it.
    pub(crate) fn keep(&self, kept: &Kept) {
        self.kept.insert(kept.file.id.clone(), kept.clone(), kept.file.size);
    }

    async fn fetch(&self, id: &str) -> Result<Kept> {
        let link = self.linked(id)?;
        let _one_at_a_time = link.download.lock().await;
        if let Some(kept) = self.kept.get(id) {
            return Ok(kept);
        }
        if !self.may_fetch(&link.url) {
            return Err(Failure::refused("The file is said to be in the local network, unlike the service."));
        }
        let download = self.client.download(&link.url).max_size(MAX_OUTPUT).deadline(DOWNLOAD_TIMEOUT);
        let download = download.to_file(self.folder.path().join(random_id()?)).await?;
        let file = FileName { id: id.to_owned(), name: link.name.clone(), size: download.size };
        let path = Arc::new(TempPath::try_from_path(download.path)?);
        let kept = Kept { file, mime: download.mime.unwrap_or_default(), path };
        self.keep(&kept);
        Ok(kept)
    }

    /// A service elsewhere must not make this machine read its local network.
    fn may_fetch(&self, url: &str) -> bool {
        let is_local = |url: &str| {
            let url = Url::parse(url).ok()?;
            let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some(match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
                Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
                Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
                Err(_) => host == "localhost" || host.ends_with(".localhost"),
            })
        };
        is_local(self.client.base_url()) != Some(false) || is_local(url) == Some(false)
    }
}

/// A file of the service, or one that a browser sent.
pub(crate) async fn show(
    State(app): State<Shared>,
    PathOf(id): PathOf<String>,
    Query(query): Query<Words>,
    request: Request,
) -> Result<Response> {
    let kept = match app.kept.get(&id) {
        Some(kept) => kept,
        None => app.fetch(&id).await?,
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
        let name = utf8_percent_encode(&kept.file.name, NON_ALPHANUMERIC);
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
