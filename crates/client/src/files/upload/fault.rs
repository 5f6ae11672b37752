//! How an exchange with object storage fails, in words that grant nothing, and whether to try again.

use std::time::Duration;

use reqwest::{Response, StatusCode};

use crate::client::Inner;
use crate::files::source::{trouble, trouble_from};
use crate::transport::call::beginning;
use crate::transport::deadline::Deadline;
use crate::transport::error::Error;
use crate::transport::retry;
use crate::transport::text::{cut, innermost, one_line};

/// How much of a refusal is read to find its message.
const READ_OF_A_REFUSAL: usize = 16 * 1024;

/// How much of a message is shown.
const SHOWN: usize = 300;

/// Codes with which stores say that a target is no longer valid, whatever the status.
const EXPIRED: [&str; 3] = ["ExpiredToken", "RequestTimeTooSkewed", "AccessDenied"];

/// Codes of failures that pass although their status says otherwise.
const PASSING: [&str; 2] = ["RequestTimeout", "SlowDown"];

/// Why an attempt failed.
pub(crate) enum Failed {
    /// Because of the network or the store.
    There(Fault),
    /// Because of a file on this side. Nothing more can be tried.
    Here(Error),
}

/// A failed exchange.
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) problem: String,
    retry_after: Option<Duration>,
    source: Option<reqwest::Error>,
}

/// What a failure means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The same again may work.
    Passing,
    /// The permission has expired, or never was one.
    Forbidden,
    /// The same again would fail the same way.
    Final,
}

impl Fault {
    pub(crate) fn new(kind: Kind, problem: impl Into<String>) -> Self {
        Self { kind, problem: problem.into(), retry_after: None, source: None }
    }

    /// Nothing moved for too long.
    pub(crate) fn standstill(idle: Duration) -> Self {
        Self::new(Kind::Passing, format!("nothing moved for {:.1} s", idle.as_secs_f64()))
    }

    /// No answer, or no whole one.
    pub(crate) fn transport(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let kind = if error.is_builder() { Kind::Final } else { Kind::Passing };
        let what =
            if error.is_connect() { "object storage cannot be reached" } else { "the connection was lost" };
        let problem = format!("{what}: {}", innermost(&error));
        Self { source: Some(error), ..Self::new(kind, problem) }
    }

    /// A refusal. `mask` takes out what grants access.
    pub(crate) async fn answered(response: Response, mask: impl Fn(&str) -> String) -> Self {
        let status = response.status();
        let retry_after = retry::retry_after(response.headers());
        // Whatever talks to object storage is cut at its deadline as a whole.
        let refusal = Refusal::read(&beginning(response, READ_OF_A_REFUSAL, Deadline::never()).await);
        let kind = refusal.kind(status);
        let problem = format!("object storage answered {}{}", status.as_u16(), refusal.shown(mask));
        Self { retry_after, ..Self::new(kind, problem) }
    }

    /// How long to wait before it is tried again, or `None` if it must not be, or there is no time.
    pub(crate) fn pause_before_repeat(
        &self,
        client: &Inner,
        attempts: u32,
        deadline: Deadline,
    ) -> Option<Duration> {
        let may_help = self.kind != Kind::Final;
        may_help.then(|| client.pause_before_repeat(attempts, self.retry_after, deadline))?
    }

    /// The failure as an error about `file`, with what to try.
    pub(crate) fn about(self, file: &str, advice: &str) -> Error {
        let problem = format!("{}; {advice}", self.problem);
        match self.source {
            Some(source) => trouble_from(file, problem, source),
            None => trouble(file, problem),
        }
    }
}

/// What a store says about a refusal.
struct Refusal {
    code: Option<String>,
    message: Option<String>,
}

impl Refusal {
    /// Reads the XML of object storage; of anything else, its beginning.
    fn read(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let code = element(&text, "Code");
        let message = element(&text, "Message").or_else(|| code.is_none().then(|| text.into_owned()));
        Self {
            code,
            message: message.map(|message| one_line(&message)).filter(|message| !message.is_empty()),
        }
    }

    fn kind(&self, status: StatusCode) -> Kind {
        let code = self.code.as_deref().unwrap_or_default();
        if PASSING.contains(&code) || status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
            Kind::Passing
        } else if status == StatusCode::FORBIDDEN || (status.is_client_error() && EXPIRED.contains(&code)) {
            Kind::Forbidden
        } else {
            Kind::Final
        }
    }

    fn shown(&self, mask: impl Fn(&str) -> String) -> String {
        let code = self.code.as_ref().map(|code| format!(" ({})", mask(code))).unwrap_or_default();
        // Cut only after masking: half a secret is not found.
        let message = self.message.as_ref().map(|message| format!(": {}", cut(&mask(message), SHOWN)));
        format!("{code}{}", message.unwrap_or_default())
    }
}

/// The text of the first element of this name. A refusal is too simple for a parser of XML.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let escapes =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#34;", "\""), ("&#39;", "'")];
    let text = escapes.iter().fold(text.to_owned(), |text, (escape, c)| text.replace(escape, c));
    // Last, so that nothing is resolved twice.
    Some(text.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRED_POLICY: &str = "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>Invalid according \
        to Policy: &quot;Policy expired&quot; &amp;lt;</Message><RequestId>1</RequestId></Error>";

    #[test]
    fn a_refusal_of_a_store_is_read() {
        let refusal = Refusal::read(EXPIRED_POLICY.as_bytes());
        let shown = refusal.shown(str::to_owned);
        assert_eq!(shown, " (AccessDenied): Invalid according to Policy: \"Policy expired\" &lt;");
        assert_eq!(refusal.kind(StatusCode::FORBIDDEN), Kind::Forbidden);
        assert_eq!(Refusal::read(b" <html>\n502 </html>").shown(str::to_owned), ": <html> 502 </html>");
        assert_eq!(Refusal::read(b"").shown(str::to_owned), "");
    }

    #[test]
    fn a_long_message_is_cut_after_masking() {
        let body = format!("{}SECRET", "x".repeat(SHOWN - 3));
        let shown = Refusal::read(body.as_bytes()).shown(|text| text.replace("SECRET", "…"));
        assert!(!shown.contains("SEC"), "{shown}");
    }

    #[test]
    fn status_and_code_decide_what_comes_next() {
        let kind = |status: u16, code: &str| {
            let refusal = Refusal::read(format!("<Error><Code>{code}</Code></Error>").as_bytes());
            StatusCode::from_u16(status).map(|status| refusal.kind(status)).ok()
        };
        for status in [408, 429, 500, 501, 502, 503, 504, 599] {
            assert_eq!(kind(status, ""), Some(Kind::Passing), "{status}");
        }
        for status in [301, 307, 400, 401, 404, 409, 411, 412, 413] {
            assert_eq!(kind(status, "EntityTooLarge"), Some(Kind::Final), "{status}");
        }
        assert_eq!(kind(403, "SignatureDoesNotMatch"), Some(Kind::Forbidden));
        assert_eq!(kind(400, "ExpiredToken"), Some(Kind::Forbidden));
        assert_eq!(kind(400, "RequestTimeout"), Some(Kind::Passing));
    }
}
