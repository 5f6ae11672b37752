//! Lenient deserialization: responses with missing, null, new or differently spelled fields, and unknown
//! words, are read.

use inferstore_api::types;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use inferstore_document::types::rewritten;
use inferstore_document::{members, operations, success_schema};

fn read<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_str(&json.to_string()).unwrap_or_else(|error| panic!("{error} in {json}"))
}

#[test]
fn an_answer_with_its_identity_alone_is_read() {
    let task: types::TaskDetail = read(json!({"task_id": "t-1"}));
    assert_eq!((task.task_id.to_string(), task.status, task.cost), ("t-1".to_owned(), None, None));
    let model: types::ModelDetail = read(json!({"id": "m-1"}));
    assert_eq!((model.price, model.created_at, model.model_metadata), (None, None, None));
    let balance: types::AccountBalance = read(json!({}));
    assert_eq!(balance, types::AccountBalance::default());
}

#[test]
fn an_answer_without_its_identity_is_refused() {
    for json in [json!({}), json!({"task_id": null})] {
        assert!(serde_json::from_value::<types::TaskDetail>(json.clone()).is_err(), "{json}");
    }
}

#[test]
fn unknown_words_are_kept_and_go_out_as_they_came() {
    let json = json!({"task_id": "t-1", "status": "paused"});
    let task: types::TaskDetail = read(json.clone());
    assert_eq!(task.status, Some(types::TaskStatus::Other("paused".to_owned())));
    assert_eq!(serde_json::to_value(&task).expect("a task is JSON"), json);
    let model: types::ModelSummary = read(json!({"id": "m-1", "visibility": "unlisted"}));
    assert_eq!(model.visibility.map(|word| word.to_string()).as_deref(), Some("unlisted"));
    let descriptor: types::Descriptor = read(json!({"type": "point_cloud"}));
    assert_eq!(descriptor.type_, Some(types::DescriptorType::from("point_cloud")));
}

#[test]
fn words_for_people_that_cannot_be_read_are_absent() {
    let json = json!({"type": "file", "description": ["a"], "labels": ["a"], "max_pixels": "many"});
    let descriptor: types::Descriptor = read(json);
    assert_eq!(descriptor.type_, Some(types::DescriptorType::File));
    assert_eq!((descriptor.description, descriptor.labels, descriptor.max_pixels), (None, None, None));
}

#[test]
fn a_word_is_the_same_however_it_was_made() {
    assert_eq!(types::TaskStatus::Other("success".to_owned()), types::TaskStatus::Success);
    assert_eq!(types::TaskStatus::from("success"), types::TaskStatus::Success);
    let words = inferstore_document::schema("TaskStatus")["x-extensible-enum"].as_array().map(Vec::len);
    assert_eq!(Some(types::TaskStatus::KNOWN.len()), words);
}

