//! What the document must tell in words: every sentence of the service description that no schema can
//! carry, with the words by which it is found again.

mod service;
mod storage;
mod tasks;

use super::endpoints::call;
use super::{Differences, says, statements};
use inferstore_document::{document, items, operations, resolve, schema};

/// Where in the document something is reported.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the introduction of the whole document, or with the conventions of all calls.
    Introduction,
    /// In the introduction of a tag.
    Tag(&'static str),
    /// With a call, its parameters, its body or its answers.
    Call(&'static str),
    /// With a schema or one of its fields.
    Schema(&'static str),
    /// With the way to authenticate.
    Key,
}

/// A sentence of the service description, the place where the document must say as much, and patterns
/// for [`says`], all of which one paragraph or one row of a table there must hold.
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
