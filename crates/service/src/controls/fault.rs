//! Faults: the requests that a fault applies to, the number of times, and its effect.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Operation;
use super::endpoint::never_met;

/// A fault for later requests.
///
/// ```
/// use inferstore_api::operations;
/// use inferstore_service::{Fault, Operation};
/// use std::time::Duration;
///
/// Fault::lose_response().on(operations::CREATE_TASK).once();
/// Fault::status(429).retry_after(2).on(operations::GET_TASK).times(3);
/// Fault::hang_up().with_probability(0.2);
/// Fault::drip_body(1, Duration::from_millis(5)).on(Operation::GET_OBJECT);
/// ```
///
/// A fault without operation, side, method and path applies to every request. Without `times`, the fault applies until
/// it is cleared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) operation: Option<Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) side: Option<Side>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    pub(super) effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after: Option<u32>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) after_commit: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pause_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probability: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) times: Option<u64>,
}

/// Effect of a fault on a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// Delays the response, before or after the service executes the request.
    #[default]
    Delay,
    /// Replaces the status of the response, before or after the service executes the request.
    Status,
    /// Closes the connection without executing the request.
    HangUp,
    /// Executes the request, and closes the connection before the response.
    LoseResponse,
    /// Executes the request, and closes the connection within the response body.
    CutBody,
    /// Executes the request, and sends the response body slowly in small chunks.
    DripBody,
    /// Executes the request, and replaces one field of the response.
    SetField,
}

/// Part of the service that receives a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The API.
    Api,
    /// The object store.
    Objects,
}

impl Side {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Objects => "objects",
        }
    }
}

impl Fault {
    fn new(effect: Effect) -> Self {
        Self { effect, ..Self::default() }
    }

    /// Delays the response.
    pub fn delay(by: Duration) -> Self {
        Self::new(Effect::Delay).delayed(by)
    }

    /// Responds with this status without executing the request.
    pub fn status(status: u16) -> Self {
        Self { status: Some(status), ..Self::new(Effect::Status) }
    }

    /// Closes the connection without executing the request.
    pub fn hang_up() -> Self {
        Self::new(Effect::HangUp)
    }

    /// Executes the request and loses the response.
    pub fn lose_response() -> Self {
        Self::new(Effect::LoseResponse)
    }

    /// Ends the response body after this many bytes, short of its `Content-Length`.
    pub fn cut_body(after: u64) -> Self {
        Self { bytes: Some(after), ..Self::new(Effect::CutBody) }
    }

    /// Sends the response body in chunks of this many bytes, with a pause between them.
    pub fn drip_body(bytes: u64, pause: Duration) -> Self {
        Self { bytes: Some(bytes), pause_ms: Some(milliseconds(pause)), ..Self::new(Effect::DripBody) }
    }

    /// Replaces the field at a JSON pointer, such as `/data/status`. Responses without the field stay unchanged.
    pub fn set_field(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { field: Some(field.into()), value: Some(value.into()), ..Self::new(Effect::SetField) }
    }

    /// Restricts the fault to requests for this operation.
    #[must_use]
    pub fn on(self, operation: impl Into<Operation>) -> Self {
        Self { operation: Some(operation.into()), ..self }
    }

    /// Restricts the fault to requests to the API, or to the object store.
    #[must_use]
    pub fn at(self, side: Side) -> Self {
        Self { side: Some(side), ..self }
    }

    /// Restricts the fault to this method and path (template or concrete path, always without `/api/v1`).
    #[must_use]
    pub fn on_path(self, method: &str, path: &str) -> Self {
        Self { method: Some(method.to_owned()), path: Some(path.to_owned()), ..self }
    }

    /// Sets the message of a status fault.
    #[must_use]
    pub fn message(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    /// Sets the `Retry-After` header of a status fault, in seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Adds a header to a status fault.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sets the body of a status fault instead of an error of the service, such as a gateway's error page.
    #[must_use]
    pub fn body(self, content_type: &str, body: impl Into<String>) -> Self {
        Self { body: Some(body.into()), ..self.header("content-type", content_type) }
    }

    /// Executes the request before a status fault or a delay.
    #[must_use]
    pub fn after_commit(self) -> Self {
        Self { after_commit: true, ..self }
    }

    /// Delays the effect of the fault.
    #[must_use]
    pub fn delayed(self, by: Duration) -> Self {
        Self { delay_ms: Some(milliseconds(by)), ..self }
    }

    /// Applies the fault to matching requests with this probability from 0 to 1.
    #[must_use]
    pub fn with_probability(self, probability: f64) -> Self {
        Self { probability: Some(probability), ..self }
    }

    /// Applies the fault to this number of matching requests.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Applies the fault to the next matching request.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    pub(super) fn mistake(&self) -> Option<String> {
        let is_status = self.effect == Effect::Status;
        let given = [
            ("status", self.status.is_some(), is_status),
            ("message", self.message.is_some(), is_status),
            ("retry_after", self.retry_after.is_some(), is_status),
            ("headers", !self.headers.is_empty(), is_status),
            ("body", self.body.is_some(), is_status),
            ("after_commit", self.after_commit, is_status || self.effect == Effect::Delay),
            ("bytes", self.bytes.is_some(), matches!(self.effect, Effect::CutBody | Effect::DripBody)),
            ("pause_ms", self.pause_ms.is_some(), self.effect == Effect::DripBody),
            ("field", self.field.is_some(), self.effect == Effect::SetField),
            ("value", self.value.is_some(), self.effect == Effect::SetField),
        ];
        if let Some((name, ..)) = given.iter().find(|(_, given, fits)| *given && !fits) {
            return Some(format!("{name} does not go with this effect"));
        }
        let is_pointer = self.field.as_ref().is_some_and(|field| field.starts_with('/'));
        let needed = [
            (
                "status, from 200 to 599",
                is_status && !self.status.is_some_and(|status| (200..600).contains(&status)),
            ),
            ("bytes, from 0", matches!(self.effect, Effect::CutBody) && self.bytes.is_none()),
            ("bytes, from 1", self.effect == Effect::DripBody && self.bytes.unwrap_or(0) == 0),
            ("pause_ms, from 0", self.effect == Effect::DripBody && self.pause_ms.is_none()),
            ("delay_ms, from 0", self.effect == Effect::Delay && self.delay_ms.is_none()),
            ("field, a JSON pointer such as /data/status", self.effect == Effect::SetField && !is_pointer),
        ];
        if let Some((needed, _)) = needed.iter().find(|(_, is_missing)| *is_missing) {
            return Some(format!("this effect needs {needed}"));
        }
        if self.times == Some(0) {
            return Some("times must be at least 1".to_owned());
        }
        if self.probability.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
            return Some("probability must lie between 0 and 1".to_owned());
        }
        let odd = |(name, value): (&String, &String)| {
            HeaderName::try_from(name).is_err() || HeaderValue::try_from(value).is_err()
        };
        if self.headers.iter().any(odd) {
            return Some("headers must be names and values that HTTP knows".to_owned());
        }
        never_met(self)
    }

    pub(super) fn code(&self) -> StatusCode {
        self.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or_default()
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
