//! Names that Rust cannot say, or cannot tell apart.

use super::Mistake;

pub(super) const MISTAKES: &[Mistake] = &[
    (
        "a schema in snake case",
        "    FolderName:\n",
        "    folder_name:\n      type: string\n      description: A folder.\n    FolderName:\n",
    ),
    (
        "a schema with an abbreviation",
        "    FolderName:\n",
        "    FolderURL:\n      type: string\n      description: A folder.\n    FolderName:\n",
    ),
    (
        "a schema named by a keyword",
        "    FolderName:\n",
        "    Self:\n      type: string\n      description: A folder.\n    FolderName:\n",
    ),
    ("an operation in snake case", "operationId: getModelCost", "operationId: get_model_cost"),
    ("an operation named by a number", "operationId: getModelCost", "operationId: \"123\""),
    ("an operation named by a keyword", "operationId: getModelCost", "operationId: move"),
    (
        "an operation named like a method of the client",
        "operationId: getModelCost",
        "operationId: newWithClient",
    ),
    (
        "a response with the name of a schema",
        "    Unavailable:\n",
        "    TaskPage:\n      $ref: \"#/components/responses/Refused\"\n    Unavailable:\n",
    ),
    ("a title like the name of a schema", "title: TaskResult", "title: TaskPage"),
    ("a title like another", "title: TaskResult", "title: NumConfig"),
    ("a title that becomes the name of a schema", "title: TaskResult", "title: Task page"),
    (
        "two properties of one name in Rust",
        "        wallet_address:\n          type",
        "        free__balance:\n          type",
    ),
    ("a property named by a keyword of Python", "        debt:\n", "        class:\n"),
    ("a property with a hyphen", "        debt:\n", "        total-debt:\n"),
    ("a parameter named by a keyword of Python", "- name: page\n", "- name: from\n"),
    ("a parameter named by a reserved word of TypeScript", "- name: page\n", "- name: default\n"),
    ("a parameter that is declared twice", "- name: pageSize\n", "- name: page\n"),
    ("two parameters of one name in Rust", "- name: page\n", "- name: page_size\n"),
    (
        "a parameter named like the body",
        "- $ref: \"#/components/parameters/ModelIdInPath\"\n    post:\n",
        "- $ref: \"#/components/parameters/ModelIdInPath\"\n      - {name: body, in: query, schema: {type: string}}\n    post:\n",
    ),
    (
        "two words of one name in Rust",
        "enum: [image, audio, video, application, text]",
        "enum: [image, audio, video, application, text, Image]",
    ),
    ("a word that begins with a digit", "application, text]", "application, text, 2nd]"),
    ("a word without a letter", "application, text]", "application, text, \"---\"]"),
    ("a word that is a keyword", "application, text]", "application, text, self]"),
    (
        "the word that open vocabularies need",
        "\n      x-extensible-enum: [success, fail]",
        "\n        - `other`: Neither.\n      x-extensible-enum: [success, fail, other]",
    ),
    ("a name of a word with a blank", "[ShortRange, FullRange]", "[Short range, FullRange]"),
    ("one name for two words", "[ShortRange, FullRange]", "[ShortRange, ShortRange]"),
];
