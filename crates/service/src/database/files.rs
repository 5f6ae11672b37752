//! Upload targets and stored objects, in any engine.

use std::collections::HashSet;

use async_trait::async_trait;

use super::dialect::Dialect;
use super::engine::{Engine, How, Rows as _, Session, params, work};
use super::ledger::meter_storage;
use super::records::{column, object, pair, storage_use, target, triple, usage};
use super::values::{json, signed};
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::files::{
    Files, LOGS, Object, OutputLimits, OutputStored, Replaces, StorageUse, Stored, Target, TargetsOf, Usage,
    category, lease_of,
};

const TARGET: &str = "id, owner, payer, bucket, folder, key, mime, size, expires_at, is_void";

/// Objects of a bucket and a lease. `0` is the character after `/`.
const OF_LEASE: &str = "bucket = $1 AND key > $2 || '/' AND key < $2 || '0'";

#[async_trait]
impl<E: Engine> Files for E {
    async fn add_target(&self, target: &Target, max_unused: u32) -> Result<bool> {
        let Dialect { unused, metered_accounts, .. } = E::DIALECT;
        let Target { id, owner, payer, bucket, folder, key, mime, size, expires_at, .. } = target;
        // Concurrent requests do not count each other.
        let insert = format!(
            "INSERT INTO upload_targets (id, owner, payer, bucket, folder, key, mime, size, expires_at) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 WHERE (SELECT count(*) FROM upload_targets \
               WHERE payer = $3 AND {unused} AND id <> $1) < $10 \
               AND (SELECT quota IS NULL OR stored_bytes + $8 + (SELECT coalesce(sum(size), 0) FROM upload_targets \
                 WHERE payer = $3 AND {unused} AND id <> $1) <= quota FROM {metered_accounts} WHERE id = $3) \
             ON CONFLICT (id) DO UPDATE SET id = excluded.id"
        );
        let size = signed(*size);
        let added = params![id, owner, payer, bucket, folder, key, mime, size, expires_at, max_unused];
        Ok(self.run_as(How::Idempotent, &insert, added).await? > 0)
    }

    async fn storage_use(&self, payer: AccountId) -> Result<StorageUse> {
        let Dialect { unused, metered_accounts, .. } = E::DIALECT;
        let select = format!(
            "SELECT quota, stored_bytes, (SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM upload_targets \
             WHERE payer = $1 AND {unused}) FROM {metered_accounts} WHERE id = $1"
        );
        self.one(&select, params![payer], storage_use).await
    }

    async fn set_quota(&self, account: AccountId, quota: Option<u64>) -> Result<()> {
        let set = "UPDATE accounts SET quota = $1 WHERE id = $2";
        self.run_as(How::Idempotent, set, params![quota.map(signed), account]).await.map(drop)
    }

    async fn target(&self, id: &str) -> Result<Option<Target>> {
        self.first(&format!("SELECT {TARGET} FROM upload_targets WHERE id = $1"), params![id], target).await
    }

    async fn is_of_another_payer(&self, bucket: &str, key: &str, payer: AccountId) -> Result<bool> {
        self.is_there(OF_ANOTHER_PAYER, params![bucket, key, payer]).await
    }

    async fn awaits_upload(&self, of: TargetsOf<'_>) -> Result<bool> {
        let unused = |condition: &str| {
            format!("SELECT 1 FROM upload_targets WHERE {} {condition} LIMIT 1", E::DIALECT.unused)
        };
        match of {
            TargetsOf::Owner(owner) => self.is_there(&unused("AND owner = $1"), params![owner]).await,
            TargetsOf::Folder(owner, folder) => {
                self.is_there(&unused("AND owner = $1 AND folder = $2"), params![owner, folder]).await
            }
            TargetsOf::Object { bucket, key } => {
                self.is_there(&unused("AND bucket = $1 AND key = $2"), params![bucket, key]).await
            }
            TargetsOf::Everyone => self.is_there(&unused(""), params![]).await,
        }
    }

    async fn targets_without_file(&self, ids: &[String]) -> Result<Vec<Target>> {
        let select = format!(
            "SELECT {TARGET} FROM upload_targets WHERE id {} AND (is_void OR NOT is_used) \
             AND NOT EXISTS (SELECT 1 FROM objects WHERE blob = upload_targets.id)",
            E::DIALECT.is_in("$1")
        );
        self.all(&select, params![json(ids)], target).await
    }

