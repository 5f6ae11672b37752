//! Paths, operations, parameters, bodies and responses that cannot be generated from.

use super::Mistake;

pub(super) const MISTAKES: &[Mistake] = &[
    ("a path with an open brace", "/model/{id}/serving:", "/model/{id/serving:"),
    ("a path that is a text", "  /api-key/balance:", "  /api-key/empty: nothing\n  /api-key/balance:"),
    ("a method that HTTP does not have", "/balance:\n    get:", "/balance:\n    fetch:"),
    ("an operation that is a text", "/balance:\n    get:", "/balance:\n    put: nothing\n    get:"),
    ("a second operation of one id", "operationId: getModelCost", "operationId: getModel"),
    ("an operation without an id", "operationId: getModelCost", "x-id: getModelCost"),
    ("an operation without a summary", "summary: Quote the cost of a run", "summary: \"\""),
    (
        "an operation without a description",
        "      description: The price of one inference on the",
        "      x-was: The",
    ),
    ("an operation without a safety", "      x-safety: billed", "      x-was: billed"),
    ("an operation of unknown safety", "      x-safety: billed", "      x-safety: bill"),
    ("tags that are a text", "tags: [Account]", "tags: Account"),
    ("an operation without a tag", "      tags: [Account]\n", ""),
    ("a tag that is not described", "tags: [Account]", "tags: [Accounts]"),
    ("an operation without a sample", "      x-codeSamples:\n", "      x-samples:\n"),
    ("a parameter in the path that is not declared", "/model/{id}/serving:", "/model/{id}/serving/{node}:"),
    ("a declared parameter that is not in the path", "/model/{id}/serving:", "/model/serving:"),
    ("a parameter in the path under another name", "/model/{id}/serving:", "/model/{model}/serving:"),
    (
        "a parameter in a place of its own",
        "name: limit\n          in: query",
        "name: limit\n          in: body",
    ),
    ("a parameter in a cookie", "name: limit\n          in: query", "name: limit\n          in: cookie"),
    (
        "a header that the client removes",
        "- name: limit\n          in: query",
        "- name: API-Version\n          in: header",
    ),
    ("a parameter that stands nowhere", "name: limit\n          in: query", "name: limit"),
    ("a parameter without a name", "- name: limit\n          in: query", "- in: query"),
    (
        "a parameter without a schema",
        "          schema:\n            type: integer",
        "          x-was:\n            type: integer",
    ),
    (
        "a parameter in the path that is optional",
        "in: path\n      required: true",
        "in: path\n      required: false",
    ),
    (
        "a parameter in the path that is a list",
        "schema:\n        $ref: \"#/components/schemas/TaskId\"",
        "schema:\n        {type: array, items: {type: string}}",
    ),
    (
        "a parameter in a style of its own",
        "- name: limit\n          in: query",
        "- name: limit\n          in: query\n          style: deepObject",
    ),
    (
        "a parameter that holds a secret",
        "- name: limit\n          in: query",
        "- name: limit\n          in: query\n          x-secret: true",
    ),
    (
        "parameters that are a mapping",
        "    parameters:\n      - $ref",
        "    parameters: {}\n    x-was:\n      - $ref",
    ),
    (
        "a body that is a text",
        "requestBody:\n        $ref: \"#/components/requestBodies/CreateTaskBody\"",
        "requestBody: CreateTaskBody",
    ),
    (
        "a body without content",
        "as the model declares it.\n      content:",
        "as the model declares it.\n      x-was:",
    ),
    (
        "a body of another type",
        "description: The file to delete.\n        content:\n          application/json:",
        "description: The file to delete.\n        content:\n          text/plain:",
    ),
    (
        "a body without an example",
        "            examples:\n              file:",
        "            x-was:\n              file:",
    ),
    ("responses that are a list", "      responses:\n", "      responses: []\n      x-was:\n"),
    ("no response of success", "        2XX:", "        \"302\":"),
    (
        "a success without its code",
        "        \"200\":\n          $ref: \"#/components/responses/GetBalanceSuccess\"\n",
        "",
    ),
    (
        "two responses for one success",
        "\"200\":\n          $ref: \"#/components/responses/GetBalanceSuccess\"",
        "\"200\":\n          $ref: \"#/components/responses/GetModelSuccess\"",
    ),
    (
        "two responses of success",
        "        \"401\":",
        "        \"201\":\n          $ref: \"#/components/responses/CreateTaskSuccess\"\n        \"401\":",
    ),
    ("no response 401", "        \"401\":", "        \"403\":"),
    ("no response 4XX", "        4XX:", "        \"404\":"),
    ("no response 5XX", "        5XX:", "        \"503\":"),
    ("a code without quotes", "        \"401\":", "        401:"),
    (
        "a default response",
        "        \"401\":",
        "        default:\n          $ref: \"#/components/responses/Refused\"\n        \"401\":",
    ),
    (
        "a response of no status",
        "        \"401\":",
        "        teapot:\n          $ref: \"#/components/responses/Refused\"\n        \"401\":",
    ),
    (
        "a response that is a text",
        "        \"401\":\n          $ref: \"#/components/responses/Unauthorized\"",
        "        \"401\": Unauthorized",
    ),
    (
        "a response that is empty",
        "        \"401\":\n          $ref: \"#/components/responses/Unauthorized\"",
        "        \"401\":",
    ),
    (
        "a response without a description",
        "      description: The price of one inference.\n      headers",
        "      x-was: The price of one inference.\n      headers",
    ),
    (
        "a response without a schema",
        "          schema:\n            $ref: \"#/components/schemas/TaskCostResponse\"",
        "          x-was: \"#/components/schemas/TaskCostResponse\"",
    ),
    (
        "a response without an example",
        "          examples:\n            cost:",
        "          x-was:\n            cost:",
    ),
    (
        "a response of another type",
        "examples:\n            cost:",
        "examples:\n            cost:\n              value: {}\n        application/xml:\n          schema: {type: string}\n          examples:\n            xml:",
    ),
    (
        "a link to an operation that is not there",
        "operationId: getModel\n          description",
        "operationId: readModel\n          description",
    ),
];
