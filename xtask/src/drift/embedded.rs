//! The part of the document that programs embed: its operations, and the schemas of their responses without texts.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::validate::{items, members, operations, resolved};
use crate::words::OPEN;

pub(crate) const EMBEDDED: &str = "crates/drift/src/document.json";

/// The keywords of a schema that a response is compared with, and that hold no schemas.
const KEYWORDS: [&str; 6] = ["$ref", "type", "nullable", "required", OPEN, "x-keep-shape"];

pub(crate) fn embedded(document: &Value) -> String {
    let mut paths = Map::new();
    let mut reached = BTreeSet::new();
    for (path, method, shared, operation) in operations(document) {
        let parameters: Vec<Value> = items(shared)
            .chain(items(&operation["parameters"]))
            .map(|parameter| resolved(document, parameter))
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| json!({"name": parameter["name"], "in": "path", "schema": pruned(&parameter["schema"])}))
            .collect();
        let response = resolved(document, &operation["responses"]["2XX"]);
        let schema = pruned(&response["content"]["application/json"]["schema"]);
        reach(document, &schema, &mut reached);
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[method] = json!({
            "operationId": operation["operationId"],
            "parameters": parameters,
            "responses": {"2XX": {"content": {"application/json": {"schema": schema}}}},
        });
    }
    let schemas: Map<String, Value> = members(&document["components"]["schemas"])
        .filter(|(name, _)| reached.contains(*name))
        .map(|(name, schema)| (name.to_owned(), pruned(schema)))
        .collect();
    format!("{:#}\n", json!({"paths": paths, "components": {"schemas": schemas}}))
}

fn reach(document: &Value, schema: &Value, reached: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next())
        && reached.insert(name.to_owned())
    {
        reach(document, &pruned(&document["components"]["schemas"][name]), reached);
    }
    members(schema)
        .map(|(_, member)| member)
        .chain(items(schema))
        .for_each(|inner| reach(document, inner, reached));
}

fn pruned(schema: &Value) -> Value {
    let kept = members(schema).filter_map(|(keyword, value)| {
        let value = match keyword {
            "properties" => {
                members(value).map(|(name, property)| (name.to_owned(), pruned(property))).collect()
            }
            "allOf" => items(value).map(pruned).collect(),
            "items" => pruned(value),
            "additionalProperties" if value.is_object() => pruned(value),
            keyword if KEYWORDS.contains(&keyword) => value.clone(),
            _ => return None,
        };
        Some((keyword.to_owned(), value))
    });
    Value::Object(kept.collect())
}
