//! Upload targets and stored objects in SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};

use super::movements::meter_storage;
use super::statements::Statements as _;
use super::{SqliteDatabase, signed, unsigned};
use crate::Error;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::object_storage::{Files, Object, Stored, StoredFile, Target, Usage, category};

fn target(row: &Row<'_>) -> rusqlite::Result<Target> {
    Ok(Target {
        id: row.get("id")?,
        owner: row.get("owner")?,
        payer: row.get("payer")?,
        bucket: row.get("bucket")?,
        folder: row.get("folder")?,
        key: row.get("key")?,
        mime: row.get("mime")?,
        size: unsigned(row.get("size")?),
        expires_at: row.get("expires_at")?,
        is_void: row.get("is_void")?,
    })
}

#[async_trait]
impl Files for SqliteDatabase {
    async fn add_target(&self, target: &Target) -> Result<(), Error> {
        let target = target.clone();
        self.write(move |db| {
            db.run(
                "INSERT INTO upload_targets (id, owner, payer, bucket, folder, key, mime, size, expires_at) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    target.id,
                    target.owner,
                    target.payer,
                    target.bucket,
                    target.folder,
                    target.key,
                    target.mime,
                    signed(target.size),
                    target.expires_at,
                ],
            )?;
            Ok(())
        })
        .await
    }

    async fn target(&self, id: &str) -> Result<Option<Target>, Error> {
        let id = id.to_owned();
        self.read(move |db| Ok(db.first("SELECT * FROM upload_targets WHERE id = ?", [id], target)?)).await
    }

    async fn store_upload(&self, target_id: &str, id: &str, object: &Object) -> Result<Stored, Error> {
        let (target_id, id, object) = (target_id.to_owned(), id.to_owned(), object.clone());
        self.write(move |db| store_upload(db, &target_id, &id, &object)).await
    }

    async fn store_output(&self, id: &str, object: &Object) -> Result<Option<String>, Error> {
        let (id, object) = (id.to_owned(), object.clone());
        self.write(move |db| {
            let replaced = remove(db, &object.bucket, &object.key, object.created_at)?;
            insert(db, &id, &object, None)?;
            Ok(replaced)
        })
        .await
    }

    async fn object(&self, bucket: &str, key: &str) -> Result<Option<Object>, Error> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.read(move |db| object(db, &bucket, &key)).await
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
        let (folder, category) = (folder.to_owned(), category.map(str::to_owned));
        self.read(move |db| files(db, owner, &folder, category.as_deref(), offset, page_size)).await
    }

    async fn usage(&self, owner: AccountId) -> Result<Usage, Error> {
        self.read(move |db| {
            let sums = "SELECT coalesce(sum(files), 0), coalesce(sum(bytes), 0) \
                        FROM folder_usage WHERE owner = ?";
            Ok(db.one(sums, [owner], |row| {
                Ok(Usage { files: unsigned(row.get(0)?), bytes: unsigned(row.get(1)?) })
            })?)
        })
        .await
    }

    async fn delete_file(
        &self,
        owner: AccountId,
        bucket: &str,
        key: &str,
        now: Moment,
    ) -> Result<Option<String>, Error> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.write(move |db| delete_file(db, owner, &bucket, &key, now)).await
    }

    async fn forget_targets(&self, before: Moment) -> Result<u64, Error> {
        self.write(move |db| Ok(db.run("DELETE FROM upload_targets WHERE expires_at < ?", [before])? as u64))
            .await
    }

    async fn has_blob(&self, blob: &str) -> Result<bool, Error> {
        let blob = blob.to_owned();
        self.read(move |db| Ok(db.is_there("SELECT 1 FROM objects WHERE blob = ?", [blob])?)).await
    }
}

fn object(db: &Connection, bucket: &str, key: &str) -> Result<Option<Object>, Error> {
    let select = "SELECT bucket, key, blob, mime, size, etag, created_at FROM objects \
                  WHERE bucket = ? AND key = ?";
    Ok(db.first(select, [bucket, key], |row| {
        Ok(Object {
            bucket: row.get(0)?,
            key: row.get(1)?,
            blob: row.get(2)?,
            mime: row.get(3)?,
            size: unsigned(row.get(4)?),
            etag: row.get(5)?,
            created_at: row.get(6)?,
        })
    })?)
}

