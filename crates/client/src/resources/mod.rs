//! The operations of the service by noun: account, models, tasks, storage, and any other request.

pub(crate) mod account;
pub(crate) mod models;
pub(crate) mod page;
pub(crate) mod raw;
pub(crate) mod storage;
pub(crate) mod tasks;

use crate::transport::error::{Error, Result};

/// The text as an identifier, unless it would change the path that it becomes a segment of.
pub(crate) fn identifier<Id: From<String>>(what: &str, text: &str) -> Result<Id> {
    let shown = crate::transport::redact::cut(text, 80);
    let invalid =
        |problem: &str| Error::InvalidArgument(format!("{shown:?} cannot be the {what}: {problem}"));
    if text.trim().is_empty() {
        return Err(invalid("it is empty"));
    }
    if matches!(text, "." | "..") {
        return Err(invalid("as a segment of a path it would lead to another operation"));
    }
    Ok(Id::from(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use inferstore_api::types::TaskId;

    use super::identifier;

    #[test]
    fn an_identifier_that_changes_the_path_is_an_error_and_every_other_is_taken() {
        for text in ["", " ", ".", ".."] {
            assert!(identifier::<TaskId>("identifier of a task", text).is_err(), "{text:?}");
        }
        for text in ["a", "...", "a/b", "ä", "a b"] {
            let id = identifier::<TaskId>("identifier of a task", text);
            assert_eq!(id.ok().as_ref().map(TaskId::as_str), Some(text));
        }
    }
}
