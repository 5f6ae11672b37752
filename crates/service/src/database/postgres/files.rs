//! Upload targets and stored objects in PostgreSQL.

use std::collections::HashSet;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::types::ToSql;

use super::PostgresDatabase;
use super::failure::{Outcome, read, statement, transaction};
use super::movements::{lock, meter_storage};
use super::statements::{all, first, is_there, one, page, run};
use super::values::signed;
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{column, object, pair, storage_use, stored_file, target, triple, usage};
use crate::database::shared_sql::{FORGET_TARGETS, HAS_FORMER_URL, OBJECT, SET_QUOTA};
use crate::files::{
    Files, Object, OutputLimits, OutputStored, Replaces, StorageUse, Stored, StoredFile, Target, TargetsOf,
    Usage, category, lease_of,
};

/// Objects of a bucket and a lease. `0` is the character after `/`.
const OF_LEASE: &str = "bucket = $1 AND key > $2 || '/' AND key < $2 || '0'";

const TARGET: &str = "SELECT id, owner, payer, bucket, folder, key, mime, size, expires_at, is_void, is_used \
     FROM upload_targets WHERE id = $1";

#[async_trait]
impl Files for PostgresDatabase {
    async fn add_target(&self, target: &Target, max_unused: u32) -> Result<bool> {
        let Target { id, owner, payer, bucket, folder, key, mime, size, expires_at, .. } = target;
        // Idempotent. Concurrent requests do not count each other.
        let insert = "INSERT INTO upload_targets (id, owner, payer, bucket, folder, key, mime, size, expires_at) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 WHERE (SELECT count(*) FROM upload_targets \
               WHERE payer = $3 AND NOT is_used AND NOT is_void AND id <> $1) < $10 \
               AND (SELECT quota IS NULL OR stored_bytes + $8 + (SELECT coalesce(sum(size), 0) FROM upload_targets \
                 WHERE payer = $3 AND NOT is_used AND NOT is_void AND id <> $1) <= quota \
                 FROM accounts JOIN purses ON account = id WHERE id = $3) \
             ON CONFLICT (id) DO UPDATE SET id = excluded.id";
        let (size, max_unused) = (signed(*size), i64::from(max_unused));
        let params: [&(dyn ToSql + Sync); 10] =
            [id, owner, payer, bucket, folder, key, mime, &size, expires_at, &max_unused];
        Ok(read!(self, |db| run(db, insert, &params))? > 0)
    }

    async fn storage_use(&self, payer: AccountId) -> Result<StorageUse> {
        let select = "SELECT quota, stored_bytes, (SELECT coalesce(sum(size), 0)::bigint FROM upload_targets \
             WHERE payer = $1 AND NOT is_used AND NOT is_void) FROM accounts JOIN purses ON account = id WHERE id = $1";
        read!(self, |db| one(db, select, &[&payer], storage_use))
    }

    async fn set_quota(&self, account: AccountId, quota: Option<u64>) -> Result<()> {
        let quota = quota.map(signed);
        read!(self, |db| run(db, SET_QUOTA, &[&quota, &account])).map(drop)
    }

    async fn target(&self, id: &str) -> Result<Option<Target>> {
        read!(self, |db| first(db, TARGET, &[&id], target))
    }

    async fn is_of_another_payer(&self, bucket: &str, key: &str, payer: AccountId) -> Result<bool> {
        read!(self, |db| is_of_another_payer(db, bucket, key, payer))
    }

    async fn awaits_upload(&self, of: TargetsOf<'_>) -> Result<bool> {
        let (condition, params): (&str, Vec<&(dyn ToSql + Sync)>) = match &of {
            TargetsOf::Owner(owner) => ("AND owner = $1", vec![owner]),
            TargetsOf::Folder(owner, folder) => ("AND owner = $1 AND folder = $2", vec![owner, folder]),
            TargetsOf::Object { bucket, key } => ("AND bucket = $1 AND key = $2", vec![bucket, key]),
            TargetsOf::Everyone => ("", Vec::new()),
        };
        let unused =
            format!("SELECT 1 FROM upload_targets WHERE NOT is_used AND NOT is_void {condition} LIMIT 1");
        read!(self, |db| is_there(db, &unused, &params))
    }

