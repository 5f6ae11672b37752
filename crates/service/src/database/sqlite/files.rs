//! Upload targets and stored objects in SQLite.

use std::collections::HashSet;

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::SqliteDatabase;
use super::movements::meter_storage;
use super::statements::Statements as _;
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{column, object, pair, storage_use, stored_file, target, triple, usage};
use crate::database::shared_sql::{FORGET_TARGETS, HAS_FORMER_URL, OBJECT, SET_QUOTA};
use crate::database::values::json;
use crate::files::{
    Files, Object, OutputLimits, OutputStored, Replaces, StorageUse, Stored, StoredFile, Target, TargetsOf,
    Usage, category, lease_of,
};

const TARGET: &str = "id, owner, payer, bucket, folder, key, mime, size, expires_at, is_void";

/// Objects of a bucket and a lease. `0` is the character after `/`.
const OF_LEASE: &str = "bucket = ?1 AND key > ?2 || '/' AND key < ?2 || '0'";

#[async_trait]
impl Files for SqliteDatabase {
    async fn add_target(&self, target: &Target, max_unused: u32) -> Result<bool> {
        let insert = "INSERT INTO upload_targets (id, owner, payer, bucket, folder, key, mime, size, expires_at) \
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE (SELECT count(*) FROM upload_targets \
               WHERE payer = ?3 AND is_used = 0 AND is_void = 0) < ?10 \
               AND (SELECT quota IS NULL OR stored_bytes + ?8 + (SELECT coalesce(sum(size), 0) FROM upload_targets \
                 WHERE payer = ?3 AND is_used = 0 AND is_void = 0) <= quota FROM accounts WHERE id = ?3)";
        let Target { id, owner, payer, bucket, folder, key, mime, size, expires_at, .. } = target.clone();
        let added = (id, owner, payer, bucket, folder, key, mime, size, expires_at, max_unused);
        Ok(self.run(insert, added).await? > 0)
    }

    async fn storage_use(&self, payer: AccountId) -> Result<StorageUse> {
        let select = "SELECT quota, stored_bytes, (SELECT coalesce(sum(size), 0) FROM upload_targets \
             WHERE payer = accounts.id AND is_used = 0 AND is_void = 0) FROM accounts WHERE id = ?";
        self.read(move |db| Ok(db.one(select, [payer], storage_use)?)).await
    }

    async fn set_quota(&self, account: AccountId, quota: Option<u64>) -> Result<()> {
        self.run(SET_QUOTA, (quota, account)).await.map(drop)
    }

    async fn target(&self, id: &str) -> Result<Option<Target>> {
        let select = format!("SELECT {TARGET} FROM upload_targets WHERE id = ?");
        self.first(select, [id.to_owned()], target).await
    }

