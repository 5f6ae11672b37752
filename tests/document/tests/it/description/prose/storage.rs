//! Sentences about storage: both steps of an upload, its two tiers, listing and deleting.

use super::Place::{Call, Introduction, Schema, Tag};
use super::Sentence;

const PRESIGN: &str = "POST /api-key/storage/upload/create-presigned-url";
const LISTING: &str = "GET /api-key/storage/upload/{folder}";
const STATISTICS: &str = "GET /api-key/storage/upload/statistics";
const DELETE: &str = "DELETE /api-key/storage/store/url";

pub(super) const SENTENCES: &[Sentence] = &[
    ("Step 1 asks the service for a presigned target.", Tag("Storage"), &["step 1", "asks … for a target"]),
    (
        "Step 2 sends the bytes straight to object storage, not through the service; no key header.",
        Tag("Storage"),
        &["step 2 sends the bytes straight to object storage", "api key"],
    ),
    (
        "The file is then addressable by `download_url`, listable, and deletable.",
        Tag("Storage"),
        &["addressable by download_url", "listed", "deleted"],
    ),
    ("`download_url` can be used as a model input.", Introduction, &["upload", "download_url … input"]),
    (
        "Up to 5,242,880 bytes: bucket root URL; full form policy (entries such as `key`, `policy`, `x-amz-*` \
         entries, `Content-Type`).",
        Tag("Storage"),
        &[
            "| up to 5,242,880 bytes | … bucket … root url |",
            "form policy",
            "key, policy, x-amz-* entries",
            "content-type",
        ],
    ),
    (
        "POST `multipart/form-data`: every `fields` entry as a form field, then the file as the last field \
         named `file`.",
        Tag("Storage"),
        &[
            "| up to 5,242,880 bytes",
            "post … multipart/form-data … every entry of fields … last field … named file",
        ],
    ),
    (
        "Above 5,242,880 and up to 104,857,600 bytes: signed object URL with `X-Amz-*` query parameters; only \
         `{\"Content-Type\": <mime>}`; PUT with the raw binary body and the `Content-Type` header taken from \
         `fields`.",
        Tag("Storage"),
        &[
            "up to 104,857,600 bytes | … signed object url with x-amz-* query parameters",
            "only {content-type: <mime>} | put … body … content-type … from fields",
        ],
    ),
    (
        "Tier detection: if `endpoint` contains the text `X-Amz-Algorithm`, use PUT; otherwise use form POST.",
        Tag("Storage"),
        &["endpoint contains the text x-amz-algorithm … put … form post"],
    ),
    (
        "Tier detection: if `endpoint` contains the text `X-Amz-Algorithm`, use PUT; otherwise use form POST.",
        Schema("PresignedUpload"),
        &["contains the text x-amz-algorithm … put … post"],
    ),
    ("`fields`: JSON-encoded object; must be parsed.", Tag("Storage"), &["parse", "fields", "json object"]),
    (
        "Presign size over 104,857,600: the call fails. Size 0 or less: invalid.",
        Call(PRESIGN),
        &["0 or less", "above 104,857,600 bytes", "refused"],
    ),
    ("Insufficient balance: presign and upload fail.", Call(PRESIGN), &["needs a positive balance"]),
    ("Insufficient balance: presign and upload fail.", Call(PRESIGN), &["balance is not positive"]),
    ("Maximum file size: 104,857,600 bytes (100 MiB).", Schema("PresignRequest"), &["104,857,600 (100 mib)"]),
    (
        "`org_username`: personal-scope keys only; an organization the caller belongs to; uploads into that \
         organization's storage; no effect with an organization-scope key.",
        Schema("PresignRequest"),
        &[
            "personal scope only",
            "organization the caller belongs to",
            "into that organization's storage",
            "no effect … organization scope",
        ],
    ),
    ("`page`: 1-based.", Call(LISTING), &["page … counted from 1"]),
    (
        "`pageSize`: files per page; the name `page_size` is also mentioned as an alias.",
        Call(LISTING),
        &["files … page", "page_size"],
    ),
    ("Defaults of `page` and `pageSize`: not shown.", Call(LISTING), &["files … page", "†"]),
    ("Defaults of `page` and `pageSize`: not shown.", Call(LISTING), &["number of the page", "†"]),
    (
        "The set of folder names accepted in the listing path: not shown.",
        Call(LISTING),
        &["names … accepted", "not promised"],
    ),
    ("`type`: optional MIME category.", Call(LISTING), &["mime category"]),
    (
        "Transitions of a stored file's `status` and `is_expired` flags: not shown.",
        Schema("StorageFile"),
        &["flag", "not promised"],
    ),
    (
        "Transitions of a stored file's `status` and `is_expired` flags: not shown.",
        Schema("StorageFile"),
        &["expired", "not promised"],
    ),
    (
        "Number of files uploaded through the presigned flow; their total size.",
        Call(STATISTICS),
        &["files that were uploaded", "presigned", "total size"],
    ),
    (
        "The delete removes the file from object storage; JSON body with the `download_url` of the file.",
        Call(DELETE),
        &["removes a file from object storage", "download_url", "json body"],
    ),
    (
        "The delete path's last segments are `store` and `url`.",
        Call(DELETE),
        &["last segments are store and url"],
    ),
    ("Delete answers without data.", Call(DELETE), &["envelope has no data"]),
];
