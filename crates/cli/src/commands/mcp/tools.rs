//! The tools: their names, descriptions and JSON schemas.

use std::collections::HashSet;

use futures_util::StreamExt;
use futures_util::stream;
use inferstore::Client;
use inferstore::types::{Descriptor, DescriptorType, ModelListRequest, ModelVersioning, UploadFolder};
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Result};
use crate::schema::{largest_picture, ordered};
use crate::table::printable;

/// The argument that tells calls with the same inputs apart.
pub(super) const CALL_ID: &str = "call_id";

/// The tools that are no models.
const OWN: [&str; 4] = ["quote", "run", "task", "files"];

/// The most models that are tools of their own.
const MAX_MODELS: u32 = 100;

/// Number of models that are read at the same time.
const MAX_CONCURRENT_READS: usize = 8;

/// The longest name of a tool that clients take.
const MAX_NAME: usize = 64;

/// A model as a tool.
pub(super) struct ModelTool {
    name: String,
    pub(super) model: String,
    description: String,
    version: ModelVersioning,
}

/// Reads the models that are offered: those that were named, or the first ones of the catalog.
pub(super) async fn models(only: &[String], client: &Client) -> Result<Vec<ModelTool>> {
    let query = ModelListRequest { limit: Some(MAX_MODELS), offset: Some(0), ..Default::default() };
    let listed = client.models_page(query).await?.records;
    let mut wanted: Vec<(String, String)> = listed
        .into_iter()
        .map(|model| (model.id.to_string(), model.description.unwrap_or_default()))
        .filter(|(id, _)| only.is_empty() || only.contains(id))
        .collect();
    let known: HashSet<String> = wanted.iter().map(|(id, _)| id.clone()).collect();
    wanted.extend(only.iter().filter(|id| !known.contains(*id)).map(|id| (id.clone(), String::new())));
    let versions = stream::iter(wanted).map(|(model, description)| async move {
        let version = client.model(&*model).versioning().await?;
        Ok::<_, inferstore::Error>((model, description, version))
    });
    let mut versions = versions.buffered(MAX_CONCURRENT_READS);
    let mut tools = Vec::new();
    let mut names: HashSet<String> = OWN.map(str::to_owned).into();
    while let Some(read) = versions.next().await {
        let (model, description, version) = read?;
        let name = name_of(&model);
        // A model without a name of its own is run by `run`.
        if names.insert(name.clone()) {
            let description = printable(&description);
            tools.push(ModelTool { name, model, description, version });
        }
    }
    Ok(tools)
}

/// The identifier of a model as the name of a tool.
fn name_of(model: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    model.chars().map(|c| if is_plain(c) { c } else { '_' }).take(MAX_NAME).collect()
}

/// The model of the tool with this name.
pub(super) fn model_of<'a>(tools: &'a [ModelTool], name: &str) -> Option<&'a str> {
    tools.iter().find(|tool| tool.name == name).map(|tool| tool.model.as_str())
}

/// The result of `tools/list`.
pub(super) fn listed(models: &[ModelTool]) -> Value {
    let of_model = |tool: &ModelTool| {
        let description =
            format!("{} Runs the model {}; a run may cost money.", tool.description, tool.model);
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (name, descriptor) in ordered(tool.version.input_format.as_ref()) {
            properties.insert(name.clone(), schema_of(descriptor));
            if descriptor.required == Some(true) {
                required.push(name.clone());
            }
        }
        properties.entry(CALL_ID).or_insert_with(call_id);
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        tool_of(&tool.name, description.trim(), schema, false)
    };
    let own = own().into_iter();
    json!({ "tools": own.chain(models.iter().map(of_model)).collect::<Vec<_>>() })
}

