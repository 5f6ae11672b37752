//! Models behind cog: `POST /predictions`, with files as data URLs in both directions.

use serde_json::{Map, Value, json};
use url::Url;

use super::Outputs;
use super::http::{Server, from_base64, to_base64};
use crate::Error;
use crate::inputs::{Input, Inputs};
use crate::outputs::{Failed, Output, OutputFile};
use crate::service::{Descriptor, Lease};

pub(crate) struct Cog {
    server: Server,
}

impl Cog {
    pub(super) fn new(address: &Url) -> Result<Self, Error> {
        Ok(Self { server: Server::new(address)? })
    }

    pub(super) async fn is_ready(&self) -> Result<(), String> {
        let (status, body) = self.server.get("/health-check").await?;
        let health: Value = serde_json::from_slice(&body).unwrap_or_default();
        match health["status"].as_str() {
            // A busy server rejects excess requests itself.
            Some("READY") if status.is_success() => Ok(()),
            Some(other) => Err(format!("it says {other}")),
            None => Err(format!("it responded with {status}")),
        }
    }

    pub(super) async fn run(&self, lease: &Lease, inputs: Inputs) -> Result<Outputs, Failed> {
        let mut given = Map::new();
        for (name, input) in inputs {
            let value = match input {
                Input::File { bytes, extension } => {
                    let mime = mime_guess::from_ext(&extension).first_or_octet_stream();
                    json!(format!("data:{mime};base64,{}", to_base64(&bytes)))
                }
                Input::Value(value) => super::as_typed(&value, lease.input_format.get(&name)),
            };
            given.insert(name, value);
        }
        let response = self
            .server
            .post("/predictions", &json!({ "input": given }), lease.traceparent.as_deref())
            .await?;
        match response["status"].as_str() {
            Some("succeeded") => outputs(lease, &response["output"]),
            _ => {
                let said = response["error"].as_str().unwrap_or("without a message");
                Err(Failed::model(format!("the model failed: {said}")))
            }
        }
    }
}

/// Reads cog's output: an object by name, or the value of the only declared output.
fn outputs(lease: &Lease, output: &Value) -> Result<Outputs, Failed> {
    let declared = &lease.output_format;
    if let (1, Some((name, descriptor))) = (declared.len(), declared.first_key_value())
        && output.get(name).is_none()
    {
        // A model that can return several files returns a list.
        let last = output.as_array().filter(|_| descriptor.is_file()).and_then(|list| list.last());
        let output = last.unwrap_or(output);
        return Ok([(name.clone(), read(name, output, descriptor)?)].into());
    }
    let read_one = |(name, descriptor): (&String, &Descriptor)| {
        let value = output.get(name).ok_or_else(|| Failed::model(format!("the output {name} is missing")))?;
        Ok((name.clone(), read(name, value, descriptor)?))
    };
    declared.iter().map(read_one).collect()
}

fn read(name: &str, value: &Value, declared: &Descriptor) -> Result<Output, Failed> {
    if !declared.is_file() {
        return Ok(Output::Value(super::as_declared(value, declared)));
    }
    let url = value.as_str().and_then(|text| text.strip_prefix("data:"));
    let parts = url
        .and_then(|url| url.split_once(','))
        .and_then(|(head, data)| Some((head.strip_suffix(";base64")?, data)));
    let (mime, data) = parts.ok_or_else(|| {
        Failed::model(format!("the output {name} is not a file as a data URL, which is how cog returns one"))
    })?;
    let bytes = from_base64(name, data)?;
    let is_known = !mime.is_empty() && mime != "application/octet-stream";
    Ok(Output::File(match is_known {
        true => OutputFile::of_type(bytes, mime),
        false => OutputFile::guessed(bytes, None, declared),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cog_returns_is_read_by_what_is_declared() -> Result<(), Box<dyn std::error::Error>> {
        let lease = |format: Value| -> Result<Lease, serde_json::Error> {
            serde_json::from_value(json!({
                "task": "t", "attempt": 1, "model": "m", "input": {}, "input_format": {},
                "output_format": format, "lease_seconds": 30.0
            }))
        };
        let picture = json!({ "picture": { "type": "file", "mime_type": ["image/png"], "position": 0 } });
        let lease_of_one = lease(picture)?;
        for output in [
            json!("data:image/png;base64,aGk="),
            json!(["data:image/png;base64,eA==", "data:image/png;base64,aGk="]),
            json!({ "picture": "data:application/octet-stream;base64,aGk=" }),
        ] {
            let read = outputs(&lease_of_one, &output).map_err(|failed| failed.message)?;
            let Some(Output::File(file)) = read.get("picture") else { return Err("no file".into()) };
            assert_eq!((&*file.bytes, &*file.mime, &*file.extension), (&b"hi"[..], "image/png", "png"));
        }
        for output in [json!(null), json!("https://example.com/x.png"), json!("data:image/png,hi"), json!({})]
        {
            assert!(outputs(&lease_of_one, &output).is_err(), "{output}");
        }
        let lease_of_text = lease(json!({ "text": { "type": "string", "position": 0 } }))?;
        let read = outputs(&lease_of_text, &json!(["Hel", "lo"])).map_err(|failed| failed.message)?;
        assert!(matches!(&read["text"], Output::Value(Value::String(text)) if text == r#"["Hel","lo"]"#));
        let read = outputs(&lease_of_text, &Value::Null).map_err(|failed| failed.message)?;
        assert!(matches!(&read["text"], Output::Value(Value::Null)), "the service refuses it");
        let lease_of_two = lease(json!({
            "label": { "type": "string", "position": 0 }, "score": { "type": "float", "position": 1 }
        }))?;
        let read = outputs(&lease_of_two, &json!({ "label": ["a", "b"], "score": 0.5 }));
        let read = read.map_err(|failed| failed.message)?;
        assert!(matches!(&read["label"], Output::Value(Value::String(text)) if text == r#"["a","b"]"#));
        assert!(matches!(&read["score"], Output::Value(number) if *number == json!(0.5)));
        assert!(outputs(&lease_of_two, &json!({ "label": "a" })).is_err());
        Ok(())
    }
}
