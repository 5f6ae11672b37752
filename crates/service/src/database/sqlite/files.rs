//! Upload targets and stored objects in SQLite.

mod listing;

use async_trait::async_trait;
use listing::Listing;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::movements::meter_storage;
use super::{SqliteDatabase, signed, unsigned};
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::object_storage::{Files, Object, Stored, StoredFile, Target, Usage, category};

fn target(row: &SqliteRow) -> Result<Target, Error> {
    Ok(Target {
        id: row.try_get("id")?,
        owner: AccountId(row.try_get("owner")?),
        payer: AccountId(row.try_get("payer")?),
        bucket: row.try_get("bucket")?,
        folder: row.try_get("folder")?,
        key: row.try_get("key")?,
        mime: row.try_get("mime")?,
        size: unsigned(row.try_get("size")?),
        expires_at: Moment(row.try_get("expires_at")?),
        is_void: row.try_get("is_void")?,
    })
}

fn object(row: &SqliteRow) -> Result<Object, Error> {
    Ok(Object {
        bucket: row.try_get("bucket")?,
        key: row.try_get("key")?,
        blob: row.try_get("blob")?,
        mime: row.try_get("mime")?,
        size: unsigned(row.try_get("size")?),
        etag: row.try_get("etag")?,
        created_at: Moment(row.try_get("created_at")?),
    })
}

fn stored_file(row: &SqliteRow) -> Result<StoredFile, Error> {
    Ok(StoredFile {
        id: row.try_get("id")?,
        bucket: row.try_get("bucket")?,
        folder: row.try_get("folder")?,
        key: row.try_get("key")?,
        mime: row.try_get("mime")?,
        size: unsigned(row.try_get("size")?),
        created_at: Moment(row.try_get("created_at")?),
    })
}

#[async_trait]
impl Files for SqliteDatabase {
    async fn add_target(&self, target: &Target) -> Result<(), Error> {
        let target = target.clone();
        self.together(move |tx| Box::pin(async move { add_target(tx, &target).await })).await
    }

    async fn target(&self, id: &str) -> Result<Option<Target>, Error> {
        let row = sqlx::query("SELECT * FROM upload_targets WHERE id = ?")
            .bind(id)
            .fetch_optional(&self.readers)
            .await?;
        row.as_ref().map(target).transpose()
    }

    async fn store_upload(&self, target_id: &str, id: &str, object: &Object) -> Result<Stored, Error> {
        let (target, id, object) = (target_id.to_owned(), id.to_owned(), object.clone());
        self.together(move |tx| Box::pin(async move { store_upload(tx, &target, &id, &object).await })).await
    }

    async fn store_output(&self, id: &str, object: &Object) -> Result<Option<String>, Error> {
        let mut tx = self.write().await?;
        let replaced = remove(&mut tx, &object.bucket, &object.key, object.created_at).await?;
        insert(&mut tx, id, object, None).await?;
        tx.commit().await?;
        Ok(replaced)
    }

    async fn object(&self, bucket: &str, key: &str) -> Result<Option<Object>, Error> {
        let row = sqlx::query("SELECT * FROM objects WHERE bucket = ? AND key = ?")
            .bind(bucket)
            .bind(key)
            .fetch_optional(&self.readers)
            .await?;
        row.as_ref().map(object).transpose()
    }

    async fn files(
        &self,
        owner: AccountId,
        folder: &str,
        category: Option<&str>,
        page: u64,
        page_size: u32,
    ) -> Result<(Vec<StoredFile>, u64), Error> {
        let offset = page.saturating_sub(1).saturating_mul(u64::from(page_size));
        Listing { owner, folder, category }.page(&self.readers, offset, page_size).await
    }

    async fn usage(&self, owner: AccountId) -> Result<Usage, Error> {
        let row = sqlx::query(
            "SELECT coalesce(sum(files), 0) AS files, coalesce(sum(bytes), 0) AS bytes \
             FROM folder_usage WHERE owner = ?",
        )
        .bind(owner.0)
        .fetch_one(&self.readers)
        .await?;
        Ok(Usage { files: unsigned(row.try_get("files")?), bytes: unsigned(row.try_get("bytes")?) })
    }

