//! Presigned upload targets: their URL, method and form.

use std::fmt;

use inferstore_api::types::PresignedUpload;
use reqwest::header::HeaderValue;
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Url};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;

use crate::files::web_url;
use crate::transport::Redactor;

/// Mark of a presigned object URL: the bucket URL of a form has no such parameter.
const SIGNED_URL: &str = "X-Amz-Algorithm";

/// Presigned upload target. It grants access, so it has no `Debug`.
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) method: UploadMethod,
    pub(crate) download_url: String,
    /// Redacts the credentials of the target in messages of the store.
    pub(crate) redactor: Redactor,
}

pub(crate) enum UploadMethod {
    Put { content_type: HeaderValue },
    Form { fields: Vec<(String, String)> },
}

impl Target {
    /// Parses a presigned target. The error does not quote it.
    pub(crate) fn read(presigned: PresignedUpload, mime: &str, redactor: &Redactor) -> Result<Self, String> {
        let endpoint = presigned.endpoint.expose();
        let url = web_url(endpoint).ok_or("the upload target of the service is not a URL")?;
        let fields = ordered_fields(presigned.fields.expose())?;
        let redactor = redactor.with_target(&url, &fields);
        let method = if endpoint.contains(SIGNED_URL) {
            let declared = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            let content_type = declared.map_or(mime, |(_, content_type)| content_type);
            let content_type = HeaderValue::from_str(content_type)
                .map_err(|_| "the Content-Type of the upload target cannot be sent in a header")?;
            UploadMethod::Put { content_type }
        } else {
            UploadMethod::Form { fields }
        };
        Ok(Self { url, method, download_url: presigned.download_url, redactor })
    }
}

/// Returns the fields in their original order, on which a signature may depend.
fn ordered_fields(text: &str) -> Result<Vec<(String, String)>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    let fields = parser.deserialize_map(InOrder).and_then(|fields| parser.end().map(|()| fields));
    // Only the position: the text is a secret.
    fields.map_err(|error| {
        format!(
            "the fields of the upload target are not a JSON object of texts (line {}, column {})",
            error.line(),
            error.column()
        )
    })
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            match value {
                Value::Null => {}
                Value::String(text) => fields.push((name, text)),
                Value::Bool(_) | Value::Number(_) => fields.push((name, value.to_string())),
                Value::Array(_) | Value::Object(_) => return Err(A::Error::custom("no text")),
            }
        }
        Ok(fields)
    }
}

/// Makes a form of the fields in order, then the file of this length as the field `file`.
pub(crate) fn form(
    fields: &[(String, String)],
    file_name: &str,
    mime: &str,
    file: impl Into<Body>,
    length: u64,
) -> reqwest::Result<Form> {
    let file = Part::stream_with_length(file, length).file_name(quotable(file_name)).mime_str(mime)?;
    // Names stay unencoded: object storage does not decode them.
    let form = Form::new().percent_encode_noop();
    let form = fields.iter().fold(form, |form, (name, value)| form.text(quotable(name), value.clone()));
    Ok(form.part("file", file))
}

/// Returns the name without characters that would end its quotes or its line.
fn quotable(name: &str) -> String {
    name.replace(|c: char| c.is_control() || matches!(c, '"' | '\\'), "_")
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, TryStreamExt};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn target(endpoint: &str, fields: &str) -> Result<Target, String> {
        let presigned =
            json!({ "endpoint": endpoint, "fields": fields, "download_url": "https://d.example/a" });
        let presigned = serde_json::from_value(presigned).map_err(|error| error.to_string())?;
        Target::read(presigned, "image/png", &Redactor::default())
    }

    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn fields_come_out_as_they_were_written(fields in vec((any::<String>(), any::<String>()), 0..20)) {
                let written: Vec<_> = fields.iter().map(|(name, value)| format!("{}:{}", json!(name), json!(value))).collect();
                let read = ordered_fields(&format!("{{{}}}", written.join(" , ")));
                prop_assert_eq!(read, Ok(fields));
            }

            #[test]
            fn no_text_is_more_than_a_parser_can_take(text in any::<String>()) {
                let _ = ordered_fields(&text);
            }
        }
    }

    #[test]
    fn the_endpoint_decides_how_the_bytes_are_sent() -> Result<(), String> {
        let put = target("https://b.example/k?X-Amz-Algorithm=A&x=1", r#"{"content-type":"image/gif"}"#)?;
        assert!(matches!(put.method, UploadMethod::Put { content_type } if content_type == "image/gif"));
        let put = target("https://b.example/k?X-Amz-Algorithm=A", "")?;
        assert!(
            matches!(put.method, UploadMethod::Put { content_type } if content_type == "image/png"),
            "what was declared"
        );
        let form = target("https://b.example/", r#"{"z":"1","a":2,"n":null,"b":true}"#)?;
        let pairs =
            [("z", "1"), ("a", "2"), ("b", "true")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert!(matches!(form.method, UploadMethod::Form { fields } if fields == pairs));
        Ok(())
    }

    #[test]
    fn a_broken_answer_is_refused_without_being_shown() {
        for (endpoint, fields) in [
            ("SECRET", "{}"),
            ("ftp://SECRET/", "{}"),
            ("https://b.example/", "SECRET"),
            ("https://b.example/", r#"{"policy":["SECRET"]}"#),
            ("https://b.example/?X-Amz-Algorithm=", r#"{"Content-Type":"SECRET\r\nx: y"}"#),
        ] {
            let problem = target(endpoint, fields).err().unwrap_or_default();
            assert!(problem.contains("upload target") && !problem.contains("SECRET"), "{problem}");
        }
    }

    #[test]
    fn no_name_can_add_a_header() {
        let fields = [("a\"\r\nx-evil: 1\r\n\r\n".to_owned(), "a value\r\nis no header".to_owned())];
        let form = form(&fields, "a\".png\r\nx-evil: 1\0", "image/png", "pixels", 6);
        let bytes =
            form.map(|form| form.into_stream().map_ok(|bytes| bytes.to_vec()).try_concat().now_or_never());
        let text = String::from_utf8(bytes.ok().flatten().and_then(Result::ok).unwrap_or_default())
            .unwrap_or_default();
        assert!(!text.contains("\nx-evil"), "{text}");
        assert!(text.contains("name=\"a___x-evil: 1____\"\r\n\r\na value\r\nis no header\r\n"), "{text}");
        assert!(
            text.contains("filename=\"a_.png__x-evil: 1_\"\r\nContent-Type: image/png\r\n\r\npixels\r\n"),
            "{text}"
        );
    }
}
