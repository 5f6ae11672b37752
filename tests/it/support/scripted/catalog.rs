//! The models, and what the API tells about them.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::plan::TaskPlan;

/// The identifier of the model that is there from the beginning.
pub(crate) const DEFAULT_MODEL: &str = "color-harmonization";

/// What a list carries of a model.
const HEADLINES: [&str; 8] =
    ["id", "name", "username", "description", "is_official", "is_verified", "visibility", "price"];

/// What a model declares beside its record.
const VERSION: [&str; 4] = ["commit_hash", "is_active", "input_format", "output_format"];

pub(super) struct Model {
    pub(super) record: Value,
    /// The active version as `getModelVersioning` tells it.
    pub(super) version: Value,
    pub(super) is_serving: bool,
    pub(super) plan: TaskPlan,
}

impl Model {
    /// From the fields of a model and of its version together. What is left out is made up.
    pub(super) fn new(given: Value) -> Self {
        let Value::Object(mut given) = given else { panic!("a model is a JSON object, not {given}") };
        let id = given.get("id").and_then(Value::as_str).expect("a model has an id").to_owned();
        let mut version = object(json!({
            "commit_hash": "version-1",
            "is_active": true,
            "input_format": {"input": {"type": "file", "mime_type": ["image/*"], "required": true, "position": 0}},
            "output_format": {"output": {"type": "file", "mime_type": ["image/png"], "position": 0}},
        }));
        version.extend(VERSION.iter().filter_map(|name| given.remove_entry(*name)));
        version.insert("model_id".to_owned(), json!(id));
        let mut record = object(json!({
            "name": id.replace('-', "_"),
            "username": "inferstore",
            "description": format!("The scripted model {id}."),
            "is_official": true,
            "is_verified": true,
            "visibility": "public",
            "price": 0.05,
            "model_metadata": {"id": format!("metadata-of-{id}"), "model_id": id, "task": "image-to-image"},
            "created_at": "2026-01-05T08:00:00Z",
            "updated_at": "2026-03-11T16:20:31.250Z",
        }));
        record.extend(given);
        let (record, version) = (Value::Object(record), Value::Object(version));
        Self { record, version, is_serving: true, plan: TaskPlan::default() }
    }

    /// Takes an image, a word and a number that is sent as a string.
    pub(super) fn color_harmonization(sample: &str) -> Self {
        Self::new(json!({
            "id": DEFAULT_MODEL,
            "description": "Shifts the hues of an image until they fit a template.",
            "input_format": {
                "input_image": {
                    "type": "file", "mime_type": ["image/*"], "required": true, "position": 0,
                    "samples": [sample],
                },
                "template": {
                    "type": "options", "required": true, "position": 1,
                    "samples": [
                        "vertical_bar", "v_shape", "right_angle", "left_angle",
                        "double_bar", "t_shape", "y_branch", "x_cross",
                    ],
                },
                "angle": {
                    "type": "int", "required": true, "position": 2,
                    "num_config": {"min": 1, "max": 90, "step": 1}, "samples": ["30", "45"],
                },
            },
            "output_format": {
                "output_image": {"type": "file", "mime_type": ["image/png"], "position": 0},
                "output_hue": {"type": "file", "mime_type": ["image/png"], "position": 1},
            },
        }))
    }

    pub(super) fn id(&self) -> &str {
        self.record["id"].as_str().expect("a model has an id")
    }

    pub(super) fn full_record(&self) -> Answer {
        Answer::success(&self.record)
    }

    pub(super) fn cost(&self) -> Answer {
        Answer::success(&json!({"cost": self.record["price"], "symbol": "$", "unit": "USD"}))
    }

    pub(super) fn serving(&self) -> Answer {
        Answer::success(&json!({"serving": self.is_serving, "consumers": 0}))
    }

    pub(super) fn versioning(&self) -> Answer {
        Answer::success(&self.version)
    }

    fn headlines(&self) -> Value {
        let fields = HEADLINES.iter().map(|name| ((*name).to_owned(), self.record[*name].clone()));
        Value::Object(fields.collect())
    }

    fn passes(&self, query: &Value) -> bool {
        let search = query["search"].as_str().unwrap_or_default().to_lowercase();
        let mentions =
            |field| self.record[field].as_str().is_some_and(|it| it.to_lowercase().contains(&search));
        let passes_filter = match query["filter_by"].as_str() {
            Some("official") => self.record["is_official"] == true,
            Some("community") => self.record["is_official"] == false,
            Some("permission") => true,
            _ => self.record["visibility"] == "public",
        };
        passes_filter && (mentions("name") || mentions("description"))
    }
}

/// A page of models, in the order in which they were added unless a time is asked for.
pub(super) fn page(models: &[Model], body: &[u8]) -> Answer {
    let Ok(query) = serde_json::from_slice::<Value>(body) else {
        return Answer::failure(400, "the body is not JSON");
    };
    let mut found: Vec<&Model> = models.iter().filter(|model| model.passes(&query)).collect();
    let time = |field| move |model: &&Model| model.record[field].as_str().unwrap_or_default().to_owned();
    match query["sort"].as_str() {
        Some("created_oldest") => found.sort_by_key(time("created_at")),
        Some("created") => found.sort_by_key(|model| std::cmp::Reverse(time("created_at")(model))),
        Some("modified") => found.sort_by_key(|model| std::cmp::Reverse(time("updated_at")(model))),
        _ => {}
    }
    let number = |name: &str, default| query[name].as_u64().map_or(default, |number| number as usize);
    let records = found.iter().skip(number("offset", 0)).take(number("limit", 10));
    let records: Vec<Value> = records.map(|model| model.headlines()).collect();
    // The service may say null or an empty list. A reader that is ready for null is ready for both.
    let records = if records.is_empty() { Value::Null } else { Value::Array(records) };
    Answer::success(&json!({"records": records, "total": found.len()}))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}
