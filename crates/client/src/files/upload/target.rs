//! Where an upload goes and what it must carry, as a presigned answer says it.

use std::fmt;

use inferstore_api::types::PresignedUpload;
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::transport::mask::Mask;

/// The text in an endpoint by which the service tells a signed object URL from a bucket for forms.
const SIGNED_URL: &str = "X-Amz-Algorithm";

/// Where an upload goes. It grants access, so it cannot be printed.
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) way: Way,
    pub(crate) download_url: String,
    /// Hides what grants access in what the store says.
    pub(crate) mask: Mask,
}

/// How the bytes are sent.
pub(crate) enum Way {
    /// As they are.
    Put { content_type: HeaderValue },
    /// As the last field of a form.
    Form { fields: Vec<(String, String)> },
}

impl Target {
    /// Reads a presigned answer, or says what is wrong with it without showing it.
    pub(crate) fn read(presigned: PresignedUpload, mime: &str) -> Result<Self, String> {
        let endpoint = presigned.endpoint.expose();
        let url = Url::parse(endpoint)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or("the upload target of the service is not a URL")?;
        let fields = ordered_fields(presigned.fields.expose())?;
        let mask = Mask::of(&url, &fields);
        let way = if endpoint.contains(SIGNED_URL) {
            let declared = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            let content_type = declared.map_or(mime, |(_, content_type)| content_type);
            let content_type = HeaderValue::from_str(content_type)
                .map_err(|_| "the Content-Type of the upload target cannot be sent in a header")?;
            Way::Put { content_type }
        } else {
            Way::Form { fields }
        };
        Ok(Self { url, way, download_url: presigned.download_url, mask })
    }
}

/// The fields in the order in which they were written: a signature may depend on it.
fn ordered_fields(text: &str) -> Result<Vec<(String, String)>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match serde_json::from_str(text) {
        Ok(Fields(fields)) => Ok(fields),
        // The position and no more: what stands there is a secret.
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
        Target::read(presigned, "image/png")
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
        assert!(matches!(put.way, Way::Put { content_type } if content_type == "image/gif"));
        let put = target("https://b.example/k?X-Amz-Algorithm=A", "")?;
        assert!(
            matches!(put.way, Way::Put { content_type } if content_type == "image/png"),
            "what was declared"
        );
        let form = target("https://b.example/", r#"{"z":"1","a":2,"n":null,"b":true}"#)?;
        let pairs =
            [("z", "1"), ("a", "2"), ("b", "true")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert!(matches!(form.way, Way::Form { fields } if fields == pairs));
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
}
