//! Stored files: targets to upload to, the objects that uploads become, and what listings show of them.
//!
//! The object store speaks S3's protocol on an address of its own and never sees an API key. A target
//! carries its authorization: a signature over the key, the type, the exact size and the identifier of
//! the target, so that nothing but the file that was asked for can be stored.
//!
//! The bytes are in a folder, or in a bucket of a remote object store. A bucket receives uploads and serves
//! downloads itself, unless `direct=false` is set: its listings tell what was uploaded (`settling`).

mod blobs;
#[cfg(feature = "fuzzed")]
pub(crate) mod fuzzed;
mod location;
mod objects;
mod outputs;
#[cfg(test)]
mod remote_tests;
mod s3_api;
mod s3_config;
mod settling;
mod shared_look;
#[cfg(test)]
mod slow_store_tests;
mod sweeper;
#[cfg(test)]
mod tests;
mod unsigned_forms;
mod uploads;

use std::collections::HashSet;

use async_trait::async_trait;
use serde::Serialize;

pub(crate) use blobs::{are_in_bucket, open as open_blobs};
pub(crate) use location::{Locations, address};
pub(crate) use objects::{Objects, outlast_outage};
pub(crate) use s3_api::{Code, S3Error, router};
pub use s3_config::S3Config;
pub(crate) use settling::LOOK_INTERVAL;

use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;

/// The folders that files can be uploaded into.
pub(crate) const FOLDERS: [&str; 5] = ["avatars", "thumbnails", "covers", "samples", "documents"];

/// The largest file in bytes.
pub(crate) const MAX_FILE: u64 = 104_857_600;

/// The largest file that is uploaded by form; larger ones are put.
pub(crate) const MAX_FORM_FILE: u64 = 5_242_880;

/// The longest key in bytes, as in S3.
pub(crate) const MAX_KEY: usize = 1_024;

/// A place that one file may be uploaded to, once asked for and until it expires.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) id: String,
    /// Whose storage the file goes to.
    pub(crate) owner: AccountId,
    /// Who pays for the file, and whose balance has to be positive: the account of the key that asked for the
    /// target.
    pub(crate) payer: AccountId,
    pub(crate) bucket: String,
    pub(crate) folder: String,
    /// `<folder>/<file name>`.
    pub(crate) key: String,
    pub(crate) mime: String,
    pub(crate) size: u64,
    pub(crate) expires_at: Moment,
    /// Set when the file that this target had stored was deleted or replaced: it must not come back. Also when the
    /// membership ended that it was issued for, or another account had a file of its name.
    pub(crate) is_void: bool,
}

impl Target {
    /// Whether a member of an organization uploads into its storage.
    pub(crate) fn is_of_member(&self) -> bool {
        self.owner != self.payer
    }

    /// A target for a text in an account's own storage.
    #[cfg(test)]
    pub(crate) fn of_owner(
        id: String,
        (owner, bucket): (AccountId, &str),
        name: &str,
        size: u64,
        expires_at: Moment,
    ) -> Self {
        Self {
            id,
            owner,
            payer: owner,
            bucket: bucket.to_owned(),
            folder: "samples".to_owned(),
            key: format!("samples/{name}"),
            mime: "text/plain".to_owned(),
            size,
            expires_at,
            is_void: false,
        }
    }

    /// The object of its file.
    pub(crate) fn object(&self, blob: String, etag: String, now: Moment) -> Object {
        Object {
            bucket: self.bucket.clone(),
            key: self.key.clone(),
            blob,
            mime: self.mime.clone(),
            size: self.size,
            etag,
            created_at: now,
        }
    }
}

/// Bytes in the object store, with what is needed to serve them.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) bucket: String,
    pub(crate) key: String,
    /// The name of the file that holds the bytes, in the folder of blobs.
    pub(crate) blob: String,
    pub(crate) mime: String,
    pub(crate) size: u64,
    /// MD5 of the bytes in hex, as S3 has it.
    pub(crate) etag: String,
    pub(crate) created_at: Moment,
}

/// A file as a listing shows it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StoredFile {
    pub(crate) id: String,
    #[serde(skip)]
    pub(crate) bucket: String,
    pub(crate) folder: String,
    pub(crate) key: String,
    pub(crate) mime: String,
    pub(crate) size: u64,
    pub(crate) created_at: Moment,
}

/// How much an account stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Usage {
    #[serde(rename = "total_files")]
    pub(crate) files: u64,
    #[serde(rename = "total_size")]
    pub(crate) bytes: u64,
}

