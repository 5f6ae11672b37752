//! Presigned upload targets: their URL, method and form.

use std::fmt;

use bytes::Bytes;
use inferstore_api::types::PresignedUpload;
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::files::source::random_hex;
use crate::transport::redact::Redactor;

/// The text in an endpoint by which the service tells a signed object URL from a bucket for forms.
const SIGNED_URL: &str = "X-Amz-Algorithm";

/// A presigned target. It grants access, so it has no `Debug`.
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) method: UploadMethod,
    pub(crate) download_url: String,
    /// Masks the credentials of the target in messages of the store.
    pub(crate) redactor: Redactor,
}

/// How the bytes are sent: the endpoint decides it.
pub(crate) enum UploadMethod {
    /// The bytes as the body.
    Put { content_type: HeaderValue },
    /// The bytes as the last field of a form.
    Form { fields: Vec<(String, String)> },
}

impl Target {
    /// Parses a presigned target. The error does not quote it.
    pub(crate) fn read(presigned: PresignedUpload, mime: &str, redactor: &Redactor) -> Result<Self, String> {
        let endpoint = presigned.endpoint.expose();
        let url = Url::parse(endpoint)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or("the upload target of the service is not a URL")?;
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

/// The fields in their original order: a signature may depend on it.
fn ordered_fields(text: &str) -> Result<Vec<(String, String)>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match serde_json::from_str(text) {
        Ok(Fields(fields)) => Ok(fields),
        // Only the position: the text is a secret.
        Err(error) => Err(format!(
            "the fields of the upload target are not a JSON object of texts (line {}, column {})",
            error.line(),
            error.column()
        )),
    }
}

struct Fields(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
                    let value = match value {
                        serde_json::Value::String(text) => text,
                        serde_json::Value::Null => continue,
                        scalar @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_)) => {
                            scalar.to_string()
                        }
                        _ => return Err(A::Error::custom("a list or an object")),
                    };
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// The bytes of a form before and after the file, which is its last field. The length is known before
/// the first byte is sent, and names go out verbatim.
pub(crate) struct Form {
    pub(crate) before_file: Bytes,
    pub(crate) after_file: Bytes,
    boundary: String,
}

impl Form {
    /// All fields in their order, then the file as the field `file`.
    pub(crate) fn new(fields: &[(String, String)], file_name: &str, mime: &str) -> Self {
        let boundary = boundary_outside(fields);
        let mut text = String::new();
        for (name, value) in fields {
            let name = quoted(name);
            text.push_str(&format!(
                "--{boundary}\r\nContent-Disposition: form-data; name={name}\r\n\r\n{value}\r\n"
            ));
        }
        let file_name = quoted(file_name);
        text.push_str(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename={file_name}\r\nContent-Type: {mime}\r\n\r\n"
        ));
        Self { before_file: text.into(), after_file: format!("\r\n--{boundary}--\r\n").into(), boundary }
    }

    pub(crate) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    /// The length of the form with a file of this size.
    pub(crate) fn length(&self, file_size: u64) -> u64 {
        self.before_file.len() as u64 + file_size + self.after_file.len() as u64
    }
}

/// A random boundary that occurs in no field. A collision with the file has a chance of 1 in 2^128.
fn boundary_outside(fields: &[(String, String)]) -> String {
    loop {
        let boundary = format!("inferstore-{}", random_hex());
        if !fields.iter().any(|(name, value)| name.contains(&boundary) || value.contains(&boundary)) {
            return boundary;
        }
    }
}

/// A quoted name as browsers write it into a header, with everything escaped that could end it.
fn quoted(name: &str) -> String {
    let name = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A").replace('\0', "%00");
    format!("\"{name}\"")
}

#[cfg(test)]
mod tests {
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

    mod form {
        use proptest::collection::vec;
        use proptest::prelude::*;

        use super::super::*;

        fn whole(form: &Form, file: &[u8]) -> Vec<u8> {
            [&form.before_file[..], file, &form.after_file[..]].concat()
        }

        mod properties {
            use super::*;

            proptest! {
                #[test]
                fn the_length_is_exact_and_every_part_stands_in_its_place(
                    fields in vec((any::<String>(), any::<String>()), 0..8),
                    name in any::<String>(),
                    file in vec(any::<u8>(), 1..200),
                ) {
                    let form = Form::new(&fields, &name, "image/png");
                    let whole = whole(&form, &file);
                    prop_assert_eq!(form.length(file.len() as u64), whole.len() as u64);
                    let boundary = format!("--{}", form.boundary);
                    let places = whole.windows(boundary.len()).filter(|window| *window == boundary.as_bytes()).count();
                    prop_assert_eq!(places, fields.len() + 2, "one for each field, one for the file, one at the end");
                    let mut rest = &form.before_file[..];
                    for (field, value) in &fields {
                        let part = format!("{boundary}\r\nContent-Disposition: form-data; name={}\r\n\r\n{value}\r\n", quoted(field));
                        prop_assert!(rest.starts_with(part.as_bytes()));
                        rest = &rest[part.len()..];
                    }
                    prop_assert_eq!(rest.windows(2).filter(|window| *window == b"\r\n").count(), 4, "boundary, two headers, none");
                }
            }
        }

        #[test]
        fn no_name_can_add_a_header() {
            let fields = [("a\"\r\nx-evil: 1\r\n\r\n".to_owned(), "a value\r\nis no header".to_owned())];
            let form = Form::new(&fields, "a\".png\r\nx-evil: 1\0", "image/png");
            let text = String::from_utf8_lossy(&form.before_file);
            assert!(!text.contains("\nx-evil"), "{text}");
            assert!(
                text.contains("name=\"a%22%0D%0Ax-evil: 1%0D%0A%0D%0A\"\r\n\r\na value\r\nis no header\r\n"),
                "{text}"
            );
            assert!(
                text.contains("filename=\"a%22.png%0D%0Ax-evil: 1%00\"\r\nContent-Type: image/png\r\n\r\n"),
                "{text}"
            );
        }
    }
}
