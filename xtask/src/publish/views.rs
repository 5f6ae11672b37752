//! Views of the document for tools that cannot read all of it: each status by itself, and a path for each model kind.

use indexmap::IndexMap;

use openapi_impact::{METHODS, Tree};

const RANGES: [(&str, &[&str]); 3] = [
    ("2XX", &["200"]),
    ("4XX", &["400", "402", "403", "404", "409", "429"]),
    ("5XX", &["500", "502", "503", "504"]),
];

const CREATE: &str = "createTask";

pub(super) fn single_statuses(document: &Tree) -> Tree {
    let Tree::Map(members) = document else { return document.map(|_, item| single_statuses(item)) };
    let mut all = IndexMap::new();
    for (key, value) in members {
        match RANGES.iter().find(|(range, _)| range == key) {
            Some((_, statuses)) => {
                for status in statuses.iter().filter(|status| !members.contains_key(**status)) {
                    all.insert((*status).to_owned(), single_statuses(value));
                }
            }
            None => _ = all.insert(key.clone(), single_statuses(value)),
        }
    }
    Tree::Map(all)
}

pub(super) fn typed(document: &Tree) -> Tree {
    let Tree::Map(members) = document else { return document.clone() };
    let creates = |item: &Tree| item["post"]["operationId"].as_str() == Some(CREATE);
    let template = document["paths"].members().find(|(_, item)| creates(item));
    let Some((path, item)) = template else { return document.clone() };
    let mut paths: IndexMap<String, Tree> = IndexMap::new();
    for (name, schema) in document["components"]["schemas"].members() {
        if let Some(kind) = schema["x-model-kind"]["name"].as_str() {
            paths.insert(path.replace("{id}", kind), of_kind(document, item, kind, name));
        }
    }
    paths.extend(document["paths"].members().map(|(path, item)| (path.to_owned(), item.clone())));
    let mut members = members.clone();
    members.insert("paths".to_owned(), Tree::Map(paths));
    Tree::Map(members)
}

fn of_kind(document: &Tree, item: &Tree, kind: &str, input: &str) -> Tree {
    let of_model = |parameter: &Tree| parameter.resolved(document)["in"].is("path");
    let others = |parameters: &Tree| {
        Tree::List(parameters.items().iter().filter(|parameter| !of_model(parameter)).cloned().collect())
    };
    let schema = map([("$ref", Tree::text(format!("#/components/schemas/{input}")))]);
    let content = map([("application/json", map([("schema", schema)]))]);
    let create = item["post"].members().map(|(key, value)| {
        let value = match key {
            "operationId" => Tree::text(format!("{CREATE}{}", input.trim_end_matches("Input"))),
            "summary" => Tree::text(format!("Run {kind}")),
            "parameters" => others(value),
            "requestBody" => map([("required", Tree::Scalar(true.into())), ("content", content.clone())]),
            _ => value.clone(),
        };
        (key.to_owned(), value)
    });
    let create = Tree::Map(create.filter(|(key, _)| key != "x-codeSamples").collect());
    let item = item.members().filter(|(key, _)| !METHODS.contains(key)).map(|(key, value)| {
        (key.to_owned(), if key == "parameters" { others(value) } else { value.clone() })
    });
    Tree::Map(item.chain([("post".to_owned(), create)]).collect())
}

fn map<const N: usize>(members: [(&str, Tree); N]) -> Tree {
    Tree::Map(members.map(|(key, value)| (key.to_owned(), value)).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_range_becomes_the_statuses_that_are_not_there() {
        let responses = json!({"200": "a", "2XX": "a", "404": "b", "4XX": "c"});
        let view = single_statuses(&Tree::from(json!({"responses": responses})));
        let expected =
            json!({"200": "a", "404": "b", "400": "c", "402": "c", "403": "c", "409": "c", "429": "c"});
        assert!(view["responses"].members().all(|(key, value)| value.as_str() == expected[key].as_str()));
        assert_eq!(view["responses"].members().count(), 7);
    }

    #[test]
    fn a_kind_has_a_path_of_its_own_with_its_typed_input() {
        let parameters = json!([{"$ref": "#/components/parameters/Id"}, {"name": "key", "in": "header"}]);
        let create =
            json!({"operationId": CREATE, "parameters": parameters, "requestBody": {"required": true}});
        let document = Tree::from(json!({
            "paths": {"/model/{id}/task": {"post": create}},
            "components": {
                "parameters": {"Id": {"name": "id", "in": "path"}},
                "schemas": {"FaceMeshInput": {"x-model-kind": {"name": "face-mesh"}}},
            },
        }));
        let view = typed(&document);
        let create = &view["paths"]["/model/face-mesh/task"]["post"];
        assert_eq!(create["operationId"].as_str(), Some("createTaskFaceMesh"));
        let schema = &create["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(schema.as_str(), Some("#/components/schemas/FaceMeshInput"));
        assert_eq!(create["parameters"].items().len(), 1);
        assert_eq!(view["paths"].members().count(), 2);
    }
}
