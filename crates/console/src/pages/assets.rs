//! Assets: style, script and icon, the document, and the reference that is made from it.

use super::prelude::*;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use maud::PreEscaped;

const STYLE: &str = include_str!("../../assets/app.css");
const SCRIPT: &str = include_str!("../../assets/app.js");
const ICON: &str = include_str!("../../assets/icon.svg");
const DOCUMENT: &str = include_str!("../../../../openapi/inferstore.yaml");

/// Made from the document by a test of this crate, which also shows that it is up to date: so the command needs
/// no parser of YAML and Markdown, and its build does not grow.
const REFERENCE: &str = include_str!("../../assets/reference.html");

/// A file that is the same for everyone.
pub(crate) fn asset(name: &str) -> Result<Response> {
    let (kind, text) = match name {
        "app.css" => ("text/css; charset=utf-8", STYLE),
        "app.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => ("image/svg+xml", ICON),
        "openapi.yaml" => ("text/plain; charset=utf-8", DOCUMENT),
        _ => return Err(Failure::not_found("The console has no such page.")),
    };
    Ok(([(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")], text).into_response())
}

pub(crate) fn reference() -> Response {
    page("API", "/docs", html! { div.reference { (PreEscaped(REFERENCE)) } })
}
