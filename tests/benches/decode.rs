//! Decoding a page of 100 models, beside hand-written types and untyped JSON: `cargo bench --bench decode`.

#![expect(clippy::expect_used, reason = "a benchmark stops when it cannot go on")]

use std::hint::black_box;

use inferstore_api::Envelope;
use inferstore_api::types::ModelPage;
use inferstore_measure::{Better, Row, side_by_side, times};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const ROUNDS: usize = 9;
const TIMES: usize = 200;

/// Hand-written types: every field is present and of its type, and amounts are floats.
#[derive(Deserialize)]
#[expect(dead_code, reason = "they are read, and nothing is done with them")]
struct ByHand {
    status: String,
    message: String,
    data: Page,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "they are read, and nothing is done with them")]
struct Page {
    records: Vec<Model>,
    total: u64,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "they are read, and nothing is done with them")]
struct Model {
    id: String,
    name: String,
    username: String,
    description: String,
    is_official: bool,
    is_verified: bool,
    visibility: String,
    price: f64,
}

fn main() {
    let records: Vec<Value> = (0..100).map(model).collect();
    let page = json!({"status": "success", "message": "ok", "data": {"records": records, "total": 100}});
    let text = page.to_string();
    let read: Envelope<ModelPage> = serde_json::from_str(&text).expect("it is a page");
    assert_eq!(read.data.records.map(|records| records.len()), Some(100));
    tell::<ByHand>(&text, "types by hand, with floats", Some(0.9));
    tell::<Value>(&text, "serde_json::Value", None);
}

fn model(number: u32) -> Value {
    json!({
        "id": format!("model-{number}"), "name": format!("model_{number}"), "username": "lab",
        "description": "Removes the background of a picture, and keeps what stands in front of it.",
        "is_official": number.is_multiple_of(2), "is_verified": true, "visibility": "public", "price": 0.05,
    })
}

fn tell<T: DeserializeOwned>(text: &str, against: &str, minimum: Option<f64>) {
    let ours = || times(TIMES, 1e-6, || drop(black_box(ours(text.as_bytes()))));
    let theirs = || times(TIMES, 1e-6, || drop(black_box(theirs::<T>(text.as_bytes()))));
    let (ours, theirs) = side_by_side(ROUNDS, ours, theirs);
    let row = Row {
        group: "client".to_owned(),
        what: "reading a page of 100 models".to_owned(),
        against: against.to_owned(),
        unit: "µs".to_owned(),
        better: Better::Lower,
        ours,
        theirs,
        minimum,
        note: Some(
            "ours keeps every digit of an amount, and accepts a missing field, a null, a number as a text or \
             a new word. Types by hand lose digits, and lose a whole page because of one malformed record. \
             Ours stores the text of each amount"
                .to_owned(),
        ),
        command: "cargo bench --bench decode".to_owned(),
    };
    row.print();
}

/// Decodes like the generated client: UTF-8 is validated once.
fn ours(body: &[u8]) -> Envelope<ModelPage> {
    let text = str::from_utf8(black_box(body)).expect("it is UTF-8");
    serde_json::from_str(text).expect("it is a page")
}

fn theirs<T: DeserializeOwned>(body: &[u8]) -> T {
    serde_json::from_slice(black_box(body)).expect("it is a page")
}
