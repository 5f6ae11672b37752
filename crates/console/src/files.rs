//! Files of the console: uploads of a browser, and untrusted files of the service. No file is served as HTML.

use std::hash::{BuildHasher, Hash};
use std::io::Cursor;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RANGE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};
use inferstore::reqwest::{Method, Url};
use inferstore::types::{PresignRequest, StorageFile, UploadFolder};
use inferstore_fetch::is_public;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::Value;
use serde_json::value::to_raw_value;
use tempfile::TempPath;
use tokio::sync::Semaphore;
use tower::ServiceExt;
use tower_http::services::ServeFile;

use crate::cache::Kept;
use crate::failure::{Failure, Result, named, within};
use crate::state::{App, random_id};
use crate::text::Words;

pub(crate) const MAX_FILE: u64 = 100 * 1024 * 1024;
const MAX_OUTPUT: u64 = 256 * 1024 * 1024;

const THUMBNAIL: u32 = 384;
const MAX_PIXELS_MEMORY: u64 = 256 * 1024 * 1024;

static DECODERS: Semaphore = Semaphore::const_new(2);

const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// Cache lifetime of a downloaded file: it may have been replaced under its URL.
const DOWNLOAD_TTL: Duration = Duration::from_secs(60);

/// Types that a browser shows without running code. SVG is not one.
const INERT: &str = "image/png image/jpeg image/gif image/webp image/bmp image/avif video/mp4 video/webm video/ogg \
    video/quicktime audio/mpeg audio/wav audio/ogg audio/mp4 audio/flac audio/aac";

impl App {
    pub(crate) fn link(&self, url: &str) -> String {
        self.link_of(url, ())
    }

    /// Returns the address for a file of a folder, which changes when the file is replaced under its URL.
    pub(crate) fn link_to(&self, file: &StorageFile, url: &str) -> String {
        self.link_of(url, (&file.id, file.size, file.created_at.as_ref().map(|stamp| stamp.as_str())))
    }

    fn link_of(&self, url: &str, version: impl Hash) -> String {
        let id = format!("{:016x}", self.hasher.hash_one((url, version)));
        if self.links.get(&id).is_none() {
            self.links.insert(id.clone(), url.to_owned(), 1);
        }
        format!("/view/{id}")
    }

    pub(crate) fn linked(&self, id: &str) -> Result<String> {
        self.links.get(id).ok_or_else(|| Failure::not_found("This link is too old. Open its page again."))
    }

    /// SSRF protection: returns true if the file is at the origin of the API or of the storage. Pages load no other URL
    /// on their own: a model can name any host, to learn who opens the page, or a port of another program.
    pub(crate) fn is_own(&self, url: &str) -> bool {
        let Ok(url) = Url::parse(url) else { return false };
        let service = Url::parse(self.client.base_url());
        service.is_ok_and(|service| service.origin() == url.origin())
            || self.storage.get() == Some(&origin(&url))
    }

    /// Finds the origin of the storage, which may differ from that of the API: from an upload target, to
    /// which nothing is sent. URLs from a model prove nothing.
    pub(crate) async fn learn_origin(&self) {
        if self.storage.get().is_some() {
            return;
        }
        let file = PresignRequest::new(UploadFolder::Samples, "text/plain", "inferstore-console.txt", 1);
        let path = "/api-key/storage/upload/create-presigned-url";
        let Ok(body) = to_raw_value(&file) else { return };
        let sent = within(self.client.request(Method::POST, path, Some(body))).await;
        let target: Value = sent.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        if let Some(url) = target["data"]["download_url"].as_str().and_then(|url| Url::parse(url).ok()) {
            self.storage.get_or_init(|| origin(&url));
        }
    }

    pub(crate) fn store(&self, kept: &Kept) {
        self.kept.insert(kept.id.clone(), kept.clone(), kept.size);
    }

    pub(crate) fn forget_downloads(&self) {
        self.kept.retain(|kept| kept.expires.is_none());
    }

    pub(crate) async fn file(&self, id: &str, is_fresh: impl Fn(&Kept) -> bool + Send) -> Result<Kept> {
        match self.kept.get(id).filter(is_fresh) {
            Some(kept) => Ok(kept),
            None => self.fetch(id).await,
        }
    }

