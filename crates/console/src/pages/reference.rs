//! API: the document, and its reference.

use super::prelude::*;
use axum::http::header::CONTENT_TYPE;
use maud::PreEscaped;

const DOCUMENT: &str = include_str!("../../../../openapi/inferstore.yaml");

/// Reference that `cargo xtask generate` writes: the command needs no parser of YAML and Markdown.
const REFERENCE: &str = include_str!("../../assets/reference.html");

pub(crate) fn document() -> Response {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], DOCUMENT).into_response()
}

pub(crate) fn show() -> Response {
    page("API", "/docs", html! { div.reference { (PreEscaped(REFERENCE)) } })
}