    async fn is_of_another_payer(&self, bucket: &str, key: &str, payer: AccountId) -> Result<bool> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.read(move |db| is_of_another_payer(db, &bucket, &key, payer)).await
    }

    async fn awaits_upload(&self, of: TargetsOf<'_>) -> Result<bool> {
        let (condition, params) = match of {
            TargetsOf::Owner(owner) => ("AND owner = ?1", vec![Value::from(owner.0)]),
            TargetsOf::Folder(owner, folder) => {
                ("AND owner = ?1 AND folder = ?2", vec![owner.0.into(), folder.to_owned().into()])
            }
            TargetsOf::Object { bucket, key } => {
                ("AND bucket = ?1 AND key = ?2", vec![bucket.to_owned().into(), key.to_owned().into()])
            }
            TargetsOf::Everyone => ("", Vec::new()),
        };
        let unused =
            format!("SELECT 1 FROM upload_targets WHERE is_used = 0 AND is_void = 0 {condition} LIMIT 1");
        self.read(move |db| Ok(db.is_there(&unused, rusqlite::params_from_iter(params))?)).await
    }

    async fn targets_without_file(&self, ids: &[String]) -> Result<Vec<Target>> {
        let select = format!(
            "SELECT {TARGET} FROM upload_targets WHERE id IN (SELECT value FROM json_each(?)) \
             AND (is_void = 1 OR is_used = 0) \
             AND NOT EXISTS (SELECT 1 FROM objects WHERE blob = upload_targets.id)"
        );
        self.all(select, [json(ids)], target).await
    }

    async fn store_upload(
        &self,
        target_id: &str,
        id: &str,
        object: &Object,
        replaces: Replaces,
    ) -> Result<Stored> {
        let (target_id, id, object) = (target_id.to_owned(), id.to_owned(), object.clone());
        self.write(move |db| store_upload(db, &target_id, &id, &object, replaces)).await
    }

    async fn store_output(&self, id: &str, object: &Object, limits: OutputLimits) -> Result<OutputStored> {
        let (id, object) = (id.to_owned(), object.clone());
        self.write(move |db| store_output(db, &id, &object, limits)).await
    }

    async fn object(&self, bucket: &str, key: &str) -> Result<Option<Object>> {
        self.first(OBJECT, [bucket.to_owned(), key.to_owned()], object).await
    }

    async fn has_former_url(&self, bucket: &str, key: &str) -> Result<bool> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.read(move |db| Ok(db.is_there(HAS_FORMER_URL, [bucket, key])?)).await
    }

    async fn files(
        &self,
        owner: AccountId,
        folder: &str,
        category: Option<&str>,
        page: u64,
        page_size: u32,
    ) -> Result<(Vec<StoredFile>, u64)> {
        let offset = page.saturating_sub(1).saturating_mul(u64::from(page_size));
        let (folder, category) = (folder.to_owned(), category.map(str::to_owned));
        self.read(move |db| files(db, owner, &folder, category.as_deref(), offset, page_size)).await
    }

    async fn usage(&self, owner: AccountId) -> Result<Usage> {
        let sums =
            "SELECT coalesce(sum(files), 0), coalesce(sum(bytes), 0) FROM folder_usage WHERE owner = ?";
        Ok(self.first(sums, [owner], usage).await?.unwrap_or_default())
    }

    async fn delete_file(
        &self,
        account: Option<AccountId>,
        bucket: &str,
        key: &str,
        now: Moment,
    ) -> Result<Option<String>> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.write(move |db| delete_file(db, account, &bucket, &key, now)).await
    }

    async fn remove_unnamed_outputs(
        &self,
        bucket: &str,
        lease: &str,
        named: &[String],
    ) -> Result<Vec<String>> {
        let (bucket, lease, named) = (bucket.to_owned(), lease.to_owned(), json(named));
        let unnamed = format!(
            "DELETE FROM objects WHERE {OF_LEASE} AND key NOT IN (SELECT value FROM json_each(?3)) RETURNING blob"
        );
        self.write(move |db| Ok(db.all(&unnamed, [bucket, lease, named], column)?)).await
    }

    async fn remove_outputs(&self, before: Moment) -> Result<Vec<String>> {
        // Outputs of a successful task have a lease if an earlier version ended the task.
        let unneeded = "DELETE FROM objects WHERE sequence IN ( \
               SELECT sequence FROM objects WHERE lease IS NOT NULL AND NOT EXISTS ( \
                 SELECT 1 FROM tasks WHERE id = substr(lease, 1, instr(lease, '/') - 1) \
                 AND lease = id || '/' || attempt AND status IN ('computing', 'success')) \
               UNION ALL SELECT sequence FROM objects WHERE owner IS NULL AND created_at < ? LIMIT 1000) \
             RETURNING blob";
        self.write(move |db| Ok(db.all(unneeded, [before], column)?)).await
    }

    async fn forget_targets(&self, before: Moment) -> Result<u64> {
        Ok(self.run(FORGET_TARGETS, [before]).await? as u64)
    }

    async fn known_blobs(&self, blobs: &[String]) -> Result<HashSet<String>> {
        let known = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM objects WHERE blob = value) \
                     OR EXISTS (SELECT 1 FROM upload_targets \
                                WHERE id = value AND is_used = 0 AND is_void = 0)";
        Ok(self.all(known, [json(blobs)], column).await?.into_iter().collect())
    }
}

fn files(
    db: &Connection,
    owner: AccountId,
    folder: &str,
    category: Option<&str>,
    offset: u64,
    limit: u32,
) -> Result<(Vec<StoredFile>, u64)> {
    // One transaction, so that count and page are consistent.
    let snapshot = db.unchecked_transaction()?;
    let total: u64 = snapshot.one(
        "SELECT coalesce(sum(files), 0) FROM folder_usage \
         WHERE owner = ?1 AND folder = ?2 AND (?3 IS NULL OR category = ?3)",
        params![owner, folder, category],
        column,
    )?;
    // The offset is skipped in an index, before any row is read. Each index has its own statement.
    let offset = offset.min(total);
    let limit = u64::from(limit).min(total - offset);
    let (direction, skipped) = from_nearer_end(offset, limit, total);
    let of_category = if category.is_some() { "AND category = ?3" } else { "" };
    let page = format!(
        "SELECT id, bucket, folder, key, mime, size, created_at FROM objects WHERE sequence IN ( \
         SELECT sequence FROM objects WHERE owner = ?1 AND folder = ?2 {of_category} \
         ORDER BY sequence {direction} LIMIT ?4 OFFSET ?5) ORDER BY sequence"
    );
    let files = snapshot.all(&page, params![owner, folder, category, limit, skipped], stored_file)?;
    Ok((files, total))
}

/// Returns the read direction for a page, and the number of rows to skip in that direction.
pub(super) const fn from_nearer_end(offset: u64, limit: u64, total: u64) -> (&'static str, u64) {
    match offset > total / 2 {
        true => ("DESC", total - offset - limit),
        false => ("ASC", offset),
    }
}

fn is_of_another_payer(db: &Connection, bucket: &str, key: &str, payer: AccountId) -> Result<bool> {
    let of_another = "SELECT 1 FROM objects WHERE bucket = ? AND key = ? AND payer <> ?";
    Ok(db.is_there(of_another, params![bucket, key, payer])?)
}

