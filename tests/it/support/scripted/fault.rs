//! The ways in which the service misbehaves on request, and what each does to an exchange.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{Answer, Delivery};
use super::http::Ending;

/// One misbehavior. "Committed" means that the request took effect: the task exists, the file is
/// stored, the read was counted.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The connection is reset before the service looks at the request. Told of `Route::Any`, it may
    /// also end a new connection on which nothing was sent yet.
    CloseBeforeReading,
    /// The service reads the headers and closes.
    CloseAfterHeaders,
    /// The service reads half of the body and closes.
    CloseMidBody,
    /// The service reads all and closes; not committed.
    CloseAfterRequest,
    /// The request is committed, and its answer is lost.
    CloseAfterCommit,
    /// As `CloseAfterRequest`, with a reset.
    ResetAfterRequest,
    /// As `CloseAfterCommit`, with a reset.
    ResetAfterCommit,
    /// The service reads all and never answers; not committed.
    Stall,
    /// The request is committed, and the service never answers.
    StallAfterCommit,
    /// The service reads all and closes, and the request is committed this many milliseconds later, as
    /// behind a gateway that has given up.
    CommitAfterCloseMs(u64),
    /// Committed; the answer announces its whole length and stops after half of it.
    CutBody,
    /// Committed; the answer is the first half of the right one, and announces no more than that.
    Garble,
    /// Committed at once; the answer comes this many milliseconds later.
    DelayMs(u64),
    /// Committed; the body of the answer comes byte by byte, this many milliseconds apart.
    DripMs(u64),
    /// A status with a body of its own, committed or not.
    Status { code: u16, headers: Vec<(String, String)>, content_type: String, body: String, committed: bool },
    /// `200` with an envelope that says `fail` and this message; not committed.
    FailEnvelope(String),
    /// Committed; a task that is read has the status `migrating`, and no result. Other answers are
    /// as they would be.
    UnknownStatus,
    /// `307` to this address; not committed.
    Redirect { location: String },
}

impl Fault {
    /// A failure as the service tells it: a status and a JSON body; not committed.
    pub(crate) fn failure(code: u16, message: &str) -> Self {
        let body = json!({"status": "fail", "message": message}).to_string();
        Self::status(code, &[], "application/json", body)
    }

    /// `429`, with the time to wait as the header has it: seconds or a date; not committed.
    pub(crate) fn too_many_requests(retry_after: &str) -> Self {
        let body = json!({"status": "fail", "message": "too many requests"}).to_string();
        Self::status(429, &[("retry-after", retry_after)], "application/json", body)
    }

    /// The page of a gateway in front of the service; not committed.
    pub(crate) fn html_page(code: u16) -> Self {
        let body = format!("<html><body><h1>{code}</h1><p>scripted gateway</p></body></html>");
        Self::status(code, &[], "text/html", body)
    }

    /// Any status, headers and body; not committed.
    pub(crate) fn status(code: u16, headers: &[(&str, &str)], content_type: &str, body: String) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let content_type = content_type.to_owned();
        Self::Status { code, headers: headers.collect(), content_type, body, committed: false }
    }

    /// This fault, the next so many times.
    pub(crate) fn times(self, times: usize) -> Repeated {
        Repeated { fault: self, left: Some(times) }
    }

    /// This fault, from now on.
    pub(crate) fn always(self) -> Repeated {
        Repeated { fault: self, left: None }
    }

    /// How the exchange ends at this moment, if it does.
    pub(super) fn ends_at(&self, moment: Moment) -> Option<Ending> {
        let (at, ending) = match self {
            Self::CloseBeforeReading => (Moment::BeforeReading, Ending::Reset),
            Self::CloseAfterHeaders => (Moment::AfterHeaders, Ending::Close),
            Self::CloseMidBody => (Moment::MidBody, Ending::Close),
            Self::CloseAfterRequest | Self::CommitAfterCloseMs(_) => (Moment::AfterRequest, Ending::Close),
            Self::ResetAfterRequest => (Moment::AfterRequest, Ending::Reset),
            Self::Stall => (Moment::AfterRequest, Ending::Stall),
            Self::CloseAfterCommit => (Moment::AfterCommit, Ending::Close),
            Self::ResetAfterCommit => (Moment::AfterCommit, Ending::Reset),
            Self::StallAfterCommit => (Moment::AfterCommit, Ending::Stall),
            _ => return None,
        };
        (at == moment).then_some(ending)
    }

    /// The answer to a request that must not take effect, if this is such a fault.
    pub(super) fn refusal(&self) -> Option<Answer> {
        match self {
            Self::Status { committed: false, .. } => self.status_answer(),
            Self::FailEnvelope(message) => Some(Answer::failure(200, message)),
            Self::Redirect { location } => Some(Answer::empty(307).with_header("location", location)),
            _ => None,
        }
    }

    /// What becomes of the right answer.
    pub(super) fn distort(&self, answer: Answer) -> Answer {
        match self {
            Self::Status { committed: true, .. } => self.status_answer().unwrap_or(answer),
            Self::Garble => Answer { body: answer.body.first_half(), ..answer },
            Self::UnknownStatus => with_unknown_status(answer),
            _ => answer,
        }
    }

    pub(super) fn delivery(&self) -> Delivery {
        match self {
            Self::CutBody => Delivery::FirstHalf,
            Self::DripMs(pause) => Delivery::Dripping(Duration::from_millis(*pause)),
            _ => Delivery::Whole,
        }
    }

    pub(super) fn delay(&self) -> Duration {
        match self {
            Self::DelayMs(delay) => Duration::from_millis(*delay),
            _ => Duration::ZERO,
        }
    }

    fn status_answer(&self) -> Option<Answer> {
        let Self::Status { code, headers, content_type, body, .. } = self else { return None };
        let answer = Answer::new(*code, content_type, body.as_str());
        Some(headers.iter().fold(answer, |answer, (name, value)| answer.with_header(name, value)))
    }
}

/// A fault and how often it is still to happen; always, when `left` is none.
pub(crate) struct Repeated {
    pub(super) fault: Fault,
    pub(super) left: Option<usize>,
}

impl From<Fault> for Repeated {
    fn from(fault: Fault) -> Self {
        fault.times(1)
    }
}

/// When a connection can end in an exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    BeforeReading,
    AfterHeaders,
    MidBody,
    AfterRequest,
    AfterCommit,
}

/// Only an envelope around a task has a status to change.
fn with_unknown_status(answer: Answer) -> Answer {
    let Ok(mut envelope) = serde_json::from_slice::<Value>(&answer.body.bytes()) else { return answer };
    if envelope["data"]["task_id"].is_null() {
        return answer;
    }
    for (field, value) in [
        ("status", json!("migrating")),
        ("result", Value::Null),
        ("cost", Value::Null),
        ("message", Value::Null),
    ] {
        envelope["data"][field] = value;
    }
    Answer { body: envelope.to_string().as_str().into(), ..answer }
}