#[test]
fn a_word_that_a_request_does_not_have_is_refused_with_those_it_has() {
    let error = "attic".parse::<types::UploadFolder>().expect_err("there is no such folder");
    assert_eq!(error.to_string(), r#""attic" is not among avatars, thumbnails, covers, samples, documents"#);
}

#[test]
fn records_may_be_null_or_hold_nulls() {
    let page: types::TaskPage = read(json!({"records": null, "total": 0}));
    assert_eq!((page.records, page.total), (None, Some(0)));
    let page: types::TaskPage = read(json!({"records": [null, {"task_id": "t-1"}]}));
    assert_eq!(page.records.map(|records| records.len()), Some(1));
}

#[test]
fn a_whole_number_is_one_however_it_is_spelled() {
    for (total, expected) in
        [("5", 5), ("5.0", 5), ("\"5\"", 5), ("\"5.00\"", 5), ("5e1", 50), ("-0.0", 0), ("1200e-2", 12)]
    {
        let page: types::TaskPage = serde_json::from_str(&format!(r#"{{"total": {total}}}"#)).expect(total);
        assert_eq!(page.total, Some(expected), "{total}");
    }
    for total in ["5.5", "1e300", "9223372036854775808.0", "18446744073709551616", "\"five\""] {
        let page = serde_json::from_str::<types::TaskPage>(&format!(r#"{{"total": {total}}}"#));
        assert!(page.is_err(), "{total}: {page:?}");
    }
}

#[test]
fn an_odd_timestamp_in_one_record_does_not_lose_the_page() {
    let stamps = [
        json!("yesterday"),
        json!(""),
        json!(1_700_000_000),
        json!({"seconds": 5}),
        json!("2026-04-02T09:30:00Z"),
    ];
    let records: Vec<_> = stamps.iter().map(|stamp| json!({"task_id": "t-1", "created_at": stamp})).collect();
    let json = json!({"records": records});
    let page: types::TaskPage = read(json.clone());
    let read: Vec<_> = page.records.iter().flatten().filter_map(|record| record.created_at.clone()).collect();
    let readable: Vec<_> = read.iter().map(|stamp| stamp.to_system_time().is_some()).collect();
    assert_eq!(readable, [false, false, false, false, true]);
    assert_eq!(serde_json::to_value(&page).expect("a page is JSON"), json, "and goes out as it came");
}

#[test]
fn timestamps_are_read_in_every_spelling_of_iso_8601_that_services_use() {
    let spellings = [
        "2026-04-02T09:30:00Z",
        "2026-04-02T09:30:00.000Z",
        "2026-04-02T09:30:00.000000000Z",
        "2026-04-02T09:30:00+00:00",
        "2026-04-02T11:30:00+02:00",
        "2026-04-02T09:30:00",
        "2026-04-02 09:30:00",
        "20260402T093000Z",
    ];
    let expected = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_775_122_200);
    for spelling in spellings {
        assert_eq!(inferstore_api::Timestamp::from(spelling).to_system_time(), Some(expected), "{spelling}");
    }
}

#[test]
fn samples_keep_the_shape_that_shows_how_to_send_a_parameter() {
    let json = json!({"type": "int", "samples": ["30", 45, 0.5]});
    let descriptor: types::Descriptor = read(json.clone());
    let samples = descriptor.samples.clone().expect("there are samples");
    let shapes: Vec<_> = samples.iter().map(|sample| (sample.as_str(), sample.is_string())).collect();
    assert_eq!(shapes, [("30", true), ("45", false), ("0.5", false)]);
    assert_eq!(serde_json::to_value(&descriptor).expect("a descriptor is JSON"), json);
}

#[test]
fn a_range_that_cannot_be_read_does_not_lose_the_version_of_a_model() {
    for odd in [json!("1 to 90"), json!(90), json!(true), json!([1, 90]), json!([{"min": 1}])] {
        let format = json!({"angle": {"type": "int", "num_config": odd, "samples": ["30"]}});
        let version: types::ModelVersioning = read(json!({"model_id": "m-1", "input_format": format}));
        let angle = &version.input_format.expect("the inputs are declared")["angle"];
        assert_eq!((angle.num_config.clone(), angle.samples.iter().flatten().count()), (None, 1));
    }
    let config = json!({"min": "low", "max": {"at": 9}, "step": "0.30000000000000000001", "of": [1]});
    let descriptor: types::Descriptor = read(json!({"num_config": config}));
    let range = descriptor.num_config.expect("some of it can be read");
    assert_eq!((range.min, range.max, range.step), (None, None, "0.30000000000000000001".parse().ok()));
}

#[test]
fn answers_can_be_part_of_other_types() {
    // Flattened and untagged fields pass through serde's own buffer, which has no raw JSON.
    #[derive(serde::Deserialize)]
    struct Report {
        at: String,
        #[serde(flatten)]
        record: types::TaskRecord,
    }
    let report: Report =
        read(json!({"at": "now", "task_id": "t-1", "cost": 0.05, "created_at": "2026-04-02T09:30:00Z"}));
    assert_eq!((report.at.as_str(), report.record.cost), ("now", "0.05".parse().ok()));

    #[derive(serde::Deserialize)]
    struct Named {
        #[serde(flatten)]
        descriptor: types::Descriptor,
    }
    let limits = |json| read::<Named>(json).descriptor.num_config.map(|range| (range.min, range.max));
    let (one, none) = ("1".parse().ok(), None);
    assert_eq!(limits(json!({"num_config": {"min": 1, "max": "high"}})), Some((one, none)));
    assert_eq!(limits(json!({"num_config": "1 to 90"})), None);
}

type Mutation = (&'static str, fn(&Value) -> Option<Value>);

const MUTATIONS: [Mutation; 4] = [
    ("null", |_| Some(Value::Null)),
    // A numeric string becomes that number, another text some number.
    ("a string as a number", |value| Some(amount(value.as_str()?).unwrap_or_else(|| json!(7)))),
    ("a string of something else", |value| {
        (value.is_number() || value.is_boolean()).then(|| json!(value.to_string()))
    }),
    // A new word replaces a word, but not an amount.
    ("a new word", |value| amount(value.as_str()?).is_none().then(|| json!("something_new"))),
];

fn amount(text: &str) -> Option<Value> {
    text.parse().ok().map(Value::Number)
}

/// Required fields of a response: identifiers, the payload, a new key, and targets of an upload.
const INDISPENSABLE: [&str; 9] = [
    "/data",
    "/status",
    "/data/data",
    "/data/id",
    "/data/key",
    "/data/task_id",
    "/data/model_id",
    "/data/endpoint",
    "/data/fields",
];

fn is_indispensable(pointer: &str) -> bool {
    let in_record = |field: &str| {
        (pointer.starts_with("/data/records/") || pointer.starts_with("/data/files/"))
            && pointer.ends_with(field)
    };
    INDISPENSABLE.contains(&pointer)
        || pointer == "/data/download_url"
        || in_record("/id")
        || in_record("/task_id")
}

#[test]
fn more_than_five_hundred_mutated_answers_are_read() {
    let mut tried = 0;
    let mut failures = Vec::new();
    for (id, original) in answers() {
        let schema = success_schema(id).expect("it has a success");
        for pointer in pointers(&original) {
            if is_indispensable(&pointer) {
                continue;
            }
            for (what, mutated) in mutated(&original, &pointer) {
                tried += 1;
                if let Err(error) = rewritten(schema, &mutated.to_string()) {
                    failures.push(format!("{id}: {what} at {pointer}: {error}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {tried}: {failures:#?}", failures.len());
    assert!(tried > 500, "only {tried} were tried");
}

fn answers() -> impl Iterator<Item = (&'static str, Value)> {
    operations().flat_map(|operation| {
        let successes = operation.responses().filter(|(code, _)| code.starts_with('2'));
        successes.flat_map(move |(_, content)| {
            members(&content["examples"]).map(move |(_, example)| (operation.id(), example["value"].clone()))
        })
    })
}

fn mutated(original: &Value, pointer: &str) -> Vec<(&'static str, Value)> {
    let value = original.pointer(pointer).expect("the pointer was read from it");
    let mut all = Vec::new();
    for (what, mutate) in MUTATIONS {
        if let Some(new) = mutate(value) {
            all.push((what, changed(original, pointer, |place| *place = new)));
        }
    }
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    if original.pointer(parent).is_some_and(Value::is_object) {
        all.push((
            "missing",
            changed(original, parent, |place| drop(place.as_object_mut().and_then(|map| map.remove(key)))),
        ));
    }
    if value.is_object() {
        all.push((
            "a new field",
            changed(original, pointer, |place| place["something_new"] = json!({"deep": [1, null]})),
        ));
    }
    all
}

fn changed(original: &Value, pointer: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut copy = original.clone();
    change(copy.pointer_mut(pointer).expect("the pointer was read from it"));
    copy
}

/// Returns every position in a value, except the root and the inside of inputs and outputs.
fn pointers(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(key, child)| (key.replace('/', "~1"), child)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, child)| (index.to_string(), child)).collect()
        }
        _ => Vec::new(),
    };
    children
        .into_iter()
        .flat_map(|(key, child)| {
            let below =
                pointers(child).into_iter().map(|pointer| format!("/{key}{pointer}")).collect::<Vec<_>>();
            std::iter::once(format!("/{key}")).chain(below)
        })
        .collect()
}
