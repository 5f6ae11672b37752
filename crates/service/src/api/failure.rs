//! How refusals are written: one shape for all, with a sentence that says what to do about it.

use std::fmt;

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::Error;

/// How many characters a message has at most.
const LONGEST_MESSAGE: usize = 2_000;

/// A request that was refused, or that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    message: String,
    /// Seconds after which a repeat may succeed.
    retry_after: Option<u32>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let mut message = message.into();
        // A message may quote what was sent, which may be of any length.
        if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        Self { status, message, retry_after: None }
    }

    /// There is no such thing, or the caller may not know of it.
    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        // An identifier of any length may have been sent; its beginning says enough.
        let id: String = id.chars().take(80).collect();
        Self::new(StatusCode::NOT_FOUND, format!("there is no {what} {id:?} that you may see"))
    }

    /// The request was understood, and asks for something that cannot be.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    pub(crate) fn insufficient_balance(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYMENT_REQUIRED, message)
    }

    pub(crate) fn busy() -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "too many requests are in progress; try again")
        }
    }

    pub(crate) fn too_many_at_once() -> Self {
        let message = "too many requests of this account wait for their bodies; send them whole, or fewer";
        Self { retry_after: Some(1), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(cause: Error) -> Self {
        tracing::error!(%cause, "a request failed inside the service");
        if cause.is_of_the_disk() {
            let message = "the service cannot write to its disk now; try again later, or tell its operator";
            return Self::new(StatusCode::INSUFFICIENT_STORAGE, message);
        }
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the service failed; its log says why")
    }
}

#[derive(Serialize)]
struct Body {
    status: &'static str,
    message: String,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response =
            (self.status, Json(Body { status: "fail", message: self.message })).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// For paths that exist, with methods that do not.
pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Failure {
    let message =
        format!("{method} is not allowed on {}; the document lists the methods of every path", uri.path());
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, message)
}

/// For paths that do not exist.
pub(crate) async fn unknown_path(uri: Uri) -> Failure {
    let path: String = uri.path().chars().take(200).collect();
    Failure::new(StatusCode::NOT_FOUND, format!("there is nothing at {path}; the API begins at /api/v1"))
}