    async fn delete_file(
        &self,
        owner: AccountId,
        bucket: &str,
        key: &str,
        now: Moment,
    ) -> Result<Option<String>, Error> {
        let mut tx = self.write().await?;
        let found: Option<i64> =
            sqlx::query_scalar("SELECT 1 FROM objects WHERE bucket = ? AND key = ? AND owner = ?")
                .bind(bucket)
                .bind(key)
                .bind(owner.0)
                .fetch_optional(&mut *tx)
                .await?;
        if found.is_none() {
            return Ok(None);
        }
        let blob = remove(&mut tx, bucket, key, now).await?;
        // Targets that were not used yet stand for files that are still to come.
        sqlx::query("UPDATE upload_targets SET is_void = 1 WHERE bucket = ? AND key = ? AND is_used = 1")
            .bind(bucket)
            .bind(key)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(blob)
    }

    async fn forget_targets(&self, before: Moment) -> Result<u64, Error> {
        let done = sqlx::query("DELETE FROM upload_targets WHERE expires_at < ?")
            .bind(before.0)
            .execute(&self.writer)
            .await?;
        Ok(done.rows_affected())
    }

    async fn has_blob(&self, blob: &str) -> Result<bool, Error> {
        let found: Option<i64> = sqlx::query_scalar("SELECT 1 FROM objects WHERE blob = ?")
            .bind(blob)
            .fetch_optional(&self.readers)
            .await?;
        Ok(found.is_some())
    }
}

async fn add_target(tx: &mut SqliteConnection, target: &Target) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO upload_targets (id, owner, payer, bucket, folder, key, mime, size, expires_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&target.id)
    .bind(target.owner.0)
    .bind(target.payer.0)
    .bind(&target.bucket)
    .bind(&target.folder)
    .bind(&target.key)
    .bind(&target.mime)
    .bind(signed(target.size))
    .bind(target.expires_at.0)
    .execute(tx)
    .await?;
    Ok(())
}

async fn store_upload(
    tx: &mut SqliteConnection,
    target_id: &str,
    id: &str,
    object: &Object,
) -> Result<Stored, Error> {
    let row = sqlx::query("UPDATE upload_targets SET is_used = 1 WHERE id = ? AND is_void = 0 RETURNING *")
        .bind(target_id)
        .fetch_optional(&mut *tx)
        .await?;
    let Some(target) = row.as_ref().map(target).transpose()? else { return Ok(Stored::Void) };
    let replaced = remove(tx, &object.bucket, &object.key, object.created_at).await?;
    insert(tx, id, object, Some((target.owner, &target.folder))).await?;
    meter_storage(tx, target.owner, signed(object.size), object.created_at).await?;
    Ok(Stored::Kept { replaced })
}

/// Removes the object with the key, if there is one, and returns its blob.
async fn remove(
    tx: &mut SqliteConnection,
    bucket: &str,
    key: &str,
    now: Moment,
) -> Result<Option<String>, Error> {
    let row = sqlx::query("DELETE FROM objects WHERE bucket = ? AND key = ? RETURNING owner, size, blob")
        .bind(bucket)
        .bind(key)
        .fetch_optional(&mut *tx)
        .await?;
    let Some(row) = row else { return Ok(None) };
    if let Some(owner) = row.try_get::<Option<i64>, _>("owner")? {
        let size: i64 = row.try_get("size")?;
        meter_storage(tx, AccountId(owner), -size, now).await?;
    }
    Ok(Some(row.try_get("blob")?))
}

/// Adds an object: a file in the folder of its owner, or what a model produced.
async fn insert(
    tx: &mut SqliteConnection,
    id: &str,
    object: &Object,
    file: Option<(AccountId, &str)>,
) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO objects (id, bucket, key, owner, folder, category, mime, size, etag, blob, created_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id)
    .bind(&object.bucket)
    .bind(&object.key)
    .bind(file.map(|(owner, _)| owner.0))
    .bind(file.map(|(_, folder)| folder))
    .bind(category(&object.mime))
    .bind(&object.mime)
    .bind(signed(object.size))
    .bind(&object.etag)
    .bind(&object.blob)
    .bind(object.created_at.0)
    .execute(tx)
    .await?;
    Ok(())
}