/// Fails on an argument that a tool does not declare, or of another type. A model refuses one itself.
pub(super) fn check_arguments(tool: &str, arguments: &Map<String, Value>) -> Result {
    let Some(mut own) = own().into_iter().find(|own| own["name"] == tool) else { return Ok(()) };
    let Value::Object(declared) = own["inputSchema"]["properties"].take() else { return Ok(()) };
    for (name, value) in arguments {
        let Some(schema) = declared.get(name) else {
            let declared: Vec<&str> = declared.keys().map(String::as_str).collect();
            return Err(Failure::usage(printable(&format!("{tool} has no argument {name:?}")))
                .with_hint(format!("its arguments are {}; nothing was sent", declared.join(", "))));
        };
        let kind = schema["type"].as_str().unwrap_or_default();
        let fits = match kind {
            "object" => value.is_object(),
            "integer" => value.is_i64() || value.is_u64(),
            _ => value.is_string(),
        };
        if !fits {
            return Err(Failure::usage(format!("{tool}: the argument {name} is not of the type {kind}"))
                .with_hint("correct it and call again; nothing was sent"));
        }
    }
    Ok(())
}

fn own() -> [Value; 4] {
    let model = json!({"type": "string", "description": "The identifier of a model"});
    let inputs = json!({"type": "object", "description": "The inputs of the model, by name"});
    let object = |properties: Value, required: &[&str]| {
        json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        })
    };
    [
        tool_of(
            "quote",
            "Tells what a run of a model costs and what is left of the budget; with inputs, it checks them. Nothing is \
             created.",
            object(json!({"model": model, "inputs": inputs}), &["model"]),
            true,
        ),
        tool_of(
            "run",
            "Runs any model by its identifier, and saves its outputs in the folder of this server.",
            object(json!({"model": model, "inputs": inputs, CALL_ID: call_id()}), &["model", "inputs"]),
            false,
        ),
        tool_of(
            "task",
            "Shows a task with its status, inputs and result.",
            object(
                json!({"task": {"type": "string", "description": "The identifier of the task, or @last"}}),
                &["task"],
            ),
            true,
        ),
        tool_of(
            "files",
            "Lists stored files, newest first, with their URLs, which models take as inputs.",
            object(
                json!({
                    "folder": {"type": "string", "enum": UploadFolder::ALL},
                    "search": {"type": "string", "description": "Only files with this text in their names"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
                }),
                &["folder"],
            ),
            true,
        ),
    ]
}

fn tool_of(name: &str, description: &str, schema: Value, is_read: bool) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {
            "readOnlyHint": is_read, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true,
        },
    })
}

fn call_id() -> Value {
    json!({
        "type": "string",
        "description": "A call with the same inputs is the same task. Another identifier makes it another, paid task.",
    })
}

/// The JSON schema of an input.
fn schema_of(input: &Descriptor) -> Value {
    let samples: Vec<&str> = input.samples.iter().flatten().map(|sample| sample.as_str()).collect();
    let number = |kind: &str| {
        let mut schema = Map::from_iter([("type".to_owned(), kind.into())]);
        let range = input.num_config.as_ref();
        let bounds = [
            ("minimum", range.and_then(|range| range.min.as_ref())),
            ("maximum", range.and_then(|range| range.max.as_ref())),
        ];
        for (name, bound) in bounds {
            if let Some(bound) = bound.and_then(|bound| serde_json::from_str(&bound.to_string()).ok()) {
                schema.insert(name.to_owned(), bound);
            }
        }
        Value::Object(schema)
    };
    match &input.type_ {
        Some(DescriptorType::File) => {
            let accepted = input.mime_type.as_deref().unwrap_or_default().join(", ");
            let largest = largest_picture(input);
            let description = format!(
                "A file: a URL, or a path in the folder of this server. Accepted types: {accepted}{largest}"
            );
            json!({"type": "string", "description": printable(&description)})
        }
        Some(DescriptorType::Int) => number("integer"),
        Some(DescriptorType::Float) => number("number"),
        Some(DescriptorType::Options) if !samples.is_empty() => json!({"type": "string", "enum": samples}),
        Some(DescriptorType::String | DescriptorType::Options) => json!({"type": "string"}),
        _ => json!({}),
    }
}
