//! Assets: style, script and icon.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

pub(crate) struct Asset {
    pub(crate) address: LazyLock<String>,
    mime: &'static str,
    text: &'static str,
}

macro_rules! asset {
    ($name:literal, $extension:literal, $mime:literal) => {{
        const TEXT: &str = include_str!(concat!("../assets/", $name, $extension));
        let address: LazyLock<String> = LazyLock::new(|| {
            let mut hasher = DefaultHasher::new();
            TEXT.hash(&mut hasher);
            format!(concat!("/assets/", $name, "-{:016x}", $extension), hasher.finish())
        });
        Asset { address, mime: $mime, text: TEXT }
    }};
}

pub(crate) static STYLE: Asset = asset!("app", ".css", "text/css; charset=utf-8");
pub(crate) static SCRIPT: Asset = asset!("app", ".js", "text/javascript; charset=utf-8");
pub(crate) static ICON: Asset = asset!("icon", ".svg", "image/svg+xml");

/// Returns the asset at this path, cacheable for ever.
pub(crate) fn asset(path: &str) -> Option<Response> {
    let asset = [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| *asset.address == path)?;
    let cache = "public, max-age=31536000, immutable";
    Some(([(CONTENT_TYPE, asset.mime), (CACHE_CONTROL, cache)], asset.text).into_response())
}
