//! Models behind version 2 of the Open Inference Protocol, which KServe, Triton and MLServer speak:
//! `POST /v2/models/<name>/infer`, with every input and output a tensor of one element.

use serde_json::{Value, json};
use url::Url;

use super::Outputs;
use super::http::{Server, from_base64, to_base64};
use crate::Error;
use crate::inputs::{Input, Inputs};
use crate::outputs::{Failed, Output, OutputFile};
use crate::service::{Descriptor, Lease};

pub(crate) struct OpenInference {
    server: Server,
    model: String,
}

impl OpenInference {
    pub(super) fn new(address: &Url, model: &str, version: Option<&str>) -> Result<Self, Error> {
        let mut path = format!("/v2/models/{model}");
        if let Some(version) = version {
            path.push_str("/versions/");
            path.push_str(version);
        }
        Ok(Self { server: Server::new(address)?, model: path })
    }

    pub(super) async fn is_ready(&self) -> Result<(), String> {
        let (status, _) = self.server.get(&format!("{}/ready", self.model)).await?;
        if status.is_success() { Ok(()) } else { Err(format!("it responded with {status}")) }
    }

    pub(super) async fn run(&self, lease: &Lease, inputs: Inputs) -> Result<Outputs, Failed> {
        let given: Vec<Value> = inputs
            .into_iter()
            .map(|(name, input)| tensor(&name, input, lease.input_format.get(&name)))
            .collect();
        let body = json!({ "id": format!("{}-{}", lease.task, lease.attempt), "inputs": given });
        let response =
            self.server.post(&format!("{}/infer", self.model), &body, lease.traceparent.as_deref()).await?;
        let tensors = response["outputs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let read_one = |(name, descriptor): (&String, &Descriptor)| {
            // The only output may have any name.
            let tensor = match tensors {
                [only] if lease.output_format.len() == 1 => Some(only),
                several => several.iter().find(|tensor| tensor["name"] == name.as_str()),
            };
            let tensor = tensor.ok_or_else(|| Failed::model(format!("the output {name} is missing")))?;
            Ok((name.clone(), read(name, tensor, descriptor)?))
        };
        lease.output_format.iter().map(read_one).collect()
    }
}

/// Converts an input to a tensor of one element. Files are Base64 in `BYTES`: JSON has no binary type.
fn tensor(name: &str, input: Input, declared: Option<&Descriptor>) -> Value {
    let of_type = |datatype: &str, data: Value, content_type: &str| {
        json!({
            "name": name, "shape": [1], "datatype": datatype, "data": [data],
            "parameters": { "content_type": content_type }
        })
    };
    let value = match input {
        Input::File { bytes, .. } => return of_type("BYTES", json!(to_base64(&bytes)), "base64"),
        Input::Value(value) => super::as_typed(&value, declared),
    };
    let kind = declared.map_or("string", |descriptor| descriptor.kind.as_str());
    match (kind, &value) {
        ("int", Value::Number(_)) => {
            json!({ "name": name, "shape": [1], "datatype": "INT64", "data": [value] })
        }
        ("float", Value::Number(_)) => {
            json!({ "name": name, "shape": [1], "datatype": "FP64", "data": [value] })
        }
        (_, Value::String(_)) => of_type("BYTES", value, "str"),
        (_, other) => of_type("BYTES", json!(other.to_string()), "str"),
    }
}

fn read(name: &str, tensor: &Value, declared: &Descriptor) -> Result<Output, Failed> {
    let data = match &tensor["data"] {
        Value::Array(elements) => match &elements[..] {
            [only] => only,
            _ => &tensor["data"],
        },
        whole => whole,
    };
    if !declared.is_file() {
        return Ok(Output::Value(super::as_declared(data, declared)));
    }
    let text = data.as_str().ok_or_else(|| {
        Failed::model(format!("the output {name} is not a file as one element of BYTES in Base64"))
    })?;
    Ok(Output::File(OutputFile::guessed(from_base64(name, text)?, None, declared)))
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn inputs_become_tensors_of_what_they_are() -> Result<(), serde_json::Error> {
        let declared = |kind: &str| Descriptor { kind: kind.to_owned(), mime_type: Vec::new() };
        for (kind, value, datatype, data) in [
            ("int", json!("30"), "INT64", json!([30])),
            ("int", json!(7), "INT64", json!([7])),
            ("float", json!("0.5"), "FP64", json!([0.5])),
            ("string", json!("30"), "BYTES", json!(["30"])),
            ("options", json!("a"), "BYTES", json!(["a"])),
        ] {
            let tensor = tensor("x", Input::Value(to_raw_value(&value)?), Some(&declared(kind)));
            assert_eq!((&tensor["datatype"], &tensor["data"]), (&json!(datatype), &data), "{kind} {value}");
        }
        let file = Input::File { bytes: b"hi".to_vec(), extension: "png".to_owned() };
        let tensor = tensor("x", file, Some(&declared("file")));
        assert_eq!(
            (&tensor["data"], &tensor["parameters"]["content_type"]),
            (&json!(["aGk="]), &json!("base64"))
        );
        Ok(())
    }

    #[test]
    fn tensors_become_outputs_as_declared() -> Result<(), String> {
        let declared =
            |kind: &str| Descriptor { kind: kind.to_owned(), mime_type: vec!["image/png".to_owned()] };
        let bytes = json!({ "name": "x", "datatype": "BYTES", "shape": [1, 1], "data": ["aGk="] });
        let Ok(Output::File(file)) = read("x", &bytes, &declared("file")) else {
            return Err("no file".into());
        };
        assert_eq!((&*file.bytes, &*file.mime), (&b"hi"[..], "image/png"));
        let several = json!({ "data": [1, 2] });
        assert!(read("x", &several, &declared("file")).is_err());
        let Ok(Output::Value(value)) = read("x", &several, &declared("string")) else {
            return Err("none".into());
        };
        assert_eq!(value, json!("[1,2]"));
        Ok(())
    }
}
