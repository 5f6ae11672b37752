//! Prose of the document: every sentence of the service description that no schema can express, with patterns
//! to find it.

mod service;
mod storage;
mod tasks;

use super::endpoints::call;
use super::{Differences, says, statements};
use inferstore_document::{document, items, operations, resolve, schema};

#[derive(Debug, Clone, Copy)]
enum Place {
    Introduction,
    Tag(&'static str),
    Call(&'static str),
    Schema(&'static str),
    Key,
}

/// Sentence of the service description, its position in the document, and patterns for [`says`] that one
/// paragraph or table row there must match.
type Sentence = (&'static str, Place, &'static [&'static str]);

impl Place {
    fn statements(self) -> Vec<String> {
        let document = document();
        match self {
            Self::Introduction => {
                let conventions = Self::Tag("Conventions").statements();
                statements(&document["info"]).into_iter().chain(conventions).collect()
            }
            Self::Tag(name) => {
                items(&document["tags"]).filter(|tag| tag["name"] == name).flat_map(statements).collect()
            }
            Self::Call(name) => {
                let operation = operations()
                    .find(|operation| call(*operation) == name)
                    .unwrap_or_else(|| panic!("the document has no call {name}"));
                let responses = operation.value["responses"].as_object().into_iter().flatten();
                [operation.value, resolve(&operation.value["requestBody"])]
                    .into_iter()
                    .chain(operation.parameters())
                    .chain(responses.map(|(_, response)| resolve(response)))
                    .flat_map(statements)
                    .collect()
            }
            Self::Schema(name) => statements(schema(name)),
            Self::Key => statements(&document["components"]["securitySchemes"]),
        }
    }
}

#[test]
fn the_document_says_every_sentence_of_the_service_description() {
    let mut differences = Differences::default();
    for (sentence, place, patterns) in [service::SENTENCES, tasks::SENTENCES, storage::SENTENCES].concat() {
        let statements = place.statements();
        let is_said =
            statements.iter().any(|statement| patterns.iter().all(|pattern| says(statement, pattern)));
        differences
            .unless(is_said, || format!("{place:?} does not say: {sentence} (looked for {patterns:?})"));
    }
    differences.none();
}
