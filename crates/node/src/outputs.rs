//! Outputs of a run: values, files with a type and a name, or a failure with its kind.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::service::Descriptor;

/// Largest number of characters of an error that the service keeps.
const MAX_MESSAGE: usize = 4_000;

#[derive(Debug)]
pub(crate) enum Output {
    File(OutputFile),
    Value(Value),
}

#[derive(Debug)]
pub(crate) struct OutputFile {
    /// Shared by every upload attempt.
    pub(crate) bytes: Bytes,
    pub(crate) mime: String,
    pub(crate) extension: String,
}

impl OutputFile {
    /// Makes a file without a given type: the type is that of the file name if the declaration allows it, also by a
    /// pattern such as `video/*`; else a plain declared type, else that of the file name, else that of the content.
    pub(crate) fn guessed(bytes: Vec<u8>, name: Option<&str>, declared: &Descriptor) -> Self {
        let by_name = name.and_then(|name| mime_guess::from_path(name).first_raw());
        let plain = declared.mime_type.iter().find(|pattern| !pattern.contains('*'));
        let mime = match (by_name, plain) {
            (Some(mime), _) if declared.mime_type.iter().any(|pattern| has(pattern, mime)) => mime.to_owned(),
            (_, Some(mime)) => mime.clone(),
            (Some(mime), None) => mime.to_owned(),
            (None, None) => {
                let by_content = infer::get(&bytes).map(|kind| kind.mime_type());
                by_content.unwrap_or("application/octet-stream").to_owned()
            }
        };
        Self::of_type(bytes, &mime)
    }

    pub(crate) fn of_type(bytes: Vec<u8>, mime: &str) -> Self {
        let essence = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        // `mime_guess` sorts extensions alphabetically, so the usual one is not the first.
        let extension = match essence.as_str() {
            "image/jpeg" => "jpg",
            "text/plain" => "txt",
            "application/octet-stream" => "bin",
            "video/mp4" => "mp4",
            "audio/mpeg" => "mp3",
            "image/tiff" => "tif",
            essence => mime_guess::get_mime_extensions_str(essence)
                .and_then(|known| known.first())
                .map_or("bin", |extension| extension),
        };
        Self { bytes: bytes.into(), mime: essence.clone(), extension: extension.to_owned() }
    }
}

fn has(pattern: &str, mime: &str) -> bool {
    pattern == mime || pattern.strip_suffix("/*").is_some_and(|family| mime.split('/').next() == Some(family))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Input,
    Model,
    Limit,
    /// Machine of the node. The node does not report it, because the task may succeed on another machine.
    Node,
}

#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) detail: Option<Value>,
}

impl Failed {
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self { kind: Kind::Input, message: message.into(), detail: None }
    }

    pub(crate) fn model(message: impl Into<String>) -> Self {
        Self { kind: Kind::Model, message: message.into(), detail: None }
    }

    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self { kind: Kind::Limit, message: message.into(), detail: None }
    }

    /// Makes the failure of a machine that cannot begin the run: its disk is full, or a program is missing.
    pub(crate) fn node(doing: &str, cause: &dyn std::error::Error) -> Self {
        Self { kind: Kind::Node, message: format!("{doing} failed: {cause}"), detail: None }
    }

    pub(crate) fn ending(&self) -> Value {
        let message: String = self.message.chars().take(MAX_MESSAGE).collect();
        let mut error =
            Map::from_iter([("kind".to_owned(), json!(self.kind)), ("message".to_owned(), json!(message))]);
        if let Some(detail) = &self.detail {
            error.insert("detail".to_owned(), detail.clone());
        }
        json!({ "error": error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_keeps_its_kind_and_its_begin() {
        let ending = Failed::input("é".repeat(2_000_000)).ending();
        assert_eq!(ending["error"]["kind"], "input");
        assert_eq!(ending["error"]["message"].as_str().map(|message| message.chars().count()), Some(4_000));
    }

    #[test]
    fn files_get_the_type_that_was_declared_or_that_their_name_says() {
        let declared = |mimes: &[&str]| Descriptor {
            kind: "file".to_owned(),
            mime_type: mimes.iter().map(|mime| (*mime).to_owned()).collect(),
        };
        for (name, mimes, mime, extension) in [
            (Some("a.jpg"), &["image/*"][..], "image/jpeg", "jpg"),
            (Some("a.png"), &["image/jpeg", "image/png"], "image/png", "png"),
            (Some("a.mp4"), &["video/*", "image/gif"], "video/mp4", "mp4"),
            (Some("a.gif"), &["video/*", "image/gif"], "image/gif", "gif"),
            (Some("a.txt"), &["video/*", "image/gif"], "image/gif", "gif"),
            (Some("a"), &["video/mp4"], "video/mp4", "mp4"),
            (None, &["video/mp4"], "video/mp4", "mp4"),
            (None, &["image/*"], "application/octet-stream", "bin"),
            (Some("a.webm"), &[], "video/webm", "webm"),
        ] {
            let file = OutputFile::guessed(Vec::new(), name, &declared(mimes));
            assert_eq!(
                (file.mime.as_str(), file.extension.as_str()),
                (mime, extension),
                "{name:?} {mimes:?}"
            );
        }
        let png = OutputFile::guessed(b"\x89PNG\r\n\x1a\n".to_vec(), None, &declared(&["image/*"]));
        assert_eq!((png.mime.as_str(), png.extension.as_str()), ("image/png", "png"));
    }
}