/// What the store knows of files. Every method is one transaction.
#[async_trait]
pub(crate) trait Files: Send + Sync {
    /// Adds a target, unless its payer has so many already that have stored nothing and are not void: of each request
    /// that comes at the same moment, one more. Returns whether it did.
    async fn add_target(&self, target: &Target, max_unused: u32) -> Result<bool>;
    async fn target(&self, id: &str) -> Result<Option<Target>>;
    /// Whether a file with this key is there that another account pays for.
    async fn is_of_another_payer(&self, bucket: &str, key: &str, payer: AccountId) -> Result<bool>;
    /// Whether any of these targets has stored nothing yet and is not void: an object store that does not report
    /// uploads may have its bytes.
    async fn awaits_upload(&self, of: TargetsOf<'_>) -> Result<bool>;
    /// Returns those of the targets that have stored nothing yet or are void, and whose blob no object refers to.
    async fn targets_without_file(&self, ids: &[String]) -> Result<Vec<Target>>;
    /// Makes an uploaded object a file of the target's owner, with this identifier, in place of the one
    /// with the same key; other targets that have stored that one are void then. The bytes are synced already.
    /// A member of an organization replaces no file that another account pays for: the target is void then.
    async fn store_upload(
        &self,
        target: &str,
        id: &str,
        object: &Object,
        replaces: Replaces,
    ) -> Result<Stored>;
    /// Stores what a model produced: served by URL, but not listed, counted or billed as a file. Its key is
    /// `<task>/<attempt>/<file name>`; it belongs to the account of the task.
    async fn store_output(&self, id: &str, object: &Object, limits: OutputLimits) -> Result<OutputStored>;
    /// Deletes the outputs of a lease whose keys are not among these. Returns their blobs.
    async fn remove_unnamed_outputs(
        &self,
        bucket: &str,
        lease: &str,
        named: &[String],
    ) -> Result<Vec<String>>;
    /// Deletes up to 1,000 outputs of attempts that have failed, or that were stored before then. Returns their blobs.
    async fn remove_outputs(&self, before: Moment) -> Result<Vec<String>>;
    async fn object(&self, bucket: &str, key: &str) -> Result<Option<Object>>;
    /// Whether this object is one from before download URLs had tokens.
    async fn has_former_url(&self, bucket: &str, key: &str) -> Result<bool>;
    /// A page (from 1) of a folder, oldest first, and how many files there are in all. `category` is
    /// the part of the MIME type before the slash.
    async fn files(
        &self,
        owner: AccountId,
        folder: &str,
        category: Option<&str>,
        page: u64,
        page_size: u32,
    ) -> Result<(Vec<StoredFile>, u64)>;
    async fn usage(&self, owner: AccountId) -> Result<Usage>;
    /// Deletes a file that the account owns or pays for, or an output of one of its tasks, or without an account anyone's,
    /// and voids the targets that stored it. Returns its blob; None when there is no such file.
    async fn delete_file(
        &self,
        account: Option<AccountId>,
        bucket: &str,
        key: &str,
        now: Moment,
    ) -> Result<Option<String>>;
    /// Forgets up to 1,000 targets that expired before then, and says how many.
    async fn forget_targets(&self, before: Moment) -> Result<u64>;
    /// Returns those of the blobs that an object refers to, or a target that has stored nothing yet and is not
    /// void: an upload that goes straight to a remote object store is a blob with the identifier of its target.
    async fn known_blobs(&self, blobs: &[String]) -> Result<HashSet<String>>;
}

/// Which targets may have an upload that is no file yet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TargetsOf<'a> {
    /// Targets whose files go to an account.
    Owner(AccountId),
    /// Those whose files go to one folder of an account.
    Folder(AccountId, &'a str),
    /// Those of one object.
    Object {
        bucket: &'a str,
        key: &'a str,
    },
    Everyone,
}

/// Which file of the same name an upload replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaces {
    /// Any: its last byte has just come.
    Any,
    /// A file that was uploaded in the same second or before: it was found in an object store, later than the upload came.
    Earlier,
}

/// What became of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The file exists; the blob named here, if any, is no longer needed.
    Kept { replaced: Option<String> },
    /// The target has stored the same bytes before, and nothing has changed since.
    Again,
    /// The target has stored other bytes before.
    Different,
    /// The target does not exist or is void.
    Void,
    /// The file of this name stays, which belongs to another account or was uploaded later: the target is void.
    Taken,
}

/// How much may be stored under one lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputLimits {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// What became of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutputStored {
    /// It is stored; the blob named here, if any, is no longer needed.
    Kept { replaced: Option<String> },
    /// The lease has reached its limits; nothing was stored.
    TooMany,
    /// The task is not running under this lease any more; nothing was stored.
    LeaseLost,
}

/// The lease of an output, as its key begins with it: `<task>/<attempt>`; and the two parts of it.
pub(crate) fn lease_of(key: &str) -> (&str, &str, &str) {
    let lease = key.rsplit_once('/').map_or(key, |(lease, _)| lease);
    let (task, attempt) = lease.split_once('/').unwrap_or((lease, ""));
    (lease, task, attempt)
}

/// The part of a MIME type before the slash, in lower case.
pub(crate) fn category(mime: &str) -> String {
    mime.split('/').next().unwrap_or_default().to_ascii_lowercase()
}

/// Bytes in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
