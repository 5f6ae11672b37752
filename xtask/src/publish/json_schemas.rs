//! Every resource, every model input and every model output as a JSON Schema of its own, which needs no other file and
//! no other vocabulary: validators in strict mode refuse unknown keywords and formats.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde_json::json;

use super::view31;
use crate::words::OPEN;
use openapi_impact::Tree;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
const COMPONENTS: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/$defs/";

pub(super) struct JsonSchemas {
    version: String,
    all: IndexMap<String, Tree>,
}

impl JsonSchemas {
    pub(super) fn of(document: &Tree, version: &str) -> Self {
        let schemas = document.get("components").and_then(|components| components.get("schemas"));
        let all = schemas.into_iter().flat_map(Tree::members);
        let all = all.map(|(name, schema)| (name.to_owned(), pointed(&view31::schema(schema))));
        Self { version: version.to_owned(), all: all.collect() }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    pub(super) fn named(&self, name: &str) -> Option<Tree> {
        Some(portable(&self.whole(Some(name), self.all.get(name)?)))
    }

    pub(super) fn unnamed(&self, schema: &Tree) -> Tree {
        self.whole(None, &pointed(&view31::schema(schema)))
    }

    fn whole(&self, name: Option<&str>, schema: &Tree) -> Tree {
        let mut whole = IndexMap::from([("$schema".to_owned(), Tree::text(DIALECT))]);
        if let Some(name) = name {
            whole.insert("$id".to_owned(), Tree::text(format!("urn:inferstore:{}:{name}", self.version)));
            whole.insert("title".to_owned(), Tree::text(name));
        }
        whole.extend(schema.members().map(|(key, value)| (key.to_owned(), value.clone())));
        let used = self.used_by(schema);
        if !used.is_empty() {
            let definitions = self.all.iter().filter(|(name, _)| used.contains(name.as_str()));
            let definitions = definitions.map(|(name, schema)| (name.clone(), schema.clone())).collect();
            whole.insert("$defs".to_owned(), Tree::Map(definitions));
        }
        Tree::Map(whole)
    }

    pub(super) fn names_of_kinds(&self) -> BTreeSet<&str> {
        let mut roots = BTreeSet::new();
        for (input, schema) in &self.all {
            if let Some(kind) = schema.get("x-model-kind") {
                roots.insert(input.as_str());
                roots.extend(kind.get("output").and_then(Tree::as_str));
            }
        }
        let of_kinds = self.used_by_each(&roots);
        let others = self.names().filter(|name| !roots.contains(name) && !of_kinds.contains(*name));
        let of_others = self.used_by_each(&others.collect());
        let only_of_kinds =
            |name: &&str| roots.contains(name) || (of_kinds.contains(*name) && !of_others.contains(*name));
        self.names().filter(only_of_kinds).collect()
    }

    fn used_by_each(&self, names: &BTreeSet<&str>) -> BTreeSet<String> {
        names.iter().filter_map(|name| self.all.get(*name)).flat_map(|schema| self.used_by(schema)).collect()
    }

    fn used_by(&self, schema: &Tree) -> BTreeSet<String> {
        let mut used = BTreeSet::new();
        let mut open = vec![schema];
        while let Some(schema) = open.pop() {
            let mut names = Vec::new();
            references(schema, &mut names);
            for name in names {
                if used.insert(name.to_owned()) {
                    open.extend(self.all.get(name));
                }
            }
        }
        used
    }

    /// The model kinds, for programs that look for the schema of an input: name, input, output.
    pub(super) fn kinds(&self) -> Tree {
        let kinds = self.all.iter().filter_map(|(input, schema)| {
            let kind = schema.get("x-model-kind")?;
            let (name, output) = (kind.get("name")?.as_str()?, kind.get("output")?.as_str()?);
            let file = |name: &str| format!("schemas/{name}.json");
            let files = json!({"input": file(input), "output": file(output)});
            Some((name.to_owned(), Tree::from(files)))
        });
        Tree::Map(kinds.collect())
    }
}

/// The schema without extensions and formats. The words of an open vocabulary become examples.
fn portable(schema: &Tree) -> Tree {
    let Tree::Map(members) = schema else { return schema.map(|_, item| portable(item)) };
    let mut kept = IndexMap::new();
    for (key, value) in members {
        match key.as_str() {
            OPEN => kept.insert("examples".to_owned(), value.clone()),
            // A format restricts nothing in JSON Schema of 2020-12.
            "format" if value.as_str() == Some("int32") => {
                kept.entry("maximum".to_owned()).or_insert(Tree::Scalar(json!(i32::MAX)));
                None
            }
            "format" if value.as_str() == Some("uri") => {
                kept.insert("pattern".to_owned(), Tree::text("^[A-Za-z][A-Za-z0-9+.-]*:"))
            }
            "format" if value.as_str().is_some() => None,
            "properties" | "$defs" => kept.insert(key.clone(), value.map(|_, schema| portable(schema))),
            "examples" | "default" | "enum" => kept.insert(key.clone(), value.clone()),
            key if key.starts_with("x-") => None,
            key => kept.insert(key.to_owned(), portable(value)),
        };
    }
    Tree::Map(kept)
}

fn references<'a>(schema: &'a Tree, names: &mut Vec<&'a str>) {
    match schema {
        Tree::Map(members) => {
            let reference = members.get("$ref").and_then(Tree::as_str);
            names.extend(reference.and_then(|reference| reference.strip_prefix(DEFINITIONS)));
            members.values().for_each(|value| references(value, names));
        }
        Tree::List(items) => items.iter().for_each(|item| references(item, names)),
        Tree::Scalar(_) => {}
    }
}

fn pointed(schema: &Tree) -> Tree {
    schema.map(|key, value| {
        let name = value.as_str().and_then(|text| text.strip_prefix(COMPONENTS));
        match name.filter(|_| key == "$ref") {
            Some(name) => Tree::text(format!("{DEFINITIONS}{name}")),
            None => pointed(value),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_only_inputs_refer_to_stands_with_them() {
        let reference = |name: &str| json!({"$ref": format!("{COMPONENTS}{name}")});
        let document = json!({"components": {"schemas": {
            "BlurInput": {
                "x-model-kind": {"name": "blur", "output": "BlurResult"},
                "properties": {"method": reference("BlurMethod"), "image": reference("FileUrl")},
            },
            "BlurResult": {"properties": {"image": reference("FileUrl")}},
            "BlurMethod": {"type": "string"},
            "FileUrl": {"type": "string"},
            "StorageFile": {"properties": {"url": reference("FileUrl")}},
            "TaskInput": {"type": "object"},
        }}});
        let schemas = JsonSchemas::of(&Tree::from(document), "2.0.0");
        let of_kinds: Vec<&str> = schemas.names_of_kinds().into_iter().collect();
        assert_eq!(of_kinds, ["BlurInput", "BlurMethod", "BlurResult"]);
    }
}
