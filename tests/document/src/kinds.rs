//! The model kinds of the document, with legal inputs of each as the document spells them.

use serde_json::{Value, json};

use crate::{document, members, resolve, schema};

/// The schemas of one kind.
pub struct KindSchemas {
    /// The name of the kind.
    pub name: &'static str,
    /// The name of the input schema.
    pub input_name: &'static str,
    /// The schema of an input.
    pub input: &'static Value,
    /// The schema of an output.
    pub output: &'static Value,
}

/// All kinds of the document.
pub fn kinds() -> impl Iterator<Item = KindSchemas> {
    members(&document()["components"]["schemas"]).filter_map(|(input_name, input)| {
        let kind = &input["x-model-kind"];
        let name = kind["name"].as_str()?;
        let output = schema(kind["output"].as_str().expect("a kind has an output"));
        Some(KindSchemas { name, input_name, input, output })
    })
}

/// How many kinds the document has. `description::kinds` holds that to the catalog.
pub fn count() -> usize {
    kinds().count()
}

impl KindSchemas {
    /// An input object for every legal value of every property: the first one has the first value of
    /// each, every other one differs from it in one property.
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

/// All options, all whole numbers, the bounds of a range and values within it.
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
