//! Resources: each has exactly the described fields, with the described types.

use super::{Differences, Field, is_our_decision, object, spelled, strings};
use inferstore_document::{document, members};

/// Fields of a model in a list; the single record has more.
const HEADLINE: &[&str] =
    &["id", "name", "username", "description", "is_official", "is_verified", "visibility", "price"];

const RESOURCES: &[(&str, &[Field])] = &[
    // Cancel and delete: the envelope without data. For data, see the endpoints.
    ("Acknowledgement", &[("status", "EnvelopeStatus", "success"), ("message", "string", "short text")]),
    ("Failure", &[("status", "EnvelopeStatus", "fail"), ("message", "string", "")]),
    (
        "ModelPage",
        &[
            ("records", "array of ModelSummary", "may be null or empty when nothing matches"),
            ("total", "integer", "count … all pages … 0 when nothing matches"),
        ],
    ),
    (
        "TaskPage",
        &[
            ("records", "array of TaskRecord", "may be null or empty when"),
            ("total", "integer", "count … all pages … 0 when"),
        ],
    ),
    (
        "AccountBalance",
        &[
            ("balance", "decimal string", "available balance"),
            ("free_balance", "decimal string", "free credits"),
            ("debt", "decimal string", "accrued debt"),
            ("earnings", "decimal string", "total earnings from models the account published"),
            ("wallet_address", "string", "wallet address associated with the account"),
        ],
    ),
    (
        "TaskDetail",
        &[
            ("id", "string", "same value as task_id"),
            ("task_id", "string", "task"),
            ("status", "TaskStatus", "success, failed and canceled are terminal"),
            ("cost", "number", "only when the status is success"),
            ("message", "string", "present when … failed"),
            ("input_data", "object", "inputs as … submitted"),
            ("input_format", "map to Descriptor", "inputs … at the time the task ran"),
            ("output_format", "map to Descriptor", "outputs … at the time the task ran"),
            ("result", "TaskResult", ""),
            ("created_at", "ISO 8601", "created"),
            ("updated_at", "ISO 8601", "status change"),
        ],
    ),
    (
        "TaskDetail.result",
        &[
            ("result", "any JSON", "output … success … shape depends on the model"),
            ("error", "any JSON", "detail … failed … otherwise null"),
        ],
    ),
    (
        "TaskRecord",
        &[
            ("task_id", "string", "task"),
            ("status", "TaskStatus", ""),
            ("model_id", "string", "model"),
            ("cost", "number", "only when the status is success"),
            ("created_at", "ISO 8601", "created"),
            ("updated_at", "ISO 8601", "status change"),
        ],
    ),
    (
        "ModelDetail",
        &[
            ("id", "string", "identifies a model"),
            ("name", "string", "technical name"),
            ("username", "string", "owner's account name"),
            ("description", "string", "short description"),
            ("is_official", "boolean", "published by the operator of the service"),
            ("is_verified", "boolean", "verified to run on the network"),
            ("visibility", "Visibility", ""),
            ("price", "number", "price … inference … 0 for a free model"),
            ("model_metadata", "ModelMetadata", ""),
            ("created_at", "ISO 8601", "first publication"),
            ("updated_at", "ISO 8601", "last update"),
        ],
    ),
    // "Fields seen": there may be more.
    (
        "ModelDetail.model_metadata",
        &[
            ("id", "string", ""),
            ("model_id", "string", ""),
            ("pretty_name", "string", ""),
            ("task", "string", ""),
            ("license", "string", ""),
            ("library", "array of string", ""),
            ("language", "array of string", ""),
        ],
    ),
    (
        "TaskCost",
        &[
            ("cost", "number", "price of one inference"),
            ("symbol", "string", "symbol … currency"),
            ("unit", "string", "unit … currency"),
        ],
    ),
    (
        "ServingStatus",
        &[
            (
                "serving",
                "boolean",
                "true when at least one serving node is available now … false … offline or unavailable",
            ),
            ("consumers", "integer", "consumers … use the model now"),
        ],
    ),
    (
        "ModelVersioning",
        &[
            ("model_id", "string", "model"),
            ("commit_hash", "string", "identifies the version"),
            ("is_active", "boolean", "whether this is the active version"),
            ("input_format", "map to Descriptor", "from parameter name to descriptor"),
            ("output_format", "map to Descriptor", "name to descriptor"),
        ],
    ),
    (
        "Descriptor",
        &[
            ("type", "DescriptorType", ""),
            ("mime_type", "array of string", "patterns such as image/*"),
            ("required", "boolean", "input"),
            ("position", "integer", "order"),
            ("num_config", "NumConfig", "numeric parameter"),
            ("samples", "array of string", "samples of numeric-looking parameters are strings"),
        ],
    ),
    ("Descriptor.num_config", &[("min", "number", ""), ("max", "number", ""), ("step", "number", "")]),
    (
        "PresignedUpload",
        &[
            ("endpoint", "URL", "target of … step 2"),
            ("download_url", "URL", "permanent url of the file … once … uploaded"),
            ("fields", "string", "json object … form fields … must be parsed"),
        ],
    ),
    (
        "StorageFile",
        &[
            ("id", "string", "identifies the file"),
            ("download_url", "URL", "permanent url"),
            ("folder", "string", "name of the folder"),
            ("key", "string", "object key, of the form <folder>/<file name>"),
            ("mime", "string", "mime type"),
            ("size", "integer", "bytes"),
            ("status", "boolean", "flag on the record"),
            ("is_expired", "boolean", "expired"),
            ("created_at", "ISO 8601", "uploaded"),
        ],
    ),
    (
        "FileListing",
        &[("files", "array of StorageFile", ""), ("total", "integer", ""), ("total_pages", "integer", "")],
    ),
    (
        "StorageStatistics",
        &[
            ("total_files", "integer", "uploaded through the presigned flow"),
            ("total_size", "integer", "total size in bytes"),
        ],
    ),
    ("TaskCreated", &[("data", "string", "task")]),
    (
        "ModelListRequest",
        &[
            ("limit", "integer", "10 by default"),
            ("offset", "integer", "records to skip … 0 by default"),
            ("search", "string", "name or description of a model"),
            ("sort", "ModelSort", ""),
            ("filter_by", "ModelFilter", ""),
        ],
    ),
    (
        "PresignRequest",
        &[
            ("folder", "UploadFolder", ""),
            ("mime", "string", "mime type of the file"),
            ("name", "string", "file name of the stored object"),
            ("size", "integer", "bytes … 104,857,600"),
            (
                "org_username",
                "string",
                "personal scope only … username of an organization the caller belongs to … into that organization's \
             storage … no effect with … organization scope",
            ),
        ],
    ),
    ("FileUrl", &[("url", "URL", "download_url of the file")]),
];

