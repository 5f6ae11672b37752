//! Records of stored files and their database operations: upload targets, uploaded objects, and outputs of tasks.

use std::collections::HashSet;

use async_trait::async_trait;
use serde::Serialize;

use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;

pub(crate) const FOLDERS: [&str; 5] = ["avatars", "thumbnails", "covers", "samples", "documents"];

pub(crate) const MAX_FILE: u64 = 104_857_600;

/// Maximum size of a form upload in bytes; larger files are uploaded by PUT.
pub(crate) const MAX_FORM_FILE: u64 = 5_242_880;

/// Maximum length of a key in bytes, as in S3.
pub(crate) const MAX_KEY: usize = 1_024;

/// Bucket of the logs of tasks, which are not among the outputs of a lease.
pub(crate) const LOGS: &str = "logs";

/// Upload target: permission to upload one file, until its expiry.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) id: String,
    pub(crate) owner: AccountId,
    /// Account that pays for the file, and whose balance must be positive: the account that requested the target.
    pub(crate) payer: AccountId,
    pub(crate) bucket: String,
    pub(crate) folder: String,
    /// `<folder>/<file name>`.
    pub(crate) key: String,
    pub(crate) mime: String,
    pub(crate) size: u64,
    pub(crate) expires_at: Moment,
    /// True if the file of this target was deleted or replaced and must not come back, if the membership ended for
    /// which the target was issued, or if another account has a file of the same name.
    pub(crate) is_void: bool,
}

impl Target {
    pub(crate) fn is_of_member(&self) -> bool {
        self.owner != self.payer
    }

    pub(crate) fn assert_same_file(&self, object: &Object) {
        debug_assert_eq!(object.size, self.size, "the stored size differs from the size of the target");
        debug_assert_eq!(object.bucket, self.bucket, "an upload is stored in the bucket of another target");
        debug_assert_eq!(object.key, self.key, "an upload is stored under the key of another target");
    }

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

#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) blob: String,
    pub(crate) mime: String,
    pub(crate) size: u64,
    /// MD5 of the bytes in hexadecimal, as in S3.
    pub(crate) etag: String,
    pub(crate) created_at: Moment,
}

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Usage {
    #[serde(rename = "total_files")]
    pub(crate) files: u64,
    #[serde(rename = "total_size")]
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StorageUse {
    pub(crate) quota: Option<u64>,
    pub(crate) stored: u64,
    /// The bytes of uploads that its unused targets permit.
    pub(crate) promised: u64,
}

impl StorageUse {
    pub(crate) fn refusal(&self, size: u64) -> Option<String> {
        let Self { quota, stored, promised } = *self;
        let quota = quota?;
        (stored.saturating_add(promised).saturating_add(size) > quota).then(|| {
            format!(
                "the storage quota of this account is {quota} bytes: {stored} are stored, {promised} belong to unused \
                 upload targets, and {size} more exceed it; delete files, or ask the operator for a larger quota"
            )
        })
    }
}

#[async_trait]
pub(crate) trait Files: Send + Sync {
    /// Inserts a target; false if its payer has reached the limit of unused targets that are not void, or its quota of
    /// stored bytes. Each concurrent request may exceed a limit by one.
    async fn add_target(&self, target: &Target, max_unused: u32) -> Result<bool>;
    async fn storage_use(&self, payer: AccountId) -> Result<StorageUse>;
    async fn set_quota(&self, account: AccountId, quota: Option<u64>) -> Result<()>;
    async fn target(&self, id: &str) -> Result<Option<Target>>;
    async fn is_of_another_payer(&self, bucket: &str, key: &str, payer: AccountId) -> Result<bool>;
    /// Returns true if a target is unused and not void: a store that does not report uploads may have its bytes.
    async fn awaits_upload(&self, of: TargetsOf<'_>) -> Result<bool>;
    /// Returns those of the targets that are unused or void, and whose blob no object refers to.
    async fn targets_without_file(&self, ids: &[String]) -> Result<Vec<Target>>;
    /// Makes an uploaded, synced object the file of the target's owner; replaces the file with its key, and voids its
    /// targets. A target of a member becomes void instead if another account pays for the existing file.
    async fn store_upload(
        &self,
        target: &str,
        id: &str,
        object: &Object,
        replaces: Replaces,
    ) -> Result<Stored>;
    /// Stores an output for the account of its task: served by URL, but not listed, counted or billed as a file.
    async fn store_output(&self, id: &str, object: &Object, limits: OutputLimits) -> Result<OutputStored>;
    async fn remove_unnamed_outputs(
        &self,
        bucket: &str,
        lease: &str,
        named: &[String],
    ) -> Result<Vec<String>>;
    /// Retention: deletes up to 1,000 outputs of failed attempts or from before a moment; returns their blobs.
    async fn remove_outputs(&self, before: Moment) -> Result<Vec<String>>;
    async fn object(&self, bucket: &str, key: &str) -> Result<Option<Object>>;
    async fn has_former_url(&self, bucket: &str, key: &str) -> Result<bool>;
    async fn usage(&self, owner: AccountId) -> Result<Usage>;
    /// Deletes a file that the account owns or pays for, or an output of its tasks; without an account, any file. Voids
    /// the targets that stored the file. Returns the blob; None if there is no such file.
    async fn delete_file(
        &self,
        account: Option<AccountId>,
        bucket: &str,
        key: &str,
        now: Moment,
    ) -> Result<Option<String>>;
    async fn forget_targets(&self, before: Moment) -> Result<u64>;
    /// Returns blobs of objects and of unused, valid targets; a direct upload's blob has its target's identifier.
    async fn known_blobs(&self, blobs: &[String]) -> Result<HashSet<String>>;
}

#[async_trait]
pub(crate) trait FilePages: Send + Sync {
    /// Returns a page (from 1) of a folder, oldest first, and the total. `category`: MIME type before the slash.
    async fn files(
        &self,
        owner: AccountId,
        folder: &str,
        category: Option<&str>,
        page: u64,
        page_size: u32,
    ) -> Result<(Vec<StoredFile>, u64)>;
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum TargetsOf<'a> {
    Owner(AccountId),
    Folder(AccountId, &'a str),
    Object { bucket: &'a str, key: &'a str },
    Everyone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaces {
    Any,
    /// Replace only files uploaded in the same second or earlier: the store listed this upload after its end.
    Earlier,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The file exists. `replaced` is the blob of the replaced file, to be deleted.
    Done {
        replaced: Option<String>,
    },
    /// The target has stored the same bytes before, and the file has not changed since.
    Again,
    Different,
    Void,
    /// The existing file stays: another account's, or a newer one. The target has become void.
    Taken,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputLimits {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutputStored {
    Done { replaced: Option<String> },
    TooMany,
    LeaseLost,
}

/// Splits the key of an output: returns its lease `<task>/<attempt>`, the task and the attempt.
pub(crate) fn lease_of(key: &str) -> (&str, &str, &str) {
    let lease = key.rsplit_once('/').map_or(key, |(lease, _)| lease);
    let (task, attempt) = lease.split_once('/').unwrap_or((lease, ""));
    (lease, task, attempt)
}

pub(crate) fn category(mime: &str) -> String {
    mime.split('/').next().unwrap_or_default().to_ascii_lowercase()
}
