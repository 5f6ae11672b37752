//! What may stand where in an OpenAPI 3.0 document, as a table. Some keywords are left out on purpose.
//! Of those of schemas, the generator panics on `not`, and turns `oneOf` and `anyOf` into enums without
//! descriptions.

/// What a value must be.
pub(super) enum Kind {
    Anything,
    Text,
    Truth,
    Number,
    Count,
    List(&'static Kind),
    /// A mapping from names that the document chooses.
    Named(&'static Kind),
    /// A mapping with keywords.
    Object(&'static Shape),
    /// The same, or a `$ref` into this section of the components.
    Component(&'static str, &'static Shape),
    TruthOr(&'static Kind),
}

/// The keywords of one sort of mapping.
pub(super) struct Shape {
    /// What messages call it.
    pub(super) name: &'static str,
    /// What must be there, and not be empty.
    pub(super) required: &'static [&'static str],
    pub(super) keywords: &'static [(&'static str, Kind)],
}

use Kind::{Anything, Component, Count, List, Named, Number, Object, Text, Truth, TruthOr};

const EXAMPLES: Kind = Named(&Component("examples", &EXAMPLE));
const PARAMETERS: Kind = List(&Component("parameters", &PARAMETER));
const CONTENT: Kind = Named(&Object(&MEDIA));
const AN_OPERATION: Kind = Object(&OPERATION);
const SERVERS: Kind = List(&Object(&SERVER));
const SECURITY: Kind = List(&Named(&List(&Text)));

pub(super) static DOCUMENT: Kind = Object(&Shape {
    name: "document",
    required: &["openapi", "info", "paths"],
    keywords: &[
        ("openapi", Text),
        ("info", Object(&INFO)),
        ("servers", SERVERS),
        ("security", SECURITY),
        ("tags", List(&Object(&TAG))),
        ("paths", Named(&Object(&PATH))),
        ("components", Object(&COMPONENTS)),
        ("externalDocs", Object(&EXTERNAL_DOCS)),
    ],
});

static INFO: Shape = Shape {
    name: "info section",
    required: &["title", "version"],
    keywords: &[
        ("title", Text),
        ("version", Text),
        ("description", Text),
        ("termsOfService", Text),
        ("contact", Object(&CONTACT)),
        ("license", Object(&LICENSE)),
    ],
};

static CONTACT: Shape =
    Shape { name: "contact", required: &[], keywords: &[("name", Text), ("url", Text), ("email", Text)] };

static LICENSE: Shape =
    Shape { name: "license", required: &["name"], keywords: &[("name", Text), ("url", Text)] };

static EXTERNAL_DOCS: Shape = Shape {
    name: "external documentation",
    required: &["url"],
    keywords: &[("description", Text), ("url", Text)],
};

static SERVER: Shape = Shape {
    name: "server",
    required: &["url"],
    keywords: &[("url", Text), ("description", Text), ("variables", Named(&Object(&VARIABLE)))],
};

static VARIABLE: Shape = Shape {
    name: "variable",
    required: &["default"],
    keywords: &[("default", Text), ("description", Text), ("enum", List(&Text))],
};

static TAG: Shape = Shape {
    name: "tag",
    required: &["name"],
    keywords: &[("name", Text), ("description", Text), ("externalDocs", Object(&EXTERNAL_DOCS))],
};

static PATH: Shape = Shape {
    name: "path",
    required: &[],
    keywords: &[
        ("summary", Text),
        ("description", Text),
        ("servers", SERVERS),
        ("parameters", PARAMETERS),
        ("get", AN_OPERATION),
        ("put", AN_OPERATION),
        ("post", AN_OPERATION),
        ("delete", AN_OPERATION),
        ("options", AN_OPERATION),
        ("head", AN_OPERATION),
        ("patch", AN_OPERATION),
        ("trace", AN_OPERATION),
    ],
};

static OPERATION: Shape = Shape {
    name: "operation",
    required: &["operationId", "summary", "description", "x-safety", "responses"],
    keywords: &[
        ("operationId", Text),
        ("tags", List(&Text)),
        ("summary", Text),
        ("description", Text),
        ("parameters", PARAMETERS),
        ("requestBody", Component("requestBodies", &REQUEST_BODY)),
        ("responses", Named(&Component("responses", &RESPONSE))),
        ("security", SECURITY),
        ("deprecated", Truth),
        ("externalDocs", Object(&EXTERNAL_DOCS)),
        ("servers", SERVERS),
        ("x-codeSamples", Anything),
        ("x-alias-of", Text),
        ("x-safety", Text),
    ],
};

static PARAMETER: Shape = Shape {
    name: "parameter",
    required: &["name", "in", "schema"],
    keywords: &[
        ("name", Text),
        ("in", Text),
        ("required", Truth),
        ("description", Text),
        ("schema", Component("schemas", &SCHEMA)),
        ("example", Anything),
        ("examples", EXAMPLES),
        ("deprecated", Truth),
        ("style", Text),
        ("explode", Truth),
        ("allowReserved", Truth),
        ("allowEmptyValue", Truth),
    ],
};

static REQUEST_BODY: Shape = Shape {
    name: "body",
    required: &["content"],
    keywords: &[("required", Truth), ("description", Text), ("content", CONTENT)],
};

static RESPONSE: Shape = Shape {
    name: "response",
    required: &["description", "content"],
    keywords: &[
        ("description", Text),
        ("content", CONTENT),
        ("headers", Named(&Component("headers", &HEADER))),
    ],
};

static HEADER: Shape = Shape {
    name: "header",
    required: &["schema"],
    keywords: &[
        ("description", Text),
        ("required", Truth),
        ("schema", Component("schemas", &SCHEMA)),
        ("example", Anything),
        ("examples", EXAMPLES),
        ("deprecated", Truth),
    ],
};

static MEDIA: Shape = Shape {
    name: "content",
    required: &["schema", "examples"],
    keywords: &[("schema", Component("schemas", &SCHEMA)), ("examples", EXAMPLES)],
};

static EXAMPLE: Shape = Shape {
    name: "example",
    required: &[],
    keywords: &[("summary", Text), ("description", Text), ("value", Anything), ("externalValue", Text)],
};

static COMPONENTS: Shape = Shape {
    name: "components",
    required: &[],
    keywords: &[
        ("schemas", Named(&Component("schemas", &SCHEMA))),
        ("responses", Named(&Component("responses", &RESPONSE))),
        ("parameters", Named(&Component("parameters", &PARAMETER))),
        ("requestBodies", Named(&Component("requestBodies", &REQUEST_BODY))),
        ("examples", EXAMPLES),
        ("securitySchemes", Named(&Object(&SECURITY_SCHEME))),
        ("headers", Named(&Component("headers", &HEADER))),
    ],
};

static SECURITY_SCHEME: Shape = Shape {
    name: "security scheme",
    required: &["type"],
    keywords: &[
        ("type", Text),
        ("description", Text),
        ("name", Text),
        ("in", Text),
        ("scheme", Text),
        ("bearerFormat", Text),
        ("flows", Anything),
        ("openIdConnectUrl", Text),
    ],
};

static SCHEMA: Shape = Shape {
    name: "schema",
    required: &[],
    keywords: &[
        ("title", Text),
        ("description", Text),
        ("type", Text),
        ("format", Text),
        ("pattern", Text),
        ("nullable", Truth),
        ("enum", List(&Anything)),
        ("default", Anything),
        ("example", Anything),
        ("minimum", Number),
        ("maximum", Number),
        ("exclusiveMinimum", Truth),
        ("exclusiveMaximum", Truth),
        ("multipleOf", Number),
        ("minLength", Count),
        ("maxLength", Count),
        ("items", Component("schemas", &SCHEMA)),
        ("minItems", Count),
        ("maxItems", Count),
        ("uniqueItems", Truth),
        ("properties", Named(&Component("schemas", &SCHEMA))),
        ("required", List(&Text)),
        ("additionalProperties", TruthOr(&Component("schemas", &SCHEMA))),
        ("minProperties", Count),
        ("maxProperties", Count),
        ("allOf", List(&Component("schemas", &SCHEMA))),
        ("readOnly", Truth),
        ("writeOnly", Truth),
        ("deprecated", Truth),
        ("externalDocs", Object(&EXTERNAL_DOCS)),
        ("x-extensible-enum", List(&Anything)),
        ("x-enum-varnames", List(&Text)),
        ("x-decimal", Truth),
        ("x-number", Object(&STRING_NUMBER)),
        ("x-secret", Truth),
        ("x-keep-shape", Truth),
        ("x-advisory", Truth),
        ("x-model-kind", Object(&MODEL_KIND)),
    ],
};

static STRING_NUMBER: Shape = Shape {
    name: "number",
    required: &["type", "minimum", "maximum"],
    keywords: &[("type", Text), ("minimum", Number), ("maximum", Number)],
};

static MODEL_KIND: Shape = Shape {
    name: "model kind",
    required: &["name", "output"],
    keywords: &[("name", Text), ("output", Text)],
};

/// Whether the keyword is an extension of our own.
pub(super) fn is_ours(keyword: &str) -> bool {
    let ours = OPERATION.keywords.iter().chain(SCHEMA.keywords);
    keyword.starts_with("x-") && ours.into_iter().any(|(known, _)| *known == keyword)
}