/// A page in the order in which files were stored, and how many there are in all.
fn files(
    db: &Connection,
    owner: AccountId,
    folder: &str,
    category: Option<&str>,
    offset: u64,
    limit: u32,
) -> Result<(Vec<StoredFile>, u64), Error> {
    // One transaction, so that the count belongs to the page.
    let snapshot = db.unchecked_transaction()?;
    let total = snapshot.one(
        "SELECT coalesce(sum(files), 0) FROM folder_usage \
         WHERE owner = ?1 AND folder = ?2 AND (?3 IS NULL OR category = ?3)",
        params![owner, folder, category],
        |row| row.get(0),
    )?;
    // The offset is counted in an index, before any row is read. One statement for each of the indexes.
    let of_category = if category.is_some() { "AND category = ?3" } else { "" };
    let page = format!(
        "SELECT id, bucket, folder, key, mime, size, created_at FROM objects WHERE sequence IN ( \
         SELECT sequence FROM objects WHERE owner = ?1 AND folder = ?2 {of_category} \
         ORDER BY sequence LIMIT ?4 OFFSET ?5) ORDER BY sequence"
    );
    let files = snapshot.all(&page, params![owner, folder, category, limit, signed(offset)], |row| {
        Ok(StoredFile {
            id: row.get(0)?,
            bucket: row.get(1)?,
            folder: row.get(2)?,
            key: row.get(3)?,
            mime: row.get(4)?,
            size: unsigned(row.get(5)?),
            created_at: row.get(6)?,
        })
    })?;
    Ok((files, unsigned(total)))
}

fn store_upload(db: &Connection, target_id: &str, id: &str, object: &Object) -> Result<Stored, Error> {
    let used = "UPDATE upload_targets SET is_used = 1 WHERE id = ? AND is_void = 0 RETURNING *";
    let Some(target) = db.first(used, [target_id], target)? else { return Ok(Stored::Void) };
    let replaced = remove(db, &object.bucket, &object.key, object.created_at)?;
    insert(db, id, object, Some((target.owner, &target.folder)))?;
    meter_storage(db, target.owner, signed(object.size), object.created_at)?;
    Ok(Stored::Kept { replaced })
}

fn delete_file(
    db: &Connection,
    owner: AccountId,
    bucket: &str,
    key: &str,
    now: Moment,
) -> Result<Option<String>, Error> {
    let own = "SELECT 1 FROM objects WHERE bucket = ? AND key = ? AND owner = ?";
    if !db.is_there(own, params![bucket, key, owner])? {
        return Ok(None);
    }
    // Targets that were not used yet stand for files that are still to come.
    let void = "UPDATE upload_targets SET is_void = 1 WHERE bucket = ? AND key = ? AND is_used = 1";
    db.run(void, [bucket, key])?;
    remove(db, bucket, key, now)
}

/// Removes the object with the key, if there is one, and returns its blob.
fn remove(db: &Connection, bucket: &str, key: &str, now: Moment) -> Result<Option<String>, Error> {
    let delete = "DELETE FROM objects WHERE bucket = ? AND key = ? RETURNING owner, size, blob";
    let removed: Option<(Option<AccountId>, i64, String)> =
        db.first(delete, [bucket, key], |row| row.try_into())?;
    let Some((owner, size, blob)) = removed else { return Ok(None) };
    if let Some(owner) = owner {
        meter_storage(db, owner, -size, now)?;
    }
    Ok(Some(blob))
}

/// Adds an object: a file in the folder of its owner, or what a model produced.
fn insert(db: &Connection, id: &str, object: &Object, file: Option<(AccountId, &str)>) -> Result<(), Error> {
    db.run(
        "INSERT INTO objects (id, bucket, key, owner, folder, category, mime, size, etag, blob, created_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            id,
            object.bucket,
            object.key,
            file.map(|(owner, _)| owner),
            file.map(|(_, folder)| folder),
            category(&object.mime),
            object.mime,
            signed(object.size),
            object.etag,
            object.blob,
            object.created_at,
        ],
    )?;
    Ok(())
}
