//! Files: sources, MIME types, uploads, downloads, and redacted errors of object storage.

pub(crate) mod download;
pub(crate) mod mime;
pub(crate) mod source;
pub(crate) mod target;
pub(crate) mod upload;

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, StatusCode, Url};
use tokio::time::timeout;

use crate::transport::call::read_error_body;
use crate::transport::error::is_certificate_refused;
use crate::transport::redact::without_markup;
use crate::transport::{Deadline, FileError, FileErrorKind, Redactor, retry};

/// MIME type of a web page.
const HTML: &str = "text/html";

/// Longest message and code of an object store in an error, in characters.
const MAX_MESSAGE: usize = 300;
const MAX_CODE: usize = 80;

/// Error codes of an expired presigned target, whatever the status.
const EXPIRED_CODES: [&str; 3] = ["ExpiredToken", "RequestTimeTooSkewed", "AccessDenied"];

/// Error codes of transient failures, whatever the status.
const TRANSIENT_CODES: [&str; 2] = ["RequestTimeout", "SlowDown"];

fn web_url(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

async fn within<T>(
    file: &str,
    idle_timeout: Duration,
    work: impl Future<Output = reqwest::Result<T>>,
) -> Result<T, FileError> {
    match timeout(idle_timeout, work).await {
        Ok(done) => done.map_err(|error| transport(file, error)),
        Err(_) => Err(idle(file, idle_timeout)),
    }
}

fn idle(file: &str, timeout: Duration) -> FileError {
    let message = format!("nothing was transferred for {:.1} s", timeout.as_secs_f64());
    FileError::new(file, FileErrorKind::Transport, message)
}

fn transport(file: &str, error: reqwest::Error) -> FileError {
    let error = error.without_url();
    let (kind, message) = if error.is_builder() {
        (FileErrorKind::Rejected, "the request cannot be sent")
    } else if is_certificate_refused(&error) {
        (FileErrorKind::CertificateRefused, "the certificate of object storage is refused")
    } else if error.is_connect() {
        (FileErrorKind::Transport, "object storage cannot be reached")
    } else {
        (FileErrorKind::Transport, "the connection to object storage was lost")
    };
    FileError::new(file, kind, message).with_source(error)
}

/// Returns the failure of a success that is a web page: a gateway responds in place of object storage.
fn web_page(file: &str, response: &Response) -> Option<FileError> {
    let mime = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let is_page = mime.get(..HTML.len()).is_some_and(|start| start.eq_ignore_ascii_case(HTML));
    let message = "a web page came in place of a response of object storage";
    is_page.then(|| FileError::new(file, FileErrorKind::Transport, message))
}

async fn rejected(file: &str, response: Response, redactor: &Redactor) -> FileError {
    let status = response.status();
    let retry_after = retry::retry_after(response.headers());
    // The caller bounds the whole exchange by its own deadline.
    let body = read_error_body(response, Deadline::never()).await;
    let (code, message) = parse(&String::from_utf8_lossy(&body));
    let kind = kind(status, &code);
    let message = redactor.foreign(&message, MAX_MESSAGE);
    let mut text = format!("object storage responded with {}", status.as_u16());
    if status.is_redirection() {
        text.push_str(", and this redirect is not followed");
    }
    if !code.is_empty() {
        text.push_str(&format!(" ({})", redactor.foreign(&code, MAX_CODE)));
    }
    if !message.is_empty() {
        text.push_str(&format!(": {message}"));
    }
    let error = FileError::new(file, kind, text);
    FileError { status: Some(status.as_u16()), retry_after, ..error }
}

fn kind(status: StatusCode, code: &str) -> FileErrorKind {
    if TRANSIENT_CODES.contains(&code) || status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
        FileErrorKind::Transport
    } else if status == StatusCode::FORBIDDEN || (status.is_client_error() && EXPIRED_CODES.contains(&code)) {
        FileErrorKind::Forbidden
    } else {
        FileErrorKind::Rejected
    }
}

/// Returns code and message of an XML error; any other body is the message, an HTML page by its title.
fn parse(body: &str) -> (String, String) {
    match (element(body, "Code"), element(body, "Message")) {
        (None, None) => (String::new(), without_markup(body).into_owned()),
        (code, message) => (code.unwrap_or_default(), message.unwrap_or_default()),
    }
}

/// Returns the text of the first element of this name. Such an error needs no XML parser.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let escapes =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#34;", "\""), ("&#39;", "'")];
    let text = escapes.iter().fold(text.to_owned(), |text, (escape, c)| text.replace(escape, c));
    // Last, so that nothing is unescaped twice.
    Some(text.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_and_the_message_of_a_store_are_parsed() {
        let body = "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>Invalid according \
            to Policy: &quot;Policy expired&quot; &amp;lt;</Message><RequestId>1</RequestId></Error>";
        let message = "Invalid according to Policy: \"Policy expired\" &lt;";
        assert_eq!(parse(body), ("AccessDenied".to_owned(), message.to_owned()));
        assert_eq!(parse("<html>502</html>"), (String::new(), "an HTML page".to_owned()));
        assert_eq!(parse("busy"), (String::new(), "busy".to_owned()));
    }

    #[test]
    fn status_and_code_decide_what_a_failure_is() {
        let of = |status: u16, code: &str| StatusCode::from_u16(status).map(|status| kind(status, code)).ok();
        for status in [408, 429, 500, 501, 502, 503, 504, 599] {
            assert_eq!(of(status, ""), Some(FileErrorKind::Transport), "{status}");
        }
        for status in [301, 307, 400, 401, 404, 409, 411, 412, 413] {
            assert_eq!(of(status, "EntityTooLarge"), Some(FileErrorKind::Rejected), "{status}");
        }
        assert_eq!(of(403, "SignatureDoesNotMatch"), Some(FileErrorKind::Forbidden));
        assert_eq!(of(400, "ExpiredToken"), Some(FileErrorKind::Forbidden));
        assert_eq!(of(400, "RequestTimeout"), Some(FileErrorKind::Transport));
    }
}
