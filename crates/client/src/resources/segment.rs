//! Identifiers that become a segment of a path. Some would lead to another path.

use std::str::FromStr;

use crate::transport::error::{Error, Result};

/// The text as an identifier, unless it would change the path that it is put into.
pub(crate) fn identifier<Id: FromStr>(what: &str, text: &str) -> Result<Id> {
    let refused = |problem: &str| Error::InvalidArgument(format!("{text:?} cannot be the {what}: {problem}"));
    if text.trim().is_empty() {
        return Err(refused("it is empty"));
    }
    if matches!(text, "." | "..") {
        return Err(refused("as part of a path it would mean another folder"));
    }
    text.parse().map_err(|_| refused("the document does not allow it"))
}
