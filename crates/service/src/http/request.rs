//! Request parameters: paths, queries and JSON bodies, with errors in the format of the API.

use std::fmt;
use std::num::IntErrorKind;
use std::time::Duration;

use axum::body::{Bytes, HttpBody as _};
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRef, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::{self, DeserializeOwned, Error as _, IgnoredAny, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;

use super::response::Failure;
use crate::config::Limits;

/// Limits of a JSON body. The layer `DefaultBodyLimit` of the router enforces the size.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimits {
    bytes: usize,
    time: Duration,
}

impl From<Limits> for BodyLimits {
    fn from(limits: Limits) -> Self {
        Self { bytes: limits.body, time: limits.body_time }
    }
}

pub(crate) async fn read_body(request: Request, limits: BodyLimits) -> Result<Bytes, Failure> {
    let too_large = || {
        let message = format!("the body is larger than {} bytes", limits.bytes);
        Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message))
    };
    // Before a client that expects `100 Continue` is told to send it.
    if request.body().size_hint().lower() > limits.bytes as u64 {
        return too_large();
    }
    match tokio::time::timeout(limits.time, Bytes::from_request(request, &())).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => too_large(),
        Ok(Err(_)) => Err(Failure::new(StatusCode::BAD_REQUEST, "the body was cut off")),
        Err(_) => Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive")),
    }
}

pub(crate) struct ApiJson<T> {
    pub(crate) value: T,
    pub(crate) text: String,
}

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for ApiJson<T>
where
    BodyLimits: FromRef<S>,
{
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        if !is_json(&request) {
            let message = "the body must be JSON, and the header content-type must say application/json";
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        if request.headers().contains_key(CONTENT_ENCODING) {
            let message = "the body must be sent without a content-encoding";
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let bytes = read_body(request, BodyLimits::from_ref(state)).await?;
        let text = String::from_utf8(bytes.into())
            .map_err(|_| Failure::new(StatusCode::BAD_REQUEST, "the body is not UTF-8"))?;
        // serde would also deserialize a struct from an array.
        let is_object = text.trim_start().starts_with('{');
        let no_object = || Failure::unprocessable("the body must be a JSON object");
        let mut reader = serde_json::Deserializer::from_str(&text);
        let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let place = error.path().to_string();
            let cause = error.into_inner();
            // serde_json reports a number instead of a string enum as a syntax error.
            let is_json = || serde_json::from_str::<IgnoredAny>(&text).is_ok();
            if cause.classify() != Category::Data && !is_json() {
                return not_json(&cause);
            }
            if !is_object {
                return no_object();
            }
            // serde_path_to_error names the root of the body ".".
            let place = if place == "." { "the body" } else { &place };
            Failure::unprocessable(format!("{place}: {}", in_words_of_json(&cause.to_string())))
        })?;
        reader.end().map_err(|cause| not_json(&cause))?;
        if !is_object {
            return Err(no_object());
        }
        Ok(Self { value, text })
    }
}

const EXPECTED: [(&str, &str); 6] = [
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0"),
    ("u64", "a whole number from 0"),
    ("i64", "a whole number"),
    ("f64", "a number"),
    ("a map", "an object"),
];

/// Rewrites a message of serde without Rust types and position. A value quoted from the request stays unchanged.
fn in_words_of_json(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    if let Some((place, rest)) = message.split_once("unknown variant ")
        && let Some((_, words)) = rest.rsplit_once(", expected one of ")
    {
        return format!("{place}must be one of {}", words.replace('`', ""));
    }
    if message == "expected value" {
        return "expected a string".to_owned();
    }
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let known = EXPECTED.iter().find(|(rust, _)| *rust == expected);
    format!("{found}, expected {}", known.map_or(expected, |(_, json)| *json))
}

fn not_json(cause: &serde_json::Error) -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {cause}"))
}

fn is_json(request: &Request) -> bool {
    let Some(Ok(kind)) = request.headers().get(CONTENT_TYPE).map(|value| value.to_str()) else {
        return false;
    };
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.starts_with("application/") && essence.ends_with("+json")
}

pub(crate) struct ApiQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        match Query::from_request_parts(parts, &()).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => {
                let message = rejection.body_text();
                let cause = message.strip_prefix("Failed to deserialize query string: ").unwrap_or(&message);
                Err(Failure::unprocessable(format!("the query: {}", in_words_of_json(cause))))
            }
        }
    }
}

pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A whole number of any size, so that an error can state the allowed range. Numbers beyond 128 bits are clamped.
#[derive(Clone, Copy)]
pub(crate) struct Whole(pub(crate) i128);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E>(self, number: i64) -> Result<Whole, E> {
        Ok(Whole(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Whole, E> {
        Ok(Whole(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Whole, E> {
        // JSON parsers read a whole number of more than 64 bits as a float.
        match number {
            ..=-1e18 => Ok(Whole(i128::MIN)),
            1e18.. => Ok(Whole(i128::MAX)),
            // JSON has one number type: 5.0 is a whole number. A cast of less than 1e18 is exact.
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the fraction is zero, and the number in range"
            )]
            _ if number.fract() == 0.0 => Ok(Whole((number as i64).into())),
            _ => Err(E::invalid_type(Unexpected::Float(number), &self)),
        }
    }
}

pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Whole>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse::<i128>().map_err(|cause| *cause.kind()) {
        Ok(number) => Ok(Some(Whole(number))),
        Err(IntErrorKind::PosOverflow) => Ok(Some(Whole(i128::MAX))),
        Err(IntErrorKind::NegOverflow) => Ok(Some(Whole(i128::MIN))),
        Err(_) => Err(D::Error::custom("expected a whole number")),
    }
}

pub(crate) fn page_size(name: &str, sent: Option<Whole>, default: u32, max: u32) -> Result<u32, Failure> {
    let size = sent.map_or(Some(default), |Whole(sent)| u32::try_from(sent).ok());
    size.filter(|size| (1..=max).contains(size))
        .ok_or_else(|| Failure::unprocessable(format!("{name} must lie between 1 and {max}")))
}

/// Returns a position in a list: from `first`, the default, to 2^63 - 1, as the API document declares.
pub(crate) fn position(name: &str, sent: Option<Whole>, first: u64) -> Result<u64, Failure> {
    let position = sent.map_or(Some(first), |Whole(sent)| u64::try_from(sent).ok());
    position
        .filter(|position| (first..=i64::MAX.unsigned_abs()).contains(position))
        .ok_or_else(|| Failure::unprocessable(format!("{name} must lie between {first} and {}", i64::MAX)))
}

pub(crate) struct ApiPath<T = String>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Sync> FromRequestParts<S> for ApiPath<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        match Path::from_request_parts(parts, &()).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(PathRejection::FailedToDeserializePathParams(cause))
                if !matches!(cause.kind(), ErrorKind::InvalidUtf8InPathParam { .. }) =>
            {
                Err(Failure::unprocessable(format!("the path: {}", cause.body_text())))
            }
            Err(_) => Err(Failure::new(StatusCode::BAD_REQUEST, "the path is not UTF-8")),
        }
    }
}

/// Returns the key in this header; None unless the header occurs exactly once.
pub(crate) fn sent_key<'a>(headers: &'a HeaderMap, header: &str) -> Option<&'a str> {
    let mut sent = headers.get_all(header).iter();
    let text = sent.next()?.to_str().ok()?;
    sent.next().is_none().then_some(text)
}
