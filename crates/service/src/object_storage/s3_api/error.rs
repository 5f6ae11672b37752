//! S3 errors: a code with its status, and a message, as XML.

use std::borrow::Cow;
use std::fmt;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use axum::http::{Response, StatusCode};

use crate::Error;
use crate::http::slow_clients::BodyError;

/// Error codes of this object store. Clients read the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    AccessDenied,
    BadDigest,
    EntityTooLarge,
    EntityTooSmall,
    /// Not a code of S3, which has none for a full disk.
    InsufficientStorage,
    IncompleteBody,
    InternalError,
    InvalidAccessKeyId,
    InvalidArgument,
    InvalidRange,
    InvalidRequest,
    MalformedPOSTRequest,
    MaxPostPreDataLengthExceededError,
    MethodNotAllowed,
    MissingContentLength,
    NoSuchKey,
    NoSuchVersion,
    NotImplemented,
    NotModified,
    PreconditionFailed,
    RequestTimeout,
    SignatureDoesNotMatch,
    SlowDown,
}

impl Code {
    const fn status(self) -> StatusCode {
        match self {
            Self::NotModified => StatusCode::NOT_MODIFIED,
            Self::AccessDenied | Self::InvalidAccessKeyId | Self::SignatureDoesNotMatch => {
                StatusCode::FORBIDDEN
            }
            Self::NoSuchKey | Self::NoSuchVersion => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::MissingContentLength => StatusCode::LENGTH_REQUIRED,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::InvalidRange => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotImplemented => StatusCode::NOT_IMPLEMENTED,
            Self::SlowDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::InsufficientStorage => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

#[derive(Debug)]
pub(crate) struct S3Error {
    code: Code,
    message: Cow<'static, str>,
    header: Option<(HeaderName, String)>,
}

impl S3Error {
    pub(crate) fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), header: None }
    }

    pub(crate) fn denied(why: &str) -> Self {
        Self::new(Code::AccessDenied, format!("Access Denied: {why}"))
    }

    pub(crate) fn slow_down() -> Self {
        Self::new(Code::SlowDown, "Please reduce your request rate.")
    }

    pub(crate) fn with(self, name: HeaderName, value: String) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    pub(crate) fn respond(self, id: &str) -> Response<Body> {
        let body = match self.code {
            Code::NotModified => String::new(),
            code => format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code:?}</Code>\
                 <Message>{}</Message><RequestId>{id}</RequestId></Error>",
                escaped(&self.message)
            ),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.code.status();
        if let Some((name, value)) = self.header
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            response.headers_mut().insert(name, value);
        }
        if self.code == Code::SlowDown {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.code != Code::NotModified {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        }
        response
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars().take(500) {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            control if control.is_control() => escaped.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

impl fmt::Display for S3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)
    }
}

impl From<Error> for S3Error {
    /// Logs the cause of a failure of the service; the response does not contain the cause.
    fn from(cause: Error) -> Self {
        tracing::error!(%cause, "a request failed inside the object store");
        if cause.is_of_the_disk() {
            let message = "The service cannot write to its disk now. Please try again later.";
            return Self::new(Code::InsufficientStorage, message);
        }
        if cause.is_unavailable() {
            return Self::slow_down();
        }
        Self::new(Code::InternalError, "We encountered an internal error. Please try again.")
    }
}

impl From<BodyError> for S3Error {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::CutOff => {
                let message = "You did not provide the number of bytes specified by the Content-Length HTTP \
                               header";
                Self::new(Code::IncompleteBody, message)
            }
            BodyError::TooLarge => {
                let message = "There is more around the fields and the file than there may be.";
                Self::new(Code::MaxPostPreDataLengthExceededError, message)
            }
            BodyError::TooSlow => {
                let message = "Your socket connection to the server was not read from or written to within the \
                               timeout period.";
                Self::new(Code::RequestTimeout, message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_client_learns_of_a_full_disk_and_of_a_lack_of_open_files() {
        let status = |cause: io::Error| S3Error::from(Error::keeping("storing", cause)).respond("").status();
        assert_eq!(status(io::ErrorKind::StorageFull.into()), 507);
        assert_eq!(status(io::ErrorKind::InvalidData.into()), 500);
        #[cfg(unix)]
        for too_many_open_files in [23, 24] {
            let response =
                S3Error::from(Error::keeping("storing", io::Error::from_raw_os_error(too_many_open_files)))
                    .respond("");
            assert_eq!(response.status(), 503);
            assert_eq!(response.headers()[RETRY_AFTER], "1");
        }
    }

    #[test]
    fn a_refusal_is_xml_of_any_text_and_not_modified_has_none() {
        let refusal = S3Error::new(Code::AccessDenied, "Access Denied").respond("");
        assert_eq!(refusal.headers()[CONTENT_TYPE], "application/xml");
        assert!(!S3Error::new(Code::NotModified, "").respond("").headers().contains_key(CONTENT_TYPE));
        assert_eq!(escaped("a\u{1b}[1m<b>&\u{ffff}"), "a\u{fffd}[1m&lt;b&gt;&amp;\u{fffd}");
    }
}