    async fn targets_without_file(&self, ids: &[String]) -> Result<Vec<Target>> {
        let select = "SELECT id, owner, payer, bucket, folder, key, mime, size, expires_at, is_void \
             FROM upload_targets WHERE id = ANY ($1) AND (is_void OR NOT is_used) \
             AND NOT EXISTS (SELECT 1 FROM objects WHERE blob = upload_targets.id)";
        read!(self, |db| all(db, select, &[&ids], target))
    }

    async fn store_upload(
        &self,
        target: &str,
        id: &str,
        object: &Object,
        replaces: Replaces,
    ) -> Result<Stored> {
        let payer = self.target(target).await?.map(|target| target.payer);
        let _turn = match payer {
            Some(payer) => Some(self.purse_queues.enter(payer).await?),
            None => None,
        };
        transaction!(self, |tx| store_upload(tx, target, id, object, replaces))
    }

    async fn store_output(&self, id: &str, object: &Object, limits: OutputLimits) -> Result<OutputStored> {
        transaction!(self, |tx| store_output(tx, id, object, limits))
    }

    async fn object(&self, bucket: &str, key: &str) -> Result<Option<Object>> {
        read!(self, |db| first(db, OBJECT, &[&bucket, &key], object))
    }

    async fn has_former_url(&self, bucket: &str, key: &str) -> Result<bool> {
        read!(self, |db| is_there(db, HAS_FORMER_URL, &[&bucket, &key]))
    }

    async fn files(
        &self,
        owner: AccountId,
        folder: &str,
        category: Option<&str>,
        number: u64,
        page_size: u32,
    ) -> Result<(Vec<StoredFile>, u64)> {
        // Page in upload order. One statement, so that count and page are consistent; a branch for each index, which
        // skips the offset before any row is read.
        let of_category = if category.is_some() { "AND category = $3" } else { "" };
        let sql = format!(
            "SELECT total, id, bucket, listed.folder, key, mime, size, created_at FROM ( \
               SELECT coalesce(sum(files), 0)::bigint AS total FROM folder_usage \
               WHERE owner = $1 AND folder = $2 AND ($3::text IS NULL OR category = $3)) AS counted \
             LEFT JOIN ( \
               SELECT objects.* FROM objects JOIN ( \
                 SELECT sequence FROM objects WHERE owner = $1 AND folder = $2 {of_category} \
                 ORDER BY sequence LIMIT $4 OFFSET $5) AS page USING (sequence)) AS listed ON true \
             ORDER BY sequence"
        );
        let limit = i64::from(page_size);
        let offset = signed(number.saturating_sub(1).saturating_mul(u64::from(page_size)));
        read!(self, |db| page(db, &sql, &[&owner, &folder, &category, &limit, &offset], stored_file))
    }

    async fn usage(&self, owner: AccountId) -> Result<Usage> {
        let sums = "SELECT coalesce(sum(files), 0)::bigint, coalesce(sum(bytes), 0)::bigint \
                    FROM folder_usage WHERE owner = $1";
        read!(self, |db| one(db, sums, &[&owner], usage))
    }

    async fn delete_file(
        &self,
        account: Option<AccountId>,
        bucket: &str,
        key: &str,
        now: Moment,
    ) -> Result<Option<String>> {
        let _turn = match account {
            Some(account) => Some(self.purse_queues.enter(account).await?),
            None => None,
        };
        transaction!(self, |tx| delete_file(tx, account, (bucket, key), now))
    }

    async fn remove_unnamed_outputs(
        &self,
        bucket: &str,
        lease: &str,
        named: &[String],
    ) -> Result<Vec<String>> {
        let unnamed = format!("DELETE FROM objects WHERE {OF_LEASE} AND key <> ALL ($3) RETURNING blob");
        statement!(self, |db| all(db, &unnamed, &[&bucket, &lease, &named], column))
    }

    async fn remove_outputs(&self, before: Moment) -> Result<Vec<String>> {
        // Outputs of a successful task have a lease if a process of an earlier version ended the task.
        let unneeded = "DELETE FROM objects WHERE sequence IN ( \
               SELECT sequence FROM objects WHERE lease IS NOT NULL AND NOT EXISTS ( \
                 SELECT 1 FROM tasks WHERE id = split_part(lease, '/', 1) \
                 AND lease = id || '/' || attempt AND status IN ('computing', 'success')) \
               UNION ALL SELECT sequence FROM objects WHERE owner IS NULL AND created_at < $1 LIMIT 1000) \
             RETURNING blob";
        statement!(self, |db| all(db, unneeded, &[&before], column))
    }

