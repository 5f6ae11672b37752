//! Documents that are broken as a whole: as YAML, at their head, or from the ground up.

use super::Mistake;

pub(super) const MISTAKES: &[Mistake] = &[
    ("a key that is there twice", "  title: Inferstore API\n", "  title: Inferstore API\n  title: Another\n"),
    (
        "an indentation that does not fit",
        "    ModelId:\n      type: string\n",
        "    ModelId:\n      type: string\n     nullable: false\n",
    ),
    (
        "a first property that is indented by too little",
        "      properties:\n        status:",
        "      properties:\n       status:",
    ),
    (
        "a conflict of git",
        "  title: Inferstore API\n",
        "<<<<<<< HEAD\n  title: Inferstore API\n=======\n  title: API\n>>>>>>> other\n",
    ),
    ("a text with a comment", "summary: Read the balance", "summary: Read the balance of wallet #1"),
    ("a tab", "    ModelId:\n      type: string\n", "    ModelId:\n\t  type: string\n"),
    ("an open quote", "  title: Inferstore API", "  title: \"Inferstore API"),
    ("an open bracket", "tags: [Account]", "tags: [Account"),
    ("an alias of nothing", "summary: Read the balance", "summary: *nothing"),
    ("two documents in one file", "\ncomponents:\n", "\n---\ncomponents:\n"),
    ("a number that is none", "maximum: 104857600", "maximum: .inf"),
    ("a key that is a list", "  title: Inferstore API", "  [title]: Inferstore API"),
    ("another version of OpenAPI", "openapi: 3.0.3", "openapi: 3.1.0"),
    ("a version that is a number", "openapi: 3.0.3", "openapi: 3.0"),
    ("no version of OpenAPI", "openapi: 3.0.3", "x-was: 3.0.3"),
    ("no title", "  title: Inferstore API\n", ""),
    ("a version of the API that is a number", "  version: ", "  version: 2.0\n  x-was: "),
    ("a section that OpenAPI does not have", "\ncomponents:\n", "\nmodels: {}\ncomponents:\n"),
    ("servers that are a word", "\nservers:\n", "\nservers: none\nx-was:\n"),
    ("paths that are a list", "\npaths:\n", "\npaths: []\nx-was:\n"),
    ("no paths", "\npaths:\n", "\nx-was:\n"),
    ("schemas that are a list", "\n  schemas:\n", "\n  schemas: []\n  x-was:\n"),
    ("a security scheme of no type", "      type: apiKey\n", "      type: apikey\n"),
    (
        "a security scheme that stands nowhere",
        "      in: header\n      name: x-api-key\n",
        "      name: x-api-key\n",
    ),
];

pub(super) const DOCUMENTS: &[(&str, &str)] = &[
    ("an empty document", ""),
    ("a document with a comment only", "# Nothing yet.\n"),
    ("a document that is a list", "- openapi\n- 3.0.3\n"),
    ("a document that is a word", "openapi\n"),
    ("a document that is not for people", "\u{1}"),
    ("a document with a version only", "openapi: 3.0.3\n"),
];
