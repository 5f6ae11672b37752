//! How successes are written: the envelope, and pages inside it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A success: the envelope around a payload, or without one.
pub(crate) struct Answer<T> {
    message: &'static str,
    data: Option<T>,
}

impl<T: Serialize> Answer<T> {
    pub(crate) const fn data(data: T) -> Self {
        Self { message: "ok", data: Some(data) }
    }
}

impl<T> Answer<T> {
    /// An answer that has nothing to give.
    pub(crate) const fn nothing(message: &'static str) -> Self {
        Self { message, data: None }
    }
}

impl Answer<()> {
    /// An answer that says only that it is done.
    pub(crate) const fn done(message: &'static str) -> Self {
        Self { message, data: None }
    }
}

#[derive(Serialize)]
struct Envelope<T> {
    status: &'static str,
    message: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<T>,
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        Json(Envelope { status: "success", message: self.message, data: self.data }).into_response()
    }
}

/// One page of a list. `records` is null when nothing matches at all, and empty when the page lies
/// behind the last record.
#[derive(Serialize)]
pub(crate) struct Page<T> {
    records: Option<Vec<T>>,
    total: u64,
}

impl<T> Page<T> {
    pub(crate) fn new(records: Vec<T>, total: u64) -> Self {
        Self { records: (total > 0).then_some(records), total }
    }
}
