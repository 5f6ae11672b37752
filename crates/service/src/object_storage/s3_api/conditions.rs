//! Conditional requests and ranges of RFC 9110.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use axum::http::header::{
    CONTENT_RANGE, ETAG, HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, RANGE,
};

use super::{Code, S3Error};
use crate::files::Object;

/// Evaluates the conditions of a request, in the order of RFC 9110, 13.2.2.
pub(super) fn check(headers: &HeaderMap, object: &Object) -> Result<(), S3Error> {
    let failed = || {
        let message = "At least one of the pre-conditions you specified did not hold";
        S3Error::new(Code::PreconditionFailed, message)
    };
    let stored = last_modified(object);
    let holds = match tags(headers, &IF_MATCH) {
        Some(tags) => tags.iter().any(|tag| tag == "*" || *tag == etag(object)),
        None => date(headers, &IF_UNMODIFIED_SINCE).is_none_or(|since| stored <= since),
    };
    if !holds {
        return Err(failed());
    }
    let is_known = match tags(headers, &IF_NONE_MATCH) {
        Some(tags) => {
            tags.iter().any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag(object))
        }
        None => date(headers, &IF_MODIFIED_SINCE).is_some_and(|since| stored <= since),
    };
    if is_known { Err(S3Error::new(Code::NotModified, "").with(ETAG, etag(object))) } else { Ok(()) }
}

/// Returns the requested range; None for the whole object. Any header but a single byte range is ignored.
pub(super) fn range(headers: &HeaderMap, object: &Object) -> Result<Option<Range<u64>>, S3Error> {
    let Some((first, last)) = headers.get(RANGE).and_then(|value| parse_range(value.to_str().ok()?)) else {
        return Ok(None);
    };
    // The rest must be of the same object. A date is too weak a check: two objects can be stored within one second.
    if headers.get(IF_RANGE).is_some_and(|value| value.as_bytes() != etag(object).as_bytes()) {
        return Ok(None);
    }
    let size = object.size;
    let range = match (first, last) {
        (Some(first), last) => first..last.unwrap_or(u64::MAX).saturating_add(1).min(size),
        (None, suffix) => size.saturating_sub(suffix.unwrap_or(0))..size,
    };
    if range.start < range.end {
        return Ok(Some(range));
    }
    let refusal = S3Error::new(Code::InvalidRange, "The requested range is not satisfiable");
    Err(refusal.with(CONTENT_RANGE, format!("bytes */{size}")))
}

/// Parses `bytes=first-last`, `bytes=first-` or `bytes=-suffix`. Numbers beyond 64 bits are clamped.
fn parse_range(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| match text {
        "" => Some(None),
        _ if !text.bytes().all(|byte| byte.is_ascii_digit()) => None,
        _ => Some(Some(text.parse().unwrap_or(u64::MAX))),
    };
    let (first, last) = (number(first)?, number(last)?);
    let is_range = match (first, last) {
        (None, None) => false,
        (Some(first), Some(last)) => first <= last,
        _ => true,
    };
    (unit.eq_ignore_ascii_case("bytes") && is_range).then_some((first, last))
}

/// Returns the entity tags in all headers of this name, weak ones with their `W/`; None without such a header.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<String>> {
    headers.contains_key(name).then(|| {
        let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(split_tags).collect()
    })
}

fn split_tags(line: &str) -> Vec<String> {
    let mut is_quoted = false;
    let parts = line.split(|character| {
        is_quoted ^= character == '"';
        character == ',' && !is_quoted
    });
    parts.map(|tag| tag.trim().to_owned()).collect()
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

pub(super) fn last_modified(object: &Object) -> SystemTime {
    let seconds = u64::try_from(object.created_at.0.div_euclid(1_000)).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

pub(super) fn etag(object: &Object) -> String {
    format!("\"{}\"", object.etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tags_is_split_at_commas_outside_of_quotes() {
        assert_eq!(split_tags(r#""a,b" , W/"c",*"#), [r#""a,b""#, r#"W/"c""#, "*"]);
    }
}
