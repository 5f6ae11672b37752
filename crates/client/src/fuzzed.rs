//! Entry points for the fuzz targets of this repository, into private parsers of foreign bytes. None of
//! them is part of the public interface.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures_util::{FutureExt, TryStreamExt};
use inferstore_api::types::{Descriptor, PresignedUpload};
use serde_json::{Map, Value};

use crate::InvalidInputs;
use crate::files::target::{Target, UploadMethod, form};
use crate::inputs::{Input, check};
use crate::memory::fingerprint;
use crate::transport::redact::Redactor;
use crate::transport::retry;

/// Returns the values as they would be sent.
pub fn checked_inputs(
    declared: &BTreeMap<String, Descriptor>,
    given: Map<String, Value>,
) -> Result<Map<String, Value>, InvalidInputs> {
    let given = given.into_iter().map(|(name, value)| (name, Input::Value(value))).collect();
    check(declared, &given, false).map(|checked| checked.values)
}

/// The target of an upload.
#[derive(Debug)]
pub struct UploadTarget {
    /// The address.
    pub url: String,
    /// The fields of the form; `None` when the bytes are the body.
    pub fields: Option<Vec<(String, String)>>,
}

/// Parses a presigned target.
pub fn upload_target(presigned: PresignedUpload) -> Result<UploadTarget, String> {
    let target = Target::read(presigned, "image/png", &Redactor::default())?;
    let fields = match target.method {
        UploadMethod::Form { fields } => Some(fields),
        UploadMethod::Put { .. } => None,
    };
    Ok(UploadTarget { url: target.url.into(), fields })
}

/// Returns the content type and the body of an upload by form.
pub fn upload_form(
    fields: &[(String, String)],
    file_name: &str,
    mime: &str,
    file: &[u8],
) -> Option<(String, Vec<u8>)> {
    let form = form(fields, file_name, mime, file.to_vec(), file.len() as u64).ok()?;
    let content_type = format!("multipart/form-data; boundary={}", form.boundary());
    let body = form.into_stream().map_ok(|bytes| bytes.to_vec()).try_concat().now_or_never()?;
    Some((content_type, body.ok()?))
}

/// Returns a foreign text as errors show it, but uncut.
pub fn redacted(text: &str, key: &str) -> String {
    Redactor::new(key).foreign(text, usize::MAX)
}

/// Parses `Retry-After`.
pub fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    retry::parse_retry_after(header, now)
}

/// Whether inputs in the task history are taken for those that were sent.
pub fn same_inputs(sent: &Value, stored: &Value) -> bool {
    fingerprint(sent) == fingerprint(stored)
}