fn store_upload(
    db: &Connection,
    target_id: &str,
    id: &str,
    object: &Object,
    replaces: Replaces,
) -> Result<Stored> {
    let standing = "SELECT 1 FROM upload_targets WHERE id = ? AND is_used = 1 AND is_void = 0";
    if db.is_there(standing, [target_id])? {
        // While a used target is not void, the file is the one that it stored.
        let same = "SELECT 1 FROM objects WHERE bucket = ? AND key = ? AND etag = ? AND size = ?";
        let is_same = params![object.bucket, object.key, object.etag, object.size];
        return Ok(if db.is_there(same, is_same)? { Stored::Again } else { Stored::Different });
    }
    let used =
        format!("UPDATE upload_targets SET is_used = 1 WHERE id = ? AND is_void = 0 RETURNING {TARGET}");
    let Some(target) = db.first(&used, [target_id], target)? else { return Ok(Stored::Void) };
    let is_taken = target.is_of_member()
        && is_of_another_payer(db, &object.bucket, &object.key, target.payer)?
        || replaces == Replaces::Earlier && has_later(db, object)?;
    if is_taken {
        db.run("UPDATE upload_targets SET is_void = 1 WHERE id = ?", [target_id])?;
        return Ok(Stored::Taken);
    }
    // A retry of an upload to an earlier target must not undo this upload.
    let void =
        "UPDATE upload_targets SET is_void = 1 WHERE bucket = ? AND key = ? AND is_used = 1 AND id <> ?";
    db.run(void, [&object.bucket, &object.key, target_id])?;
    let replaced = remove(db, &object.bucket, &object.key, object.created_at)?;
    insert(db, id, object, Some(&target))?;
    meter_storage(db, target.payer, object.size.cast_signed(), object.created_at)?;
    Ok(Stored::Done { replaced })
}

/// Returns true if the key has a file that was uploaded in a later second.
fn has_later(db: &Connection, object: &Object) -> Result<bool> {
    let later = "SELECT 1 FROM objects WHERE bucket = ? AND key = ? AND created_at / 1000 > ? / 1000";
    Ok(db.is_there(later, params![object.bucket, object.key, object.created_at])?)
}

fn store_output(db: &Connection, id: &str, object: &Object, limits: OutputLimits) -> Result<OutputStored> {
    let (lease, task, attempt) = lease_of(&object.key);
    // An output that arrives after the end of its task would replace the customer's output.
    let running = "SELECT 1 FROM tasks WHERE id = ? AND CAST(attempt AS TEXT) = ? AND status = 'computing'";
    if !db.is_there(running, [task, attempt])? {
        return Ok(OutputStored::LeaseLost);
    }
    let others =
        format!("SELECT count(*), coalesce(sum(size), 0) FROM objects WHERE {OF_LEASE} AND key <> ?3");
    let (count, bytes): (u64, u64) = db.one(&others, [&object.bucket, lease, &object.key], pair)?;
    if count >= limits.count || bytes + object.size > limits.bytes {
        return Ok(OutputStored::TooMany);
    }
    let replaced = remove(db, &object.bucket, &object.key, object.created_at)?;
    insert(db, id, object, None)?;
    let own =
        "UPDATE objects SET lease = ?2, output_of = (SELECT account FROM tasks WHERE id = ?3) WHERE id = ?1";
    db.run(own, [id, lease, task])?;
    Ok(OutputStored::Done { replaced })
}

fn delete_file(
    db: &Connection,
    account: Option<AccountId>,
    bucket: &str,
    key: &str,
    now: Moment,
) -> Result<Option<String>> {
    let own = "SELECT 1 FROM objects WHERE bucket = ?1 AND key = ?2 \
               AND (?3 IS NULL OR ?3 IN (owner, payer, output_of))";
    if !db.is_there(own, params![bucket, key, account])? {
        return Ok(None);
    }
    // Unused targets are for files that are still to come.
    let void = "UPDATE upload_targets SET is_void = 1 WHERE bucket = ? AND key = ? AND is_used = 1";
    db.run(void, [bucket, key])?;
    remove(db, bucket, key, now)
}

fn remove(db: &Connection, bucket: &str, key: &str, now: Moment) -> Result<Option<String>> {
    let delete = "DELETE FROM objects WHERE bucket = ? AND key = ? RETURNING payer, size, blob";
    let removed: Option<(Option<AccountId>, i64, String)> = db.first(delete, [bucket, key], triple)?;
    let Some((payer, size, blob)) = removed else { return Ok(None) };
    if let Some(payer) = payer {
        meter_storage(db, payer, -size, now)?;
    }
    Ok(Some(blob))
}

/// Inserts an object: an uploaded file, or an output of a model.
fn insert(db: &Connection, id: &str, object: &Object, target: Option<&Target>) -> Result<()> {
    let Object { bucket, key, blob, mime, size, etag, created_at } = object;
    let owner = target.map(|target| target.owner);
    let payer = target.map(|target| target.payer);
    let folder = target.map(|target| &target.folder);
    db.run(
        "INSERT INTO objects (id, bucket, key, owner, payer, folder, category, mime, size, etag, blob, \
         created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![id, bucket, key, owner, payer, folder, category(mime), mime, size, etag, blob, created_at],
    )?;
    Ok(())
}
