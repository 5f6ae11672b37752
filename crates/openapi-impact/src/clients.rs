//! The generated clients that the comparison knows, and which of them a type of change breaks.
//!
//! A language alone is the client of openapi-generator in that language (TypeScript: typescript-fetch,
//! Java: native, Rust: reqwest). `progenitor` is its builder interface; `inferstore-api` is the crate
//! that is generated here. Counted are calls, what they are given, and how a response is read; not
//! counted are mocks, subclasses, and a `match` without a wildcard over what may grow.

use std::collections::BTreeSet;

/// Names of clients, sorted.
pub type Clients = BTreeSet<&'static str>;

type List = &'static [&'static str];

pub(super) const OPENAPI_GENERATOR: List = &["Go", "Java", "PHP", "Python", "Ruby", "Rust", "TypeScript"];
/// Types are structures: they have no names of their own, and a narrower one is as good.
const STRUCTURAL: List = &["openapi-typescript", "hey-api"];
const PYTHON: List = &["openapi-python-client", "datamodel-code-generator"];

/// The crate that is generated here reads some marks that no other generator reads.
pub(super) const OWN: List = &["inferstore-api"];
pub(super) const PROGENITOR: List = &["progenitor"];
/// A string with limits is a type of its own, and so is a named string.
pub(super) const NEWTYPES: List = &["progenitor", "inferstore-api"];
pub(super) const NAMED_SCALARS: List = &["datamodel-code-generator", "progenitor", "inferstore-api"];
/// Reading an optional or nullable value differs from reading one that is always there.
pub(super) const OPTIONALS: List = &["Go", "Rust", "progenitor", "inferstore-api"];
pub(super) const NUMBERS: List = &["Go", "Java", "Rust", "progenitor", "inferstore-api"];
pub(super) const SETS: List = &["Java", "progenitor", "inferstore-api"];
/// Parameters are positional arguments, the required ones first.
pub(super) const POSITIONAL: List = &["Java", "PHP", "Rust"];
/// Required parameters are positional arguments, optional ones are named.
pub(super) const POSITIONAL_REQUIRED: List = &["Ruby", "Rust"];
/// Constructors take the required properties in the order of the document.
pub(super) const CONSTRUCTORS: List = &["Go", "Rust", "openapi-python-client"];
pub(super) const NAMED_ARGUMENTS: List = &[
    "PHP",
    "Python",
    "TypeScript",
    "hey-api",
    "inferstore-api",
    "openapi-python-client",
    "openapi-typescript",
    "progenitor",
];
/// Arguments are named after headers in upper and lower case.
pub(super) const HEADER_ARGUMENTS: List = &["Go", "TypeScript", "hey-api", "openapi-typescript", "orval"];
/// Models refuse properties that they do not know, unless `additionalProperties` is `true`.
pub(super) const STRICT_MODELS: List = &["Go", "Java"];

/// The type of a response is a union over its media types, which grows with each.
pub(super) const RESPONSE_UNIONS: List = &["hey-api", "openapi-python-client", "openapi-typescript", "orval"];

/// A property is a `Box` of its object, but not once `additionalProperties` is `true`.
pub(super) const UNBOXED: List = &["Rust"];

pub(super) fn all() -> Clients {
    other_than_own().into_iter().chain(of(&[OWN])).collect()
}

pub(super) fn with_named_types() -> Clients {
    of(&[OPENAPI_GENERATOR, PYTHON, PROGENITOR, OWN, &["orval"]])
}

pub(super) fn other_than_own() -> Clients {
    of(&[OPENAPI_GENERATOR, STRUCTURAL, PYTHON, PROGENITOR, &["orval"]])
}

pub(super) fn naming_by_title() -> Clients {
    of(&[OPENAPI_GENERATOR, PROGENITOR, OWN, &["openapi-python-client"]])
}

pub(super) fn naming_words() -> Clients {
    of(&[OPENAPI_GENERATOR, PYTHON, OWN, &["orval"]])
}

pub(super) fn grouping_by_tag() -> Clients {
    of(&[OPENAPI_GENERATOR, &["openapi-python-client"]])
}

pub(super) fn with_base_url() -> Clients {
    of(&[OPENAPI_GENERATOR, &["hey-api"]])
}

/// Returns the clients whose enumerations are closed even where the document says that words may be added.
pub(super) fn refusing_new_words() -> Clients {
    let mut clients = of(&[OPENAPI_GENERATOR, PYTHON, PROGENITOR]);
    clients.remove("TypeScript");
    clients
}

pub(super) fn reading_more() -> Clients {
    let mut clients = of(&[OPENAPI_GENERATOR, STRUCTURAL, NEWTYPES, &["orval"]]);
    clients.retain(|client| !["PHP", "Ruby"].contains(client));
    clients
}

pub(super) fn typing_format(format: Option<&str>) -> Clients {
    match format {
        Some("int" | "int8" | "int16" | "int32" | "int64") => of(&[NUMBERS]),
        Some("uint" | "uint8" | "uint16" | "uint32" | "uint64" | "float" | "double") => of(&[NUMBERS]),
        Some("decimal") => of(&[&["Go", "Java", "PHP", "Ruby", "datamodel-code-generator"]]),
        Some("date-time" | "date") => of(&[OPENAPI_GENERATOR, PYTHON, NEWTYPES]),
        Some("uuid") => of(&[PYTHON, NEWTYPES, &["Java", "Python", "Rust"]]),
        Some("binary" | "byte") => of(&[OPENAPI_GENERATOR, STRUCTURAL, PYTHON, NEWTYPES, &["orval"]]),
        Some("uri") => of(&[&["Java", "datamodel-code-generator"]]),
        Some("email" | "hostname" | "ipv4" | "ipv6" | "password" | "time" | "duration") => {
            of(&[NEWTYPES, &["datamodel-code-generator"]])
        }
        _ => Clients::new(),
    }
}

pub(super) fn of(lists: &[List]) -> Clients {
    lists.iter().flat_map(|list| list.iter()).copied().collect()
}
