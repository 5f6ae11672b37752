//! Model kinds of the document, with valid inputs of each, as the document spells them.

use serde_json::{Value, json};

use crate::{document, members, resolve, schema};

/// Schemas of one kind.
pub struct KindSchemas {
    /// Name of the kind.
    pub name: &'static str,
    /// Name of the input schema.
    pub input_name: &'static str,
    /// Schema of an input.
    pub input: &'static Value,
    /// Schema of an output.
    pub output: &'static Value,
}

/// Returns all kinds of the document.
pub fn kinds() -> impl Iterator<Item = KindSchemas> {
    members(&document()["components"]["schemas"]).filter_map(|(input_name, input)| {
        let kind = &input["x-model-kind"];
        let name = kind["name"].as_str()?;
        let output = schema(kind["output"].as_str().expect("a kind has an output"));
        Some(KindSchemas { name, input_name, input, output })
    })
}

/// Returns the number of kinds. `description::kinds` compares it with the catalog.
pub fn count() -> usize {
    kinds().count()
}

impl KindSchemas {
    /// Returns inputs that cover every valid value of every property: the first has the first value of each,
    /// every other one differs from it in one property.
    pub fn legal_inputs(&self) -> Vec<Value> {
        let values: Vec<(&str, Vec<Value>)> = members(&self.input["properties"])
            .map(|(name, property)| (name, legal_values(resolve(property))))
            .collect();
        let first: Value =
            values.iter().map(|(name, values)| ((*name).to_owned(), values[0].clone())).collect();
        let mut inputs = vec![first.clone()];
        for (name, values) in &values {
            inputs.extend(values.iter().skip(1).map(|value| {
                let mut input = first.clone();
                input[*name] = value.clone();
                input
            }));
        }
        inputs
    }
}

fn legal_values(property: &Value) -> Vec<Value> {
    if let Some(words) = property["enum"].as_array() {
        return words.clone();
    }
    let number = &property["x-number"];
    match number["type"].as_str() {
        Some("integer") => {
            let bound = |name: &str| number[name].as_i64().expect("a whole number");
            (bound("minimum")..=bound("maximum")).map(|value| json!(value.to_string())).collect()
        }
        Some(_) => {
            assert_eq!((&number["minimum"], &number["maximum"]), (&json!(0), &json!(1)), "other bounds");
            ["0", "1", "0.5", "0.333", "0.05", "0.0", "1.00", "0.123456789012345678"]
                .map(Value::from)
                .to_vec()
        }
        None => vec![json!("https://files.example/a.png")],
    }
}