    async fn forget_targets(&self, before: Moment) -> Result<u64> {
        statement!(self, |db| run(db, FORGET_TARGETS, &[&before]))
    }

    async fn known_blobs(&self, blobs: &[String]) -> Result<HashSet<String>> {
        let known = "SELECT blob FROM objects WHERE blob = ANY ($1) UNION ALL \
                     SELECT id FROM upload_targets WHERE id = ANY ($1) AND NOT is_used AND NOT is_void";
        let known: Vec<String> = read!(self, |db| all(db, known, &[&blobs], column))?;
        Ok(known.into_iter().collect())
    }
}

async fn is_of_another_payer(
    db: &impl GenericClient,
    bucket: &str,
    key: &str,
    payer: AccountId,
) -> Outcome<bool> {
    let of_another = "SELECT 1 FROM objects WHERE bucket = $1 AND key = $2 AND payer <> $3";
    is_there(db, of_another, &[&bucket, &key, &payer]).await
}

async fn store_upload(
    tx: &Transaction<'_>,
    target_id: &str,
    id: &str,
    object: &Object,
    replaces: Replaces,
) -> Outcome<Stored> {
    // With two concurrent uploads to one target, the second one finds the target used.
    let locked = format!("{TARGET} FOR UPDATE");
    let found = first(tx, &locked, &[&target_id], |row| Ok((target(row)?, row.get::<bool>(10)?))).await?;
    let (target, is_used) = match found {
        Some((target, is_used)) if !target.is_void => (target, is_used),
        _ => return Ok(Stored::Void),
    };
    if is_used {
        // While a used target is not void, the file is the one that it stored.
        let same = "SELECT 1 FROM objects WHERE bucket = $1 AND key = $2 AND etag = $3 AND size = $4";
        let is_same: [&(dyn ToSql + Sync); 4] =
            [&object.bucket, &object.key, &object.etag, &signed(object.size)];
        return Ok(if is_there(tx, same, &is_same).await? { Stored::Again } else { Stored::Different });
    }
    run(tx, "UPDATE upload_targets SET is_used = true WHERE id = $1", &[&target_id]).await?;
    let is_taken = target.is_of_member()
        && is_of_another_payer(tx, &object.bucket, &object.key, target.payer).await?
        || replaces == Replaces::Earlier && has_later(tx, object).await?;
    if is_taken {
        run(tx, "UPDATE upload_targets SET is_void = true WHERE id = $1", &[&target_id]).await?;
        return Ok(Stored::Taken);
    }
    // A retry of an upload to an earlier target must not undo this upload.
    let void = "UPDATE upload_targets SET is_void = true \
                WHERE bucket = $1 AND key = $2 AND is_used AND NOT is_void AND id <> $3";
    run(tx, void, &[&object.bucket, &object.key, &target_id]).await?;
    lock_payers(tx, &object.bucket, &object.key, Some(target.payer)).await?;
    // If another account has uploaded the file meanwhile, the insert conflicts, and the transaction is retried.
    let only = target.is_of_member().then_some(target.payer);
    let replaced = remove(tx, &object.bucket, &object.key, only, object.created_at).await?;
    insert(tx, id, object, Some(&target)).await?;
    meter_storage(tx, target.payer, signed(object.size), object.created_at).await?;
    Ok(Stored::Done { replaced })
}

/// Returns true if the key has a file that was uploaded in a later second.
async fn has_later(tx: &Transaction<'_>, object: &Object) -> Outcome<bool> {
    let later =
        "SELECT 1 FROM objects WHERE bucket = $1 AND key = $2 AND created_at / 1000 > $3::bigint / 1000";
    is_there(tx, later, &[&object.bucket, &object.key, &object.created_at]).await
}

/// Locks the object with the key, and the purses of its former and its next payer.
async fn lock_payers(tx: &Transaction<'_>, bucket: &str, key: &str, next: Option<AccountId>) -> Outcome {
    let select = "SELECT payer FROM objects WHERE bucket = $1 AND key = $2 FOR UPDATE";
    let payer: Option<Option<AccountId>> = first(tx, select, &[&bucket, &key], column).await?;
    let payers: Vec<AccountId> = payer.flatten().into_iter().chain(next).collect();
    lock(tx, &payers).await
}

