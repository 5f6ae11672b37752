//! The JSON of a record as the service wrote it: every digit, and fields that this version does not know.

use std::cell::RefCell;

use inferstore::Error;
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Request, Response};
use inferstore_api::{Envelope, MAX_RESPONSE_BODY};
use serde_json::value::RawValue;

tokio::task_local! {
    /// The payload of the response to the call under way.
    static PAYLOAD: RefCell<Option<Box<RawValue>>>;
}

/// Returns the record that a call reads, with its JSON. The JSON is empty unless the client has the middleware.
pub(crate) async fn with_json<T>(call: impl Future<Output = Result<T, Error>>) -> Result<(T, String), Error> {
    let recorded = async {
        let record = call.await?;
        let payload = PAYLOAD.with(RefCell::take);
        Ok((record, payload.map(|payload| payload.to_string()).unwrap_or_default()))
    };
    PAYLOAD.scope(RefCell::default(), recorded).await
}

/// Middleware that keeps the payload for [`with_json`].
pub(crate) struct PayloadRecorder;

impl Middleware for PayloadRecorder {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            let mut response = next.run(request).await?;
            if PAYLOAD.try_with(|_| ()).is_err() || !response.status().is_success() {
                return Ok(response);
            }
            let mut body = Vec::new();
            // A longer body stays too long for the client, which refuses it.
            while body.len() as u64 <= MAX_RESPONSE_BODY
                && let Some(chunk) = response.chunk().await?
            {
                body.extend_from_slice(&chunk);
            }
            let envelope = serde_json::from_slice::<Envelope<Option<Box<RawValue>>>>(&body).ok();
            PAYLOAD.with(|payload| payload.replace(envelope.and_then(|envelope| envelope.data)));
            Ok(http::Response::from(response).map(|_| body).into())
        })
    }
}
