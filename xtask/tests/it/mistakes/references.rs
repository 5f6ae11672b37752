//! References that lead nowhere, elsewhere or in a ring.

use super::Mistake;

pub(super) const MISTAKES: &[Mistake] = &[
    ("a $ref to a schema that is not there", "schemas/ModelSort\"", "schemas/ModelSrt\""),
    ("a $ref to a response that is not there", "responses/Unavailable\"", "responses/Unavailble\""),
    ("a $ref to a parameter that is not there", "parameters/TaskIdInPath\"", "parameters/TaskIDInPath\""),
    ("a $ref to a body that is not there", "requestBodies/CreateTaskBody\"", "requestBodies/Anything\""),
    ("a $ref to another file", "\"#/components/schemas/ModelSort\"", "models.yaml#/ModelSort"),
    ("a $ref to another section", "#/components/schemas/ModelSort", "#/components/responses/Refused"),
    ("a $ref into a schema", "schemas/ModelSort\"", "schemas/ModelSort/enum\""),
    (
        "a $ref without quotes",
        "$ref: \"#/components/schemas/ModelSort\"",
        "$ref: #/components/schemas/ModelSort",
    ),
    ("a $ref that is no text", "$ref: \"#/components/schemas/ModelSort\"", "$ref: 5"),
    (
        "a keyword beside a $ref",
        "$ref: \"#/components/schemas/MimeCategory\"",
        "$ref: \"#/components/schemas/MimeCategory\"\n            nullable: true",
    ),
    (
        "a schema that is a $ref to itself",
        "    FolderName:\n",
        "    FolderName:\n      $ref: \"#/components/schemas/FolderName\"\n    Another:\n",
    ),
    (
        "two schemas that are a $ref to each other",
        "    FolderName:\n",
        "    FolderName:\n      $ref: \"#/components/schemas/FolderAgain\"\n    \
             FolderAgain:\n      $ref: \"#/components/schemas/FolderName\"\n    Another:\n",
    ),
    (
        "a response that is a $ref to itself",
        "    CreateTaskSuccess:\n",
        "    CreateTaskSuccess:\n      $ref: \"#/components/responses/CreateTaskSuccess\"\n    Another:\n",
    ),
    (
        "an allOf that leads back to itself",
        "    TaskPage:\n",
        "    TaskPage:\n      allOf:\n        - $ref: \"#/components/schemas/TaskPage\"\n    Another:\n",
    ),
    (
        "a schema that is only a $ref to another",
        "    FolderName:\n",
        "    FolderName:\n      $ref: \"#/components/schemas/Another\"\n    Another:\n",
    ),
    (
        "a schema that nothing uses",
        "    FolderName:\n",
        "    Another:\n      type: string\n      description: Unused.\n    FolderName:\n",
    ),
    (
        "a response that nothing uses",
        "    TaskRefused:\n",
        "    Another:\n      $ref: \"#/components/responses/Refused\"\n    TaskRefused:\n",
    ),
];
