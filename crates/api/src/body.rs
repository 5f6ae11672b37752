//! Response bodies: the limit on their size, and how they are read.

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

/// The largest response body that a [`Client`](crate::Client) reads, in bytes, unless
/// [`with_max_response_body`](crate::Client::with_max_response_body) sets another limit.
pub const MAX_RESPONSE_BODY: u64 = 16 * 1024 * 1024;

/// Reads the body of a response. Its text is checked once, which is faster than for each string in it.
pub(crate) async fn read<T: DeserializeOwned>(
    response: Response,
) -> Result<ResponseValue<T>, ClientError<()>> {
    let (status, headers) = (response.status(), response.headers().clone());
    let observer = response.extensions().get::<Observer>().cloned();
    let body = response.bytes().await.map_err(ClientError::ResponseBodyError)?;
    // Before it is decoded: a type that differs may be an error.
    if let Some(observer) = observer {
        observer.see(&body);
    }
    let value = match str::from_utf8(&body) {
        Ok(text) => serde_json::from_str(text),
        // It finds the place.
        Err(_) => serde_json::from_slice(&body),
    };
    match value {
        Ok(value) => Ok(ResponseValue::new(value, status, headers)),
        Err(error) => Err(ClientError::InvalidResponsePayload(body, error)),
    }
}

/// Returns the failure that the service describes in the body of an unexpected response. Other errors have none, nor
/// does the page of a gateway; ask for [`Error::status`](crate::Error::status) before.
pub async fn failure(error: ClientError<()>) -> Option<Failure> {
    let ClientError::UnexpectedResponse(response) = error else { return None };
    serde_json::from_slice(&response.bytes().await.ok()?).ok()
}

/// Returns the same response with a body that fails beyond `limit` bytes.
pub(crate) fn limited(response: Response, limit: u64) -> Response {
    // HTTP holds a body to the length that it declares.
    if response.content_length().is_some_and(|length| length <= limit) {
        return response;
    }
    let url = response.url().clone();
    let mut response = http::Response::<reqwest::Body>::from(response)
        .map(|body| reqwest::Body::wrap(LimitedBody { body, limit, left: limit }));
    // The conversion loses the URL, which an extension carries.
    if let Ok(carrier) = http::Response::builder().url(url).body(()) {
        response.extensions_mut().extend(carrier.into_parts().0.extensions);
    }
    response.into()
}

/// A body that fails beyond a number of bytes, without reading on; at once if it declares that it is longer.
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

/// A response body is larger than the limit. It is among the sources of the error of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyTooLarge {
    limit: u64,
}

impl BodyTooLarge {
    /// The limit, in bytes.
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