    async fn store_upload(
        &self,
        target_id: &str,
        id: &str,
        object: &Object,
        replaces: Replaces,
    ) -> Result<Stored> {
        let _turn = self.enter_of_target(target_id).await?;
        work!(self, How::Transaction, |db, target_id, id, object, replaces| {
            let Object { bucket, key, etag, created_at, .. } = object;
            let size = signed(object.size);
            // With two concurrent uploads to one target, the second one finds the target used.
            let locked = format!(
                "SELECT {TARGET}, is_used FROM upload_targets WHERE id = $1{}",
                E::DIALECT.for_update
            );
            let found =
                db.first(&locked, params![target_id], |row| Ok((target(row)?, row.get::<bool>(10)?))).await?;
            let (target, is_used) = match found {
                Some((target, is_used)) if !target.is_void => (target, is_used),
                _ => return Ok(Stored::Void),
            };
            if is_used {
                // While a used target is not void, the file is the one that it stored.
                let same = "SELECT 1 FROM objects WHERE bucket = $1 AND key = $2 AND etag = $3 AND size = $4";
                let is_same = db.is_there(same, params![bucket, key, etag, size]).await?;
                return Ok(if is_same { Stored::Again } else { Stored::Different });
            }
            target.assert_same_file(object);
            db.change_one("UPDATE upload_targets SET is_used = true WHERE id = $1", params![target_id])
                .await?;
            let is_taken = target.is_of_member()
                && db.is_there(OF_ANOTHER_PAYER, params![bucket, key, target.payer]).await?
                || *replaces == Replaces::Earlier && has_later(db, object).await?;
            if is_taken {
                db.change_one("UPDATE upload_targets SET is_void = true WHERE id = $1", params![target_id])
                    .await?;
                return Ok(Stored::Taken);
            }
            // A retry of an upload to an earlier target must not undo this upload.
            let void = "UPDATE upload_targets SET is_void = true \
                        WHERE bucket = $1 AND key = $2 AND is_used AND NOT is_void AND id <> $3";
            db.run(void, params![bucket, key, target_id]).await?;
            lock_payers(db, bucket, key, Some(target.payer)).await?;
            // If another account has uploaded the file meanwhile, the insert conflicts, and the transaction is retried.
            let only = target.is_of_member().then_some(target.payer);
            let replaced = remove(db, bucket, key, only, *created_at).await?;
            insert(db, id, object, Some(&target)).await?;
            let meter = meter_storage(db, target.payer, size, *created_at).await?;
            debug_assert!(meter.stored_bytes >= size, "a stored file is not counted");
            Ok(Stored::Done { replaced })
        })
    }

    async fn store_output(&self, id: &str, object: &Object, limits: OutputLimits) -> Result<OutputStored> {
        work!(self, How::Transaction, |db, id, object, limits| {
            let Object { bucket, key, created_at, .. } = object;
            let (lease, task, attempt) = lease_of(key);
            // A late output would replace the customer's; the row lock lets each output of a lease count the others.
            let running = format!(
                "SELECT 1 FROM tasks WHERE id = $1 AND CAST(attempt AS TEXT) = $2 AND status = 'computing'{}",
                E::DIALECT.for_no_key_update
            );
            if !db.is_there(&running, params![task, attempt]).await? {
                return Ok(OutputStored::LeaseLost);
            }
            let others = format!(
                "SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM objects WHERE {OF_LEASE} AND key <> $3"
            );
            let (count, bytes): (u64, u64) = db.one(&others, params![bucket, lease, key], pair).await?;
            if count >= limits.count || bytes + object.size > limits.bytes {
                return Ok(OutputStored::TooMany);
            }
            let replaced = remove(db, bucket, key, None, *created_at).await?;
            insert(db, id, object, None).await?;
            Ok(OutputStored::Done { replaced })
        })
    }

    async fn object(&self, bucket: &str, key: &str) -> Result<Option<Object>> {
        let select = "SELECT bucket, key, blob, mime, size, etag, created_at FROM objects \
                      WHERE bucket = $1 AND key = $2";
        self.first(select, params![bucket, key], object).await
    }

    async fn has_former_url(&self, bucket: &str, key: &str) -> Result<bool> {
        let former = "SELECT 1 FROM objects JOIN former_urls ON former_urls.blob = objects.blob \
                      WHERE bucket = $1 AND key = $2";
        self.is_there(former, params![bucket, key]).await
    }

    async fn usage(&self, owner: AccountId) -> Result<Usage> {
        let sums = "SELECT CAST(coalesce(sum(files), 0) AS BIGINT), CAST(coalesce(sum(bytes), 0) AS BIGINT) \
                    FROM folder_usage WHERE owner = $1";
        self.one(sums, params![owner], usage).await
    }

    async fn delete_file(
        &self,
        account: Option<AccountId>,
        bucket: &str,
        key: &str,
        now: Moment,
    ) -> Result<Option<String>> {
        let _turn = match account {
            Some(account) => self.enter(account).await?,
            None => None,
        };
        work!(self, How::Transaction, |db, account, bucket, key, now| {
            // Targets are locked before objects, in the order of all transactions.
            let own = "SELECT 1 FROM objects WHERE bucket = $1 AND key = $2 \
                       AND (CAST($3 AS BIGINT) IS NULL OR $3 IN (owner, payer, output_of))";
            if !db.is_there(own, params![bucket, key, account]).await? {
                return Ok(None);
            }
            // Unused targets are for files that are still to come.
            let void = "UPDATE upload_targets SET is_void = true \
                        WHERE bucket = $1 AND key = $2 AND is_used AND NOT is_void";
            db.run(void, params![bucket, key]).await?;
            lock_payers(db, bucket, key, None).await?;
            remove(db, bucket, key, None, *now).await
        })
    }