async fn store_output(
    tx: &Transaction<'_>,
    id: &str,
    object: &Object,
    limits: OutputLimits,
) -> Outcome<OutputStored> {
    let (lease, task, attempt) = lease_of(&object.key);
    // An output that arrives after the end of its task would replace the customer's output. The row lock serializes the
    // outputs of a lease, so that each counts the earlier ones.
    let running = "SELECT 1 FROM tasks WHERE id = $1 AND attempt::text = $2 AND status = 'computing' \
                   FOR NO KEY UPDATE";
    if !is_there(tx, running, &[&task, &attempt]).await? {
        return Ok(OutputStored::LeaseLost);
    }
    let others = format!(
        "SELECT count(*), coalesce(sum(size), 0)::bigint FROM objects WHERE {OF_LEASE} AND key <> $3"
    );
    let (count, bytes): (u64, u64) = one(tx, &others, &[&object.bucket, &lease, &object.key], pair).await?;
    if count >= limits.count || bytes + object.size > limits.bytes {
        return Ok(OutputStored::TooMany);
    }
    let replaced = remove(tx, &object.bucket, &object.key, None, object.created_at).await?;
    insert(tx, id, object, None).await?;
    Ok(OutputStored::Done { replaced })
}

async fn delete_file(
    tx: &Transaction<'_>,
    account: Option<AccountId>,
    (bucket, key): (&str, &str),
    now: Moment,
) -> Outcome<Option<String>> {
    // Targets are locked before objects, in the order of all transactions.
    let own = "SELECT 1 FROM objects WHERE bucket = $1 AND key = $2 \
               AND ($3::bigint IS NULL OR $3 IN (owner, payer, output_of))";
    if !is_there(tx, own, &[&bucket, &key, &account]).await? {
        return Ok(None);
    }
    // Unused targets are for files that are still to come.
    let void = "UPDATE upload_targets SET is_void = true \
                WHERE bucket = $1 AND key = $2 AND is_used AND NOT is_void";
    run(tx, void, &[&bucket, &key]).await?;
    lock_payers(tx, bucket, key, None).await?;
    remove(tx, bucket, key, None, now).await
}

async fn remove(
    tx: &Transaction<'_>,
    bucket: &str,
    key: &str,
    only_of: Option<AccountId>,
    now: Moment,
) -> Outcome<Option<String>> {
    let delete = "WITH removed AS ( \
           DELETE FROM objects WHERE bucket = $1 AND key = $2 AND ($3::bigint IS NULL OR payer = $3) \
           RETURNING owner, folder, category, payer, size, blob), \
         counted AS ( \
           UPDATE folder_usage SET files = files - 1, bytes = bytes - removed.size FROM removed \
           WHERE folder_usage.owner = removed.owner AND folder_usage.folder = removed.folder \
             AND folder_usage.category = removed.category) \
         SELECT payer, size, blob FROM removed";
    let removed: Option<(Option<AccountId>, i64, String)> =
        first(tx, delete, &[&bucket, &key, &only_of], triple).await?;
    let Some((payer, size, blob)) = removed else { return Ok(None) };
    if let Some(payer) = payer {
        meter_storage(tx, payer, -size, now).await?;
    }
    Ok(Some(blob))
}

/// Inserts an object: a file that was uploaded to a target, or an output of a lease.
async fn insert(tx: &Transaction<'_>, id: &str, object: &Object, target: Option<&Target>) -> Outcome {
    let Object { bucket, key, blob, mime, size, etag, created_at } = object;
    let (lease, task, _) = lease_of(key);
    let lease = target.is_none().then_some(lease);
    let task = target.is_none().then_some(task);
    let (owner, payer) = (target.map(|target| target.owner), target.map(|target| target.payer));
    let folder = target.map(|target| &target.folder);
    let category = category(mime);
    let size = signed(*size);
    run(
        tx,
        "WITH stored AS ( \
           INSERT INTO objects (id, bucket, key, owner, payer, folder, category, mime, size, etag, blob, \
             created_at, lease, output_of) \
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
             (SELECT account FROM tasks WHERE id = $14)) \
           RETURNING owner, folder, category, size) \
         INSERT INTO folder_usage (owner, folder, category, files, bytes) \
         SELECT owner, folder, category, 1, size FROM stored WHERE owner IS NOT NULL \
         ON CONFLICT (owner, folder, category) DO UPDATE \
         SET files = folder_usage.files + 1, bytes = folder_usage.bytes + excluded.bytes",
        &[
            &id, bucket, key, &owner, &payer, &folder, &category, mime, &size, etag, blob, created_at,
            &lease, &task,
        ],
    )
    .await?;
    Ok(())
}
