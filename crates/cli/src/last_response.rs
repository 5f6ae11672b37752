//! Middleware that keeps the last response of the API, so that `--format json` prints what the service
//! wrote: every digit, and fields that this version does not know.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Method, Request, Response};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The header of the API key. Requests to object storage do not have it.
const API_KEY_HEADER: &str = "x-api-key";

/// The end of the path that deletes a file.
const DELETE_FILE: &str = "/api-key/storage/store/url";

/// The largest response of the API, as in the client.
pub(crate) const MAX_RESPONSE: u64 = 16 * 1024 * 1024;

/// The last successful response of the API. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct LastResponse(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    payload: Option<Box<RawValue>>,
    date: Option<SystemTime>,
}

#[derive(Deserialize)]
struct Envelope {
    data: Option<Box<RawValue>>,
}

impl LastResponse {
    /// The payload, which is then no longer kept.
    pub(crate) fn take(&self) -> Option<Box<RawValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).payload.take()
    }

    /// The time of the service at that response.
    pub(crate) fn date(&self) -> Option<SystemTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).date
    }

    fn keep_date(&self, response: &Response) {
        let date = response.headers().get("date").and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).date = date;
    }

    fn store(&self, body: &[u8]) {
        let payload = serde_json::from_slice::<Envelope>(body).ok().and_then(|envelope| envelope.data);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).payload = payload;
    }
}

impl Middleware for LastResponse {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        // A run deletes its inputs after it has read the task, which is what it reports.
        let is_delete = request.method() == Method::DELETE && request.url().path().ends_with(DELETE_FILE);
        let is_kept = request.headers().contains_key(API_KEY_HEADER) && !is_delete;
        Box::pin(async move {
            let mut response = next.run(request).await?;
            if !is_kept || !response.status().is_success() {
                return Ok(response);
            }
            self.keep_date(&response);
            let mut body = Vec::new();
            // A longer body stays too long for the client, which refuses it.
            while body.len() as u64 <= MAX_RESPONSE
                && let Some(chunk) = response.chunk().await?
            {
                body.extend_from_slice(&chunk);
            }
            self.store(&body);
            Ok(http::Response::from(response).map(|_| body).into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LastResponse;

    #[test]
    fn the_payload_keeps_every_digit_and_is_taken_once() {
        let last = LastResponse::default();
        last.store(br#"{"status":"success","data":{"cost":1.50000000000000000001, "new":[ ]}}"#);
        let payload = last.take().map(|payload| payload.to_string());
        assert_eq!(payload.as_deref(), Some(r#"{"cost":1.50000000000000000001, "new":[ ]}"#));
        assert!(last.take().is_none());
    }

    #[test]
    fn a_response_without_a_payload_replaces_the_one_before() {
        for body in [&br#"{"status":"success"}"#[..], b"<html>"] {
            let last = LastResponse::default();
            last.store(br#"{"status":"success","data":1}"#);
            last.store(body);
            assert!(last.take().is_none());
        }
    }
}
