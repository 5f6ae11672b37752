//! The tools: their names, descriptions and JSON schemas.

use std::collections::HashSet;

use futures_util::stream;
use futures_util::{StreamExt, TryStreamExt};
use inferstore::types::{Descriptor, DescriptorType, ModelVersioning, UploadFolder};
use inferstore::{Client, by_position};
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Result};
use crate::lists;
use crate::schema::largest_picture;
use crate::table::printable;

/// The argument that tells calls with the same inputs apart.
pub(super) const CALL_ID: &str = "call_id";

/// The tools that are no models.
const OWN: [&str; 4] = ["quote", "run", "task", "files"];

const MAX_CONCURRENT_READS: usize = 8;

/// The longest name of a tool that clients take.
const MAX_NAME: usize = 64;

pub(super) struct ModelTool {
    name: String,
    pub(super) model: String,
    description: String,
    version: ModelVersioning,
}

/// Reads the models that are offered: those that were named, or the first ones of the catalog.
pub(super) async fn models(only: &[String], client: &Client) -> Result<Vec<ModelTool>> {
    let listed = lists::first_models(client).await?;
    let mut wanted: Vec<(String, String)> = listed
        .into_iter()
        .map(|model| (model.id.to_string(), model.description.unwrap_or_default()))
        .filter(|(id, _)| only.is_empty() || only.contains(id))
        .collect();
    let known: HashSet<String> = wanted.iter().map(|(id, _)| id.clone()).collect();
    wanted.extend(only.iter().filter(|id| !known.contains(*id)).map(|id| (id.clone(), String::new())));
    let tools = stream::iter(wanted).map(|(model, description)| async move {
        let version = client.model(&*model).versioning().await?;
        Ok::<_, Failure>(ModelTool {
            name: name_of(&model),
            model,
            description: printable(&description),
            version,
        })
    });
    let mut tools: Vec<ModelTool> = tools.buffered(MAX_CONCURRENT_READS).try_collect().await?;
    // A model without a name of its own is run by `run`.
    let mut names: HashSet<String> = OWN.map(str::to_owned).into();
    tools.retain(|tool| names.insert(tool.name.clone()));
    Ok(tools)
}

fn name_of(model: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    model.chars().map(|c| if is_plain(c) { c } else { '_' }).take(MAX_NAME).collect()
}

pub(super) fn model_of<'a>(tools: &'a [ModelTool], name: &str) -> Option<&'a str> {
    tools.iter().find(|tool| tool.name == name).map(|tool| tool.model.as_str())
}

pub(super) fn listed(models: &[ModelTool]) -> Value {
    let of_model = |tool: &ModelTool| {
        let description =
            format!("{} Runs the model {}; a run may cost money.", tool.description, tool.model);
        let mut properties = Map::new();
        let inputs = by_position(tool.version.input_format.as_ref());
        let required = inputs.iter().filter(|(_, input)| input.required == Some(true));
        let required: Vec<&str> = required.map(|(name, _)| name.as_str()).collect();
        properties.extend(inputs.into_iter().map(|(name, input)| (name.clone(), schema_of(input))));
        properties.entry(CALL_ID).or_insert_with(call_id);
        tool_of(&tool.name, description.trim(), json!(properties), &required, false)
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
    [
        tool_of(
            "quote",
            "Tells what a run of a model costs and what is left of the budget; with inputs, it checks them. Nothing is \
             created.",
            json!({"model": model, "inputs": inputs}),
            &["model"],
            true,
        ),
        tool_of(
            "run",
            "Runs any model by its identifier, and saves its outputs in the folder of this server.",
            json!({"model": model, "inputs": inputs, CALL_ID: call_id()}),
            &["model", "inputs"],
            false,
        ),
        tool_of(
            "task",
            "Shows a task with its status, inputs and result.",
            json!({"task": {"type": "string", "description": "The identifier of the task, or @last"}}),
            &["task"],
            true,
        ),
        tool_of(
            "files",
            "Lists stored files, newest first, with their URLs, which models take as inputs.",
            json!({
                "folder": {"type": "string", "enum": UploadFolder::ALL},
                "search": {"type": "string", "description": "Only files with this text in their names"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
            }),
            &["folder"],
            true,
        ),
    ]
}

fn tool_of(name: &str, description: &str, properties: Value, required: &[&str], is_read: bool) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        },
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

fn schema_of(input: &Descriptor) -> Value {
    let samples: Vec<&str> = input.samples.iter().flatten().map(|sample| sample.as_str()).collect();
    let number = |kind: &str| {
        let mut schema = json!({ "type": kind });
        let bounds =
            input.num_config.iter().flat_map(|range| [("minimum", &range.min), ("maximum", &range.max)]);
        for (name, bound) in bounds {
            if let Some(bound) = bound.as_ref().and_then(|bound| bound.to_string().parse().ok()) {
                schema[name] = bound;
            }
        }
        schema
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
