//! Enumerations: exactly the described words in the described order, with their meanings.

use super::{DECISION, Differences, says, statements, strings, words_of};
use inferstore_document::{document, members, schema};

/// Word, and a pattern of its explanation; empty without one.
type Word = (&'static str, &'static str);

const ENUMERATIONS: &[(&str, &[Word])] = &[
    ("EnvelopeStatus", &[("success", ""), ("fail", "")]),
    (
        "TaskStatus",
        &[
            ("in_queue", ""),
            ("computing", ""),
            ("success", "terminal"),
            ("failed", "terminal"),
            ("canceled", "terminal"),
        ],
    ),
    ("Visibility", &[("public", ""), ("private", "")]),
    (
        "ModelSort",
        &[
            ("created_oldest", "oldest first"),
            ("created", "newest first"),
            ("modified", "most recently updated first"),
            ("likes", "most … first"),
            ("downloads", "most … first"),
            ("trending", "most … first"),
        ],
    ),
    (
        "ModelFilter",
        &[
            ("official", ""),
            ("public", ""),
            ("community", "not official"),
            ("author", "owned by the caller"),
            ("playground", ""),
            ("permission", "all models the caller may access … private"),
        ],
    ),
    (
        "UploadFolder",
        &[("avatars", ""), ("thumbnails", ""), ("covers", ""), ("samples", ""), ("documents", "")],
    ),
    ("MimeCategory", &[("image", ""), ("audio", ""), ("video", ""), ("application", ""), ("text", "")]),
];

/// Values of a descriptor's type that were seen. The full list is open.
const DESCRIPTOR_TYPES_SEEN: &[&str] = &["file", "int"];

#[test]
fn every_enumeration_has_exactly_the_described_words_in_their_order() {
    let mut differences = Differences::default();
    for (name, words) in ENUMERATIONS {
        let described: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let item = |word: &str| {
            let item = format!("- {}: ", word.to_lowercase());
            statements(schema(name)).into_iter().find(|text| text.starts_with(&item)).unwrap_or_default()
        };
        let mut documented = words_of(schema(name)).map(strings).unwrap_or_default();
        // A word of ours needs no row.
        documented.retain(|word| described.contains(word) || !item(word).contains(DECISION));
        differences.unless(documented == described, || {
            format!("{name}: {described:?} is described, not {documented:?}")
        });
        for (word, meaning) in *words {
            let text = item(word);
            differences.unless(says(&text, meaning), || {
                format!("{name}: `{word}` must say `{meaning}`, not `{text}`")
            });
        }
    }
    differences.none();
}

#[test]
fn descriptor_types_that_were_not_seen_are_reported_as_our_decision() {
    let types = schema("DescriptorType");
    let (seen, added): (Vec<_>, Vec<_>) = strings(&types["x-extensible-enum"])
        .into_iter()
        .partition(|word| DESCRIPTOR_TYPES_SEEN.contains(word));
    assert_eq!(seen, DESCRIPTOR_TYPES_SEEN);
    let description = types["description"].as_str().unwrap_or_default();
    let decision = description.split_once(DECISION).map_or("", |(_, decision)| decision);
    let mut differences = Differences::default();
    for word in added {
        let is_reported = decision.contains(&format!("`{word}`"));
        differences.unless(is_reported, || format!("`{word}` was not seen, and no decision tells of it"));
    }
    differences.none();
}

#[test]
fn the_document_has_no_enumeration_that_is_not_described() {
    let schemas = || members(&document()["components"]["schemas"]);
    let options: Vec<_> = schemas()
        .filter(|(_, schema)| schema.get("x-model-kind").is_some())
        .flat_map(|(_, schema)| members(&schema["properties"]))
        .filter_map(|(_, property)| property["$ref"].as_str().and_then(super::name_in))
        .collect();
    let documented = schemas().filter(|(_, schema)| words_of(schema).is_some()).map(|(name, _)| name);
    let described = ENUMERATIONS.iter().map(|(name, _)| *name).chain(["DescriptorType"]).chain(options);
    let mut differences = Differences::default();
    differences.between("schemas", described, documented);
    differences.none();
}
