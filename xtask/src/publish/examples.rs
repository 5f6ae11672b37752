//! Every example of the document is valid against its schema, read with nothing but the published JSON Schemas.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::json_schemas::JsonSchemas;
use crate::document::Pointer;
use openapi_impact::Tree;

pub(super) fn check(document: &Tree, schemas: &JsonSchemas) -> Result<usize> {
    let mut check = Check { schemas, seen: 0, mistakes: Vec::new() };
    check.walk(document, &Pointer::root())?;
    if !check.mistakes.is_empty() {
        bail!("examples that do not fit their schemas:\n  {}", check.mistakes.join("\n  "));
    }
    Ok(check.seen)
}

struct Check<'a> {
    schemas: &'a JsonSchemas,
    seen: usize,
    mistakes: Vec<String>,
}

impl Check<'_> {
    fn walk(&mut self, value: &Tree, pointer: &Pointer) -> Result<()> {
        match value {
            Tree::Map(members) => {
                if let Some(schema) = members.get("schema") {
                    self.examples(value, &self.schemas.unnamed(schema), pointer)?;
                }
                for (key, value) in members {
                    self.walk(value, &pointer.at(key))?;
                }
            }
            Tree::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.walk(item, &pointer.at(index))?;
                }
            }
            Tree::Scalar(_) => {}
        }
        Ok(())
    }

    fn examples(&mut self, value: &Tree, schema: &Tree, pointer: &Pointer) -> Result<()> {
        let schema = serde_json::to_value(schema).context("a schema cannot be written")?;
        let validator = jsonschema::options().should_validate_formats(true).build(&schema);
        let validator = validator.map_err(|error| error.to_owned()).with_context(|| {
            format!("{pointer} has a schema that does not become a JSON Schema of 2020-12")
        })?;
        let single = value.get("example").map(|example| (pointer.at("example"), example));
        let named = value
            .get("examples")
            .into_iter()
            .flat_map(Tree::members)
            .filter_map(|(name, example)| Some((pointer.at("examples").at(name), example.get("value")?)));
        for (pointer, example) in single.into_iter().chain(named) {
            let example: Value = serde_json::to_value(example).context("an example cannot be written")?;
            self.seen += 1;
            for error in validator.iter_errors(&example) {
                self.mistakes.push(format!("{pointer}{}: {error}", error.instance_path()));
            }
        }
        Ok(())
    }
}