/// Required fields of request bodies; all other fields are optional.
const REQUIRED: &[(&str, &[&str])] = &[
    ("ModelListRequest", &[]),
    ("PresignRequest", &["folder", "mime", "name", "size"]),
    ("FileUrl", &["url"]),
];

#[test]
fn every_resource_has_exactly_the_described_fields() {
    let mut differences = Differences::default();
    for (place, fields) in RESOURCES {
        differences.in_fields(place, object(place), fields);
    }
    differences.none();
}

#[test]
fn a_body_requires_exactly_what_is_described_as_required() {
    let mut differences = Differences::default();
    for (name, required) in REQUIRED {
        differences.between(
            &format!("required by {name}"),
            required.iter().copied(),
            strings(&object(name)["required"]),
        );
    }
    differences.none();
}

#[test]
fn the_list_of_models_carries_the_headline_fields_of_the_full_record() {
    let (summary, model) = (&object("ModelSummary")["properties"], &object("ModelDetail")["properties"]);
    let mut differences = Differences::default();
    differences.between("ModelSummary", HEADLINE.iter().copied(), members(summary).map(|(name, _)| name));
    for (name, field) in members(summary) {
        let same = spelled(field) == spelled(&model[name]);
        differences.unless(same, || format!("ModelSummary.{name} has another type than ModelDetail.{name}"));
    }
    differences.none();
}

#[test]
fn the_records_of_a_page_may_be_null() {
    for page in ["ModelPage", "TaskPage"] {
        let records = object(page)["properties"]["records"].get("nullable");
        assert_eq!(records, Some(&true.into()), "{page}.records");
    }
}

/// Envelopes are described with their endpoints, and model kinds separately.
#[test]
fn the_document_has_no_resource_that_is_not_described() {
    let is_elsewhere = |name: &str| ["Response", "Input", "Output"].iter().any(|end| name.ends_with(end));
    let documented = members(&document()["components"]["schemas"])
        .filter(|(name, schema)| schema.get("properties").is_some() && !is_elsewhere(name))
        .filter(|(name, schema)| RESOURCES.iter().any(|(known, _)| known == name) || !is_our_decision(schema))
        .map(|(name, _)| name);
    let described = RESOURCES.iter().map(|(name, _)| *name).filter(|name| !name.contains('.'));
    let mut differences = Differences::default();
    differences.between("schemas", described.chain(["ModelSummary"]), documented);
    differences.none();
}
