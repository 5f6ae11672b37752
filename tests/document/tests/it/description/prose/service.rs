//! Sentences about the whole service: purpose, responses and failures, money, keys, versions.

use super::Place::{Call, Introduction, Key, Tag};
use super::Sentence;

pub(super) const SENTENCES: &[Sentence] = &[
    (
        "The service runs trained models as asynchronous inference tasks and stores input files for them.",
        Introduction,
        &["trained models", "asynchronous inference tasks", "stores", "files"],
    ),
    (
        "Returns the balance, free credits, debt and earnings of the account that owns the API key.",
        Call("GET /api-key/balance"),
        &["balance, free credits, debt and earnings of the account that owns the api key"],
    ),
    (
        "The four monetary fields are decimal strings to keep precision.",
        Call("GET /api-key/balance"),
        &["decimal strings"],
    ),
    ("The price is a JSON number.", Introduction, &["price", "cost", "json number"]),
    ("Timestamps everywhere are ISO 8601 in UTC.", Introduction, &["timestamps … iso 8601 … utc"]),
    ("`status`: `success` on success.", Introduction, &["| status | success"]),
    ("`message`: short text.", Introduction, &["| message | … short text"]),
    (
        "`data`: the payload; absent for cancel and delete.",
        Introduction,
        &["| data |", "payload", "absent", "cancel", "delete"],
    ),
    ("List endpoints return `data` as a page.", Introduction, &["lists", "page", "records", "total"]),
    (
        "`records`: may be null or empty when nothing matches.",
        Introduction,
        &["records … may be null or empty when nothing matches"],
    ),
    (
        "`total`: count across all pages; 0 when nothing matches.",
        Introduction,
        &["total … count … all pages … 0 when nothing matches"],
    ),
    (
        "A failed request returns a non-2xx status and a JSON body `{status: \"fail\", message: <string>}`.",
        Introduction,
        &["fail", "2xx", "{status: fail, message:"],
    ),
    ("Missing or wrong key: 401.", Introduction, &["missing or wrong key … 401"]),
    (
        "Status codes other than 401: not shown.",
        Call("GET /api-key/balance"),
        &["status codes", "not promised"],
    ),
    (
        "Machine-readable error codes and the list of message texts: not shown.",
        Introduction,
        &["machine-readable error codes", "message"],
    ),
    (
        "Running tasks and storing files draw on the account balance.",
        Introduction,
        &["running tasks and storing files draw on the account balance"],
    ),
    (
        "Creating a presigned URL and uploading both need a positive balance.",
        Introduction,
        &["creating", "uploading", "both", "positive balance"],
    ),
    (
        "Presign and upload both draw on the balance attached to the key and need it to be positive.",
        Tag("Storage"),
        &["draw on the balance", "attached to the key", "positive"],
    ),
    ("Failed and canceled tasks are not billed.", Introduction, &["fail", "canceled", "not billed"]),
    (
        "Storage is billed separately from inference.",
        Introduction,
        &["storage is billed separately from inference"],
    ),
    (
        "Every endpoint requires the request header `x-api-key` carrying the API key.",
        Introduction,
        &["every", "header x-api-key", "api key"],
    ),
    (
        "Keys are personal-scope or organization-scope.",
        Introduction,
        &["key", "personal", "organization", "scope"],
    ),
    ("Keys are personal-scope or organization-scope.", Key, &["personal", "organization", "scope"]),
    (
        "Step 2 does not use the key; the presigned target carries its own authorization, so the key stays off \
         the upload path.",
        Introduction,
        &["upload", "authorization of its own", "key off"],
    ),
    ("How keys are issued, revoked or rotated: not shown.", Key, &["issued, revoked or rotated"]),
    ("The base URL ends with `/api/v1`.", Introduction, &["root … version", "ends with /api/v1"]),
    ("Each model has versions.", Introduction, &["model has versions"]),
    (
        "A task stores the formats that were declared when it ran.",
        Introduction,
        &["task", "input and output formats", "declared when it ran"],
    ),
    (
        "A catalog of runnable models, which can be searched, sorted and filtered.",
        Call("POST /api-key/model/list"),
        &["catalog", "searched, sorted and filtered"],
    ),
    ("List body fields (all optional).", Call("POST /api-key/model/list"), &["all fields", "optional"]),
    (
        "The list view carries only the headline fields.",
        Call("POST /api-key/model/list"),
        &["headline fields", "full record"],
    ),
    (
        "The service can quote the cost of a run and report whether a model has a serving node.",
        Tag("Models"),
        &["what a run costs", "a node serves it now"],
    ),
    ("A per-inference price.", Call("GET /api-key/model/{id}/task/cost"), &["price of one inference"]),
    (
        "`serving`: at least one serving node; `consumers`: number of consumers.",
        Call("GET /api-key/model/{id}/serving"),
        &["at least one serving node", "consumers"],
    ),
    (
        "The active version's schema is returned by versioning.",
        Call("GET /api-key/model/{id}/versioning"),
        &["active version", "map from parameter name to descriptor"],
    ),
    (
        "Typing rule: a parameter whose descriptor type is numeric may still have to be sent as a string; the \
         service rejects a bare number in such cases.",
        Tag("Models"),
        &["typing rule", "numeric may still have to be sent as a string", "rejects a bare number"],
    ),
    (
        "The shape of `samples` shows how to send it.",
        Tag("Models"),
        &["typing rule", "the shape of samples shows how to send it"],
    ),
];