    async fn fetch(&self, id: &str) -> Result<Kept> {
        let url = self.linked(id)?;
        let mut download = self.client.download(&url).limits(|limits| {
            limits.max_size = Some(MAX_OUTPUT);
            limits.deadline = Some(DOWNLOAD_TIMEOUT);
        });
        // SSRF protection: a remote service must not make this machine read its local network.
        if is_local(self.client.base_url()) == Some(false) {
            let check = |url: &str| match is_local(url) {
                Some(false) => Ok(()),
                _ => Err("The file is said to be in the local network, unlike the service."),
            };
            let refused = |text| Failure::new(StatusCode::FORBIDDEN, "The request is refused", text);
            check(&url).map_err(refused)?;
            download = download.url_filter(move |url| check(url.as_str()).map_err(str::to_owned));
        }
        let download = download.to_file(self.folder.join(random_id()?)).await;
        let download = download.map_err(|error| named(error, name_of(&url)))?;
        let path = Arc::new(TempPath::try_from_path(download.path)?);
        let name = name_of(&url).to_owned();
        let mime = download.mime.unwrap_or_default();
        let expires = Some(Instant::now() + DOWNLOAD_TTL);
        let kept = Kept { id: id.to_owned(), name, size: download.size, digest: 0, mime, path, expires };
        self.store(&kept);
        Ok(kept)
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns true if a URL names this machine or its network. DNS names that resolve there are not recognized.
fn is_local(url: &str) -> Option<bool> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?.trim_start_matches('[').trim_end_matches([']', '.']).to_owned();
    Some(match host.parse::<IpAddr>() {
        Ok(ip) => !is_public(ip),
        Err(_) => matches!(host.rsplit('.').next(), Some("localhost" | "local")),
    })
}

pub(crate) fn name_of(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

pub(crate) fn original_name(url: &str) -> String {
    let name = percent_decode_str(name_of(url)).decode_utf8_lossy().into_owned();
    let is_random = |prefix: &str| prefix.len() == 32 && prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
    let named = name.split_once('-').filter(|(prefix, rest)| is_random(prefix) && !rest.is_empty());
    named.map_or(&*name, |(_, rest)| rest).to_owned()
}

pub(crate) async fn show(app: &App, id: &str, query: &Words, request: Request) -> Result<Response> {
    // Ranges of one playing file belong to one download.
    let is_part = request.headers().contains_key(RANGE);
    let is_fresh = |kept: &Kept| is_part || kept.expires.is_none_or(|expires| Instant::now() < expires);
    let mut kept = app.file(id, is_fresh).await?;
    if query.contains_key("small") {
        return thumbnail(&kept).await;
    }
    if let Some(name) = query.get("download").filter(|name| !name.is_empty()) {
        kept.name.clone_from(name);
    }
    let served = served_type(&kept.mime);
    let Ok(response) = ServeFile::new(&*kept.path).oneshot(request).await;
    let mut response = response.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(served));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if query.contains_key("download") || served == "application/octet-stream" {
        let name = utf8_percent_encode(&kept.name, NON_ALPHANUMERIC);
        if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename*=UTF-8''{name}")) {
            headers.insert(CONTENT_DISPOSITION, value);
        }
    }
    Ok(response)
}

pub(crate) async fn thumbnail(kept: &Kept) -> Result<Response> {
    let _permit = DECODERS.acquire().await;
    let path = Arc::clone(&kept.path);
    let small = tokio::task::spawn_blocking(move || small_picture(&path)).await;
    let Ok(Some((mime, bytes))) = small else {
        return Err(Failure::not_found("This file has no picture."));
    };
    let cache = [(CONTENT_TYPE, mime), (CACHE_CONTROL, "private, max-age=3600")];
    Ok((cache, bytes).into_response())
}

fn small_picture(path: &Path) -> Option<(&'static str, Vec<u8>)> {
    let mut reader = ImageReader::open(path).ok()?.with_guessed_format().ok()?;
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(MAX_PIXELS_MEMORY);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder().ok()?;
    // The decoder does not count the pixels themselves.
    limits.reserve(decoder.total_bytes()).ok()?;
    let orientation = decoder.orientation().ok()?;
    let mut small = DynamicImage::from_decoder(decoder).ok()?.thumbnail(THUMBNAIL, THUMBNAIL);
    small.apply_orientation(orientation);
    let (mime, format, small) = match small.color().has_alpha() {
        true => ("image/png", ImageFormat::Png, DynamicImage::from(small.into_rgba8())),
        false => ("image/jpeg", ImageFormat::Jpeg, DynamicImage::from(small.into_rgb8())),
    };
    let mut bytes = Cursor::new(Vec::new());
    small.write_to(&mut bytes, format).ok()?;
    Some((mime, bytes.into_inner()))
}

/// Returns the MIME type to serve, as a constant: foreign text never becomes a header.
fn served_type(mime: &str) -> &'static str {
    let essence = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = essence.starts_with("text/") || essence == "application/json";
    let other = if is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    INERT.split(' ').find(|inert| *inert == essence).unwrap_or(other)
}

#[cfg(test)]
mod tests;
