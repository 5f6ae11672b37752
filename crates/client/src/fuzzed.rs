//! Doors for the fuzz targets of this repository, to private parts that read what others wrote. Nothing
//! here is promised to anyone.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use inferstore_api::types::{Descriptor, PresignedUpload};
use serde_json::{Map, Value};

use crate::InvalidInputs;
use crate::files::upload::form::Form;
use crate::files::upload::target::{Target, Way};
use crate::inputs::{Candidate, Undeclared, check};
use crate::run::same;
use crate::transport::{redact, retry};

/// The values as they would be sent.
pub fn checked_inputs(
    declared: &BTreeMap<String, Descriptor>,
    given: Map<String, Value>,
) -> Result<Map<String, Value>, InvalidInputs> {
    let given = given.into_iter().map(|(name, value)| (name, Candidate::Value(value))).collect();
    check(declared, &given, Undeclared::Refuse).map(|checked| checked.values)
}

/// Where an upload would go.
#[derive(Debug)]
pub struct UploadTarget {
    /// To which address.
    pub url: String,
    /// The fields of the form, unless the bytes are put as they are.
    pub fields: Option<Vec<(String, String)>>,
}

/// Reads what the service answers to somebody who wants to upload.
pub fn upload_target(presigned: PresignedUpload) -> Result<UploadTarget, String> {
    let target = Target::read(presigned, "image/png")?;
    let fields = match target.way {
        Way::Form { fields } => Some(fields),
        Way::Put { .. } => None,
    };
    Ok(UploadTarget { url: target.url.into(), fields })
}

/// The content type and the body of an upload by form.
pub fn upload_form(
    fields: &[(String, String)],
    file_name: &str,
    mime: &str,
    file: &[u8],
) -> (String, Vec<u8>) {
    let form = Form::new(fields, file_name, mime);
    (form.content_type(), [&form.before_file[..], file, &form.after_file[..]].concat())
}

/// A text as errors show it.
pub fn redacted(text: &str, key: &str) -> String {
    redact::redact(text, key)
}

/// How long `Retry-After` asks to wait.
pub fn asked_pause(header: &str, now: SystemTime) -> Option<Duration> {
    retry::read_retry_after(header, now)
}

/// Whether a stored input is taken for the one that was sent.
pub fn same_inputs(sent: &Value, stored: &Value) -> bool {
    same::same_json(sent, stored)
}
