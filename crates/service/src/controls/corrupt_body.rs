//! Faults that corrupt a response body: cut it off, slow it down, or change one field.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::Response;
use axum::http::header::CONTENT_LENGTH;
use futures_util::{StreamExt, stream};
use inferstore_server::HangUp;
use serde_json::value::RawValue;

use super::{Effect, Fault};

impl Fault {
    pub(super) async fn corrupt_body(&self, response: Response<Body>) -> Response<Body> {
        let (mut parts, body) = response.into_parts();
        // The response to a HEAD request has a `Content-Length`, but no body.
        if body.is_end_stream() {
            return Response::from_parts(parts, body);
        }
        let bytes = self.bytes.unwrap_or(1);
        // A stream has no exact length, so the response keeps the `Content-Length` of the original body.
        let length = body.size_hint().exact();
        let (body, length) = match self.effect {
            Effect::CutBody => (cut(body, bytes), length),
            Effect::DripBody => {
                (drip(body, bytes, Duration::from_millis(self.pause_ms.unwrap_or(0))), length)
            }
            _ => {
                let body = self.with_field(body).await;
                let length = body.len() as u64;
                (Body::from(body), Some(length))
            }
        };
        if let Some(length) = length {
            parts.headers.insert(CONTENT_LENGTH, length.into());
        }
        Response::from_parts(parts, body)
    }

    async fn with_field(&self, body: Body) -> Bytes {
        let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let Ok(text) = std::str::from_utf8(&bytes) else { return bytes };
        let Some(field) = field_at(text, self.field.as_deref().unwrap_or_default()) else { return bytes };
        // The rest of the body stays byte for byte, so that no number loses a digit.
        let start = field.as_ptr().addr() - text.as_ptr().addr();
        let value = self.value.clone().unwrap_or_default();
        let rest = &text[start + field.len()..];
        format!("{}{value}{rest}", &text[..start]).into()
    }
}

fn field_at<'a>(mut text: &'a str, pointer: &str) -> Option<&'a str> {
    for name in pointer.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let field = if text.starts_with('[') {
            serde_json::from_str::<Vec<&RawValue>>(text).ok()?.get(name.parse::<usize>().ok()?).copied()
        } else {
            serde_json::from_str::<HashMap<String, &RawValue>>(text).ok()?.get(&name).copied()
        };
        text = field?.get();
    }
    Some(text)
}

fn cut(body: Body, after: u64) -> Body {
    let left = usize::try_from(after).unwrap_or(usize::MAX);
    let ended = (body.into_data_stream(), Some(left));
    Body::from_stream(stream::unfold(ended, |(mut body, left)| async move {
        let left = left?;
        if left == 0 {
            // The sleep lets the chunks sent so far leave before the connection is closed.
            tokio::time::sleep(Duration::from_millis(5)).await;
            return Some((Err(axum::Error::new(HangUp)), (body, None)));
        }
        match body.next().await? {
            Ok(mut chunk) => {
                chunk.truncate(left);
                let left = left - chunk.len();
                Some((Ok(chunk), (body, Some(left))))
            }
            Err(cause) => Some((Err(cause), (body, None))),
        }
    }))
}

fn drip(body: Body, bytes: u64, pause: Duration) -> Body {
    let size = usize::try_from(bytes).unwrap_or(usize::MAX).max(1);
    let begun = (body.into_data_stream(), Bytes::new());
    Body::from_stream(stream::unfold(begun, move |(mut body, mut rest)| async move {
        while rest.is_empty() {
            match body.next().await? {
                Ok(chunk) => rest = chunk,
                Err(cause) => return Some((Err(cause), (body, rest))),
            }
        }
        tokio::time::sleep(pause).await;
        let drop = rest.split_to(size.min(rest.len()));
        Some((Ok(drop), (body, rest)))
    }))
}