    async fn remove_unnamed_outputs(
        &self,
        bucket: &str,
        lease: &str,
        named: &[String],
    ) -> Result<Vec<String>> {
        let is_unnamed = E::DIALECT.is_not_in("$3");
        let unnamed = format!("DELETE FROM objects WHERE {OF_LEASE} AND key {is_unnamed} RETURNING blob");
        self.all_as(How::Statement, &unnamed, params![bucket, lease, json(named)], column).await
    }

    async fn remove_outputs(&self, before: Moment) -> Result<Vec<String>> {
        // Outputs of a successful task have a lease if an earlier version ended the task. A log tells why a task failed.
        let unneeded = format!(
            "DELETE FROM objects WHERE sequence IN ( \
               SELECT sequence FROM objects WHERE lease IS NOT NULL AND bucket <> '{LOGS}' AND NOT EXISTS ( \
                 SELECT 1 FROM tasks WHERE id = substr(lease, 1, {}(lease, '/') - 1) \
                 AND lease = id || '/' || attempt AND status IN ('computing', 'success')) \
               UNION ALL SELECT sequence FROM objects WHERE owner IS NULL AND created_at < $1 LIMIT 1000) \
             RETURNING blob",
            E::DIALECT.position
        );
        self.all_as(How::Statement, &unneeded, params![before], column).await
    }

    async fn forget_targets(&self, before: Moment) -> Result<u64> {
        let forget = "DELETE FROM upload_targets WHERE id IN ( \
             SELECT id FROM upload_targets WHERE expires_at < $1 LIMIT 1000)";
        self.run(forget, params![before]).await
    }

    async fn known_blobs(&self, blobs: &[String]) -> Result<HashSet<String>> {
        let is_in = E::DIALECT.is_in("$1");
        let known = format!(
            "SELECT blob FROM objects WHERE blob {is_in} UNION ALL \
             SELECT id FROM upload_targets WHERE id {is_in} AND {}",
            E::DIALECT.unused
        );
        Ok(self.all(&known, params![json(blobs)], column).await?.into_iter().collect())
    }
}

const OF_ANOTHER_PAYER: &str = "SELECT 1 FROM objects WHERE bucket = $1 AND key = $2 AND payer <> $3";

async fn has_later(db: &dyn Session, object: &Object) -> Result<bool> {
    let later = "SELECT 1 FROM objects WHERE bucket = $1 AND key = $2 \
                 AND created_at / 1000 > CAST($3 AS BIGINT) / 1000";
    db.is_there(later, params![object.bucket, object.key, object.created_at]).await
}

/// Locks the object with the key, and the purses of its former and its next payer.
async fn lock_payers(db: &dyn Session, bucket: &str, key: &str, next: Option<AccountId>) -> Result<()> {
    let for_update = db.dialect().for_update;
    if for_update.is_empty() {
        return Ok(());
    }
    let select = format!("SELECT payer FROM objects WHERE bucket = $1 AND key = $2{for_update}");
    let payer: Option<Option<AccountId>> = db.first(&select, params![bucket, key], column).await?;
    let payers: Vec<AccountId> = payer.flatten().into_iter().chain(next).collect();
    db.lock_purses(&payers).await
}

async fn remove(
    db: &dyn Session,
    bucket: &str,
    key: &str,
    only_of: Option<AccountId>,
    now: Moment,
) -> Result<Option<String>> {
    let removed: Option<(Option<AccountId>, i64, String)> =
        db.first(db.dialect().remove_object, params![bucket, key, only_of], triple).await?;
    let Some((payer, size, blob)) = removed else { return Ok(None) };
    if let Some(payer) = payer {
        meter_storage(db, payer, -size, now).await?;
    }
    Ok(Some(blob))
}

async fn insert(db: &dyn Session, id: &str, object: &Object, target: Option<&Target>) -> Result<()> {
    let Object { bucket, key, blob, mime, size, etag, created_at } = object;
    let output = target.is_none().then(|| lease_of(key));
    let lease = output.map(|(lease, ..)| lease);
    let task = output.map(|(_, task, _)| task);
    let owner = target.map(|target| target.owner);
    let payer = target.map(|target| target.payer);
    let folder = target.map(|target| &target.folder);
    let insert = "INSERT INTO objects (id, bucket, key, owner, payer, folder, category, mime, size, etag, blob, \
           created_at, lease, output_of) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
           (SELECT account FROM tasks WHERE id = $14))";
    let category = category(mime);
    let size = signed(*size);
    let values = params![
        id, bucket, key, owner, payer, folder, category, mime, size, etag, blob, created_at, lease, task
    ];
    db.run(&db.dialect().count_object.join(insert), values).await.map(drop)
}
