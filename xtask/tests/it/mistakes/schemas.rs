//! Schemas that contradict themselves, or say what the generator cannot read.

use super::Mistake;

pub(super) const MISTAKES: &[Mistake] = &[
    ("a type that does not exist", "    ModelId:\n      type: string", "    ModelId:\n      type: text"),
    ("a type that is nearly one", "    ModelId:\n      type: string", "    ModelId:\n      type: sting"),
    (
        "a list of types, as in 3.1",
        "type: number\n          format: double\n          x-decimal: true\n          nullable: true\n          description: The price of one inference.",
        "type: [number, 'null']\n          description: The price of one inference.",
    ),
    (
        "nullable without a type",
        "type: string\n          nullable: true\n          description: The wallet",
        "nullable: true\n          description: The wallet",
    ),
    (
        "nullable that is a word",
        "nullable: true\n          description: The wallet",
        "nullable: maybe\n          description: The wallet",
    ),
    (
        "a misspelt keyword",
        "nullable: true\n          description: The wallet",
        "nulable: true\n          description: The wallet",
    ),
    ("a misspelt keyword of our own", "          x-secret: true", "          x-secrt: true"),
    (
        "a keyword of another version",
        "nullable: true\n          description: The wallet",
        "const: none\n          description: The wallet",
    ),
    (
        "a pattern that is no number",
        "nullable: true\n          description: The wallet",
        "pattern: \"^0x\"\n          description: The wallet",
    ),
    (
        "visible ASCII without a name",
        "nullable: true\n          description: The wallet",
        "minLength: 1\n          maxLength: 9\n          pattern: \"^[!-~]+$\"\n          description: The wallet",
    ),
    (
        "a property a level too far in",
        "        debt:\n",
        "          updated_at:\n            type: string\n        debt:\n",
    ),
    (
        "a property a level too far out",
        "        debt:\n",
        "      updated_at:\n        type: string\n      x-more:\n        debt:\n",
    ),
    ("a property in camel case", "        debt:\n", "        totalDebt:\n"),
    ("a number of less digits in a response", "format: double", "format: float"),
    ("a vocabulary of one word", "enum: [image, audio, video, application, text]", "enum: [image]"),
    (
        "a terminal word that is not listed",
        "x-terminal: [success, failed, canceled]",
        "x-terminal: [success, failed]",
    ),
    (
        "a terminal word whose meaning does not say so",
        "x-terminal: [success, failed, canceled]",
        "x-terminal: [success, failed, canceled, computing]",
    ),
    (
        "a terminal word that is unknown",
        "x-terminal: [success, failed, canceled]",
        "x-terminal: [success, failed, canceled, expired]",
    ),
    ("a misspelt format", "format: date-time", "format: datetime"),
    (
        "a format that needs another crate",
        "nullable: true\n          description: The wallet",
        "format: uuid\n          description: The wallet",
    ),
    (
        "a keyword of another type",
        "nullable: true\n          description: The wallet",
        "minimum: 1\n          description: The wallet",
    ),
    (
        "a bound that is a word",
        "minimum: 1\n          maximum: 104857600",
        "minimum: many\n          maximum: 104857600",
    ),
    (
        "a bound below zero",
        "nullable: true\n          description: The wallet",
        "minLength: -1\n          description: The wallet",
    ),
    (
        "properties that are a list",
        "      properties:\n        total_files:",
        "      properties: []\n      x-was:\n        total_files:",
    ),
    (
        "a property that is a text",
        "        total_files:\n",
        "        total_folders: number\n        total_files:\n",
    ),
    ("a property that is empty", "        total_files:\n", "        total_folders:\n        total_files:\n"),
    (
        "a property without a description",
        "          description: Free credits.",
        "          title: Free credits.",
    ),
    (
        "a schema without a description",
        "      description: Amount of stored data.",
        "      title: How much is stored.",
    ),
    (
        "a description that is a list",
        "      description: Amount of stored data.",
        "      description: [How much]",
    ),
    ("required that is a word", "required: [folder, mime, name, size]", "required: yes"),
    (
        "a required name that is no property",
        "required: [folder, mime, name, size]",
        "required: [folder, mime, name, sise]",
    ),
    (
        "an array without items",
        "          items:\n            $ref: \"#/components/schemas/StorageFile\"",
        "          x-was: \"#/components/schemas/StorageFile\"",
    ),
    (
        "items that are a list",
        "          items:\n            $ref: \"#/components/schemas/StorageFile\"",
        "          items:\n            - $ref: \"#/components/schemas/StorageFile\"",
    ),
    (
        "additionalProperties that is a word",
        "      additionalProperties: true",
        "      additionalProperties: any",
    ),
    ("a schema that is a text", "    FolderName:\n", "    Another: text\n    FolderName:\n"),
    (
        "a choice of schemas",
        "    FolderName:\n",
        "    FolderName:\n      oneOf: [{type: string}, {type: integer}]\n    Another:\n",
    ),
    (
        "an allOf of clashing types",
        "    FolderName:\n      type: string",
        "    FolderName:\n      type: integer\n      allOf:\n        - $ref: \"#/components/schemas/ModelId\"",
    ),
    (
        "an allOf of two schemas",
        "    FolderName:\n      type: string",
        "    FolderName:\n      allOf: [{type: string}, {type: integer}]",
    ),
    (
        "an allOf beside properties",
        "      description: Amount of stored data.",
        "      description: Amount of stored data.\n      allOf:\n        - $ref: \"#/components/schemas/TaskPage\"",
    ),
    (
        "an enumeration inside a schema",
        "nullable: true\n          description: The wallet",
        "enum: [hot, cold]\n          description: The wallet",
    ),
    (
        "an enumeration of another type",
        "    ModelSort:\n      type: string",
        "    ModelSort:\n      type: integer",
    ),
    ("an enumeration that is a word", "enum: [success, fail]", "enum: success"),
    ("an enumeration without words", "enum: [success, fail]", "enum: []"),
    ("an enumeration with a number", "enum: [success, fail]", "enum: [success, fail, 3]"),
    ("a word that is there twice", "enum: [success, fail]", "enum: [success, fail, fail]"),
    ("a word without a meaning", "        - `success`: The call", "        - `sucess`: The call"),
    (
        "a vocabulary that is open and closed",
        "      x-extensible-enum: [success, fail]",
        "      enum: [success, fail]\n      x-extensible-enum: [success, fail]",
    ),
    (
        "an amount that is a truth value",
        "x-decimal: true\n          nullable",
        "x-decimal: exactly\n          nullable",
    ),
    (
        "a number as a string without its bounds",
        "x-number: {type: integer, minimum: 1, maximum: 90}",
        "x-number: {type: integer}",
    ),
    ("a number as a string without its pattern", "          pattern: ^([1-9]|[1-8][0-9]|90)$\n", ""),
    (
        "a response that cannot grow",
        "      description: Amount of stored data.\n      additionalProperties: true\n",
        "      description: Amount of stored data.\n",
    ),
    (
        "an optional field of a response that cannot be null",
        "          nullable: true\n          description: The wallet",
        "          description: The wallet",
    ),
    (
        "an optional word of a response that cannot be null",
        "    DescriptorType:\n      type: string\n      nullable: true\n",
        "    DescriptorType:\n      type: string\n",
    ),
    (
        "a limit in a response",
        "          nullable: true\n          description: The wallet",
        "          nullable: true\n          maxLength: 42\n          description: The wallet",
    ),
    (
        "a described reference of a response that cannot be null",
        "type: string\n          nullable: true\n          description: The wallet",
        "allOf: [{$ref: \"#/components/schemas/ModelId\"}]\n          description: The wallet",
    ),
    (
        "a closed vocabulary in a response",
        "      x-extensible-enum: [success, fail]",
        "      enum: [success, fail]",
    ),
    ("too few names of words", "[ShortRange, FullRange]", "[ShortRange]"),
    ("names of words that are a text", "[ShortRange, FullRange]", "ShortRange"),
    (
        "an extension of earlier versions",
        "    ModelId:\n      type: string\n",
        "    ModelId:\n      type: string\n      x-extensible-enums: [a]\n",
    ),
    (
        "a model kind without an output",
        "{name: image-blending, output: ImageBlendingOutput}",
        "{name: image-blending}",
    ),
    ("a model kind that is a word", "{name: image-blending, output: ImageBlendingOutput}", "image-blending"),
    (
        "a model kind with an output that is not there",
        "output: ImageBlendingOutput}",
        "output: ImageBlendingOutcome}",
    ),
    ("two model kinds of one name", "{name: color-harmonization,", "{name: image-blending,"),
];
