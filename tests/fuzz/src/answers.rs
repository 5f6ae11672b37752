//! Responses of the service: an operation on the first line, then the body.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use inferstore_document::types::rewritten;
use inferstore_document::{document, members, success_schema};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::document::must_be_read;
use crate::first_line;

/// Fields of a response without declared types that keep every digit.
const FREE: [&str; 4] = ["input_data", "result", "model_metadata", "num_config"];

/// Objects whose members all have one type, whatever their names.
const MAPS: [&str; 2] = ["input_format", "output_format"];

/// Invariants: no body makes a reader panic. A response with its identifiers and only harmless deviations is
/// read. Serializing it again keeps every digit, and reading that yields an equal value.
pub fn answers(data: &[u8]) {
    let (operation, body) = first_line(data);
    let schema = success_schema(&String::from_utf8_lossy(operation)).unwrap_or("Acknowledgement");
    if let Ok(answer) = serde_json::from_slice::<Value>(body)
        && must_be_read(schema, &answer)
    {
        // Serialized without duplicate names.
        let written = answer.to_string();
        if let Err(error) = rewritten(schema, &written) {
            panic!("{schema} refuses {written}: {error}");
        }
    }
    let Ok(text) = std::str::from_utf8(body) else { return };
    let Ok(written) = rewritten(schema, text) else { return };
    let again = rewritten(schema, &written).unwrap_or_else(|error| panic!("{written}: {error}"));
    assert_eq!(again, written, "it is read as another");
    nothing_is_lost("", text, &written);
}

/// Returns true if a type declares the member of an object. Undeclared fields are kept as any JSON.
fn is_typed(object: &str, name: &str) -> bool {
    static PROPERTIES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
        let inline_names = |property: &'static Value| members(&property["properties"]).map(|(name, _)| name);
        let schemas = members(&document()["components"]["schemas"]);
        let named = schemas.flat_map(|(_, schema)| members(&schema["properties"]));
        named.flat_map(|(name, property)| inline_names(property).chain([name])).collect()
    });
    !FREE.contains(&name) && (MAPS.contains(&object) || PROPERTIES.contains(name))
}

type Members<'a> = std::collections::BTreeMap<String, &'a RawValue>;

/// Asserts that every serialized value equals the received one, digit by digit.
fn nothing_is_lost(object: &str, came: &str, goes: &str) {
    // A parameter without a description still exists.
    if (came, goes) == ("null", "{}") {
        return;
    }
    if let Ok(going) = serde_json::from_str::<Members<'_>>(goes) {
        let Ok(coming) = serde_json::from_str::<Members<'_>>(came) else { panic!("{goes} came of {came}") };
        for (name, value) in going.iter().filter(|(name, _)| is_typed(object, name)) {
            let before = coming.get(name).map_or("null", |value| value.get());
            nothing_is_lost(name, before, value.get());
        }
    } else if let Ok(going) = serde_json::from_str::<Vec<&RawValue>>(goes) {
        let coming: Vec<Option<&RawValue>> = serde_json::from_str(came).expect("a list came of a list");
        let coming: Vec<&RawValue> = coming.into_iter().flatten().collect();
        assert_eq!(going.len(), coming.len(), "{came} became {goes}");
        for (going, coming) in going.iter().zip(coming) {
            nothing_is_lost(object, coming.get(), going.get());
        }
    } else {
        let plain = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.to_owned());
        let (came, goes) = (plain(came), plain(goes));
        let is_a_count = goes.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
            && came.parse() == goes.parse::<inferstore_api::Decimal>();
        // An absent field may be serialized as null.
        assert!(came == goes || came.trim() == goes || is_a_count, "{came} became {goes}");
    }
}
