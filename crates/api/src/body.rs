//! Response bodies: size limit and decoding.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use progenitor_client::{Error as ClientError, ResponseValue};
use reqwest::{Response, ResponseBuilderExt};
use serde::de::DeserializeOwned;

use crate::client::Observer;
use crate::types::Failure;

/// Largest response body that a [`Client`](crate::Client) reads, in bytes, unless
/// [`with_max_response_body`](crate::Client::with_max_response_body) sets another limit.
pub const MAX_RESPONSE_BODY: u64 = 16 * 1024 * 1024;

/// Decodes the body of a response. Validates UTF-8 once, which is faster than once per string.
pub(crate) async fn read<T: DeserializeOwned>(
    response: Response,
) -> Result<ResponseValue<T>, ClientError<()>> {
    let (status, headers) = (response.status(), response.headers().clone());
    let observer = response.extensions().get::<Observer>().cloned();
    let body = response.bytes().await.map_err(ClientError::ResponseBodyError)?;
    // Before decoding, because a different type may make decoding fail.
    if let Some(observer) = observer {
        observer.see(&body);
    }
    let value = match str::from_utf8(&body) {
        Ok(text) => serde_json::from_str(text),
        // serde_json reports the position of the invalid UTF-8.
        Err(_) => serde_json::from_slice(&body),
    };
    match value {
        Ok(value) => Ok(ResponseValue::new(value, status, headers)),
        Err(error) => Err(ClientError::InvalidResponsePayload(body, error)),
    }
}

/// Returns the failure that the service describes in the body of an unexpected response; other errors and pages
/// of a gateway have none. Read [`Error::status`](crate::Error::status) before, because this call consumes the
/// error.
pub async fn failure(error: ClientError<()>) -> Option<Failure> {
    let ClientError::UnexpectedResponse(response) = error else { return None };
    serde_json::from_slice(&response.bytes().await.ok()?).ok()
}

/// Returns the response with a body that fails beyond `limit` bytes.
pub(crate) fn limited(response: Response, limit: u64) -> Response {
    // HTTP enforces the declared length.
    if response.content_length().is_some_and(|length| length <= limit) {
        return response;
    }
    let url = response.url().clone();
    let mut response = http::Response::<reqwest::Body>::from(response)
        .map(|body| reqwest::Body::wrap(LimitedBody { body, limit, left: limit }));
    // The conversion loses the URL; an extension carries it.
    if let Ok(carrier) = http::Response::builder().url(url).body(()) {
        response.extensions_mut().extend(carrier.into_parts().0.extensions);
    }
    response.into()
}

/// Body that fails beyond a number of bytes, at once if its declared length is larger.
struct LimitedBody {
    body: reqwest::Body,
    limit: u64,
    left: u64,
}

impl Body for LimitedBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let too_large = BodyTooLarge { limit: self.limit };
        if self.body.size_hint().lower() > self.left {
            return Poll::Ready(Some(Err(too_large.into())));
        }
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else { return Poll::Ready(None) };
        let frame = frame?;
        let length = frame.data_ref().map_or(0, Bytes::len);
        match self.left.checked_sub(u64::try_from(length).unwrap_or(u64::MAX)) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Some(Err(too_large.into()))),
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Response body above the limit. Among the sources of the error of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyTooLarge {
    limit: u64,
}

impl BodyTooLarge {
    /// Returns the limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

impl Error for BodyTooLarge {}

impl fmt::Display for BodyTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the response body is larger than the limit of {} bytes", self.limit)
    }
}
