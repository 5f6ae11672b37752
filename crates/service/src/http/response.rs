//! Responses: the envelope of a success, pages inside the envelope, and the one format of all failures.

use std::future::{Ready, ready};

use axum::Json;
use axum::extract::OriginalUri;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::Error;

const MAX_MESSAGE: usize = 2_000;

const MAX_PATH: usize = 200;

const MAX_IDENTIFIER: usize = 80;

pub(crate) fn beginning(id: &str) -> String {
    cut(id.to_owned(), MAX_IDENTIFIER)
}

fn cut(mut text: String, max: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(max) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[derive(Serialize)]
pub(crate) struct Success<T> {
    status: &'static str,
    message: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<T>,
}

pub(crate) type Done<T = (), E = Failure> = std::result::Result<Success<T>, E>;

impl<T: Serialize> Success<T> {
    pub(crate) const fn data(data: T) -> Self {
        Self { status: "success", message: "ok", data: Some(data) }
    }
}

impl<T> Success<T> {
    pub(crate) const fn done(message: &'static str) -> Self {
        Self { status: "success", message, data: None }
    }
}

impl<T: Serialize> IntoResponse for Success<T> {
    fn into_response(self) -> Response {
        Json(self).into_response()
    }
}

/// Returns a success whose payload is a record extended by stored JSON, unchanged, because its write validated it.
pub(crate) fn with_stored_json(
    record: &impl Serialize,
    stored: &[(&str, &str)],
) -> Result<Response, Failure> {
    let record = serde_json::to_string(record).map_err(|cause| Error::new("writing a response", cause))?;
    let mut body = r#"{"status":"success","message":"ok","data":"#.to_owned();
    body.push_str(record.strip_suffix('}').unwrap_or(&record));
    for (name, json) in stored {
        body.extend([",\"", name, "\":", json]);
    }
    body.push_str("}}");
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

pub(crate) fn refuse_unrouted(message: &'static str) -> Response {
    Failure::new(StatusCode::BAD_REQUEST, message).into_response()
}

/// A page of a list. `records` is null if the whole list is empty, and empty if the page lies behind the last record.
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

#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    message: String,
    retry_after: Option<u64>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        // A message may quote parts of the request, which have no length limit.
        Self { status, message: cut(message.into(), MAX_MESSAGE), retry_after: None }
    }

    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        let message = format!("there is no {what} {:?} that you may see", beginning(id));
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    pub(crate) fn insufficient_balance(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYMENT_REQUIRED, message)
    }

    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn too_many(message: impl Into<String>, retry_after: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(retry_after)
    }
}

impl From<Error> for Failure {
    fn from(cause: Error) -> Self {
        tracing::error!(%cause, "a request failed inside the service");
        if cause.is_of_the_disk() {
            let message =
                "the service cannot write to its disk now; try again later, or contact its operator";
            return Self::new(StatusCode::INSUFFICIENT_STORAGE, message);
        }
        if cause.is_unavailable() {
            let message = "the service cannot reach its database or its object store now; try again";
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(1);
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
        let body = Body { status: "fail", message: self.message };
        let mut response = (self.status, Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// A failure with its cause, for operators and testers. Callers of the API see no causes.
pub(crate) struct DetailedFailure(Failure);

impl From<Failure> for DetailedFailure {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl From<Error> for DetailedFailure {
    fn from(cause: Error) -> Self {
        let status = if cause.is_in_doubt() {
            StatusCode::INTERNAL_SERVER_ERROR
        } else if cause.is_of_the_disk() {
            StatusCode::INSUFFICIENT_STORAGE
        } else if cause.is_unavailable() {
            StatusCode::SERVICE_UNAVAILABLE
        } else if cause.is_not_found() {
            StatusCode::NOT_FOUND
        } else {
            StatusCode::UNPROCESSABLE_ENTITY
        };
        let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
        Self(Failure { retry_after, ..Failure::new(status, cause.to_string()) })
    }
}

impl IntoResponse for DetailedFailure {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

pub(crate) async fn wrong_method(method: Method, OriginalUri(uri): OriginalUri) -> Failure {
    let method: String = method.as_str().chars().take(MAX_PATH).collect();
    Failure::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{method} is not allowed on {}", describe_path(&uri)),
    )
}

pub(crate) fn unknown_path(hint: &'static str) -> impl Fn(Uri) -> Ready<Failure> + Clone {
    move |uri| {
        let message = format!("there is nothing at {}; {hint}", describe_path(&uri));
        ready(Failure::new(StatusCode::NOT_FOUND, message))
    }
}

fn describe_path(uri: &Uri) -> String {
    match uri.path() {
        "" => "an empty path".to_owned(),
        path => cut(path.to_owned(), MAX_PATH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_tells_an_operator_whether_anything_may_have_changed() {
        let status = |cause: Error| DetailedFailure::from(cause).into_response().status().as_u16();
        assert_eq!(status(Error::in_doubt("crediting an account", "the connection was closed")), 500);
        assert_eq!(status(Error::unavailable("crediting an account", "there is no connection")), 503);
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(status(Error::keeping("crediting an account", full())), 507);
        assert_eq!(status(Error::keeping("closing an account", full()).after_a_change()), 500);
        assert_eq!(status(Error::new("crediting an account", "the amount is not positive")), 422);
    }
}
