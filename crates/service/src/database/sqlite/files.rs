//! Pages of files in SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::SqliteDatabase;
use super::statements::Statements as _;
use crate::Result;
use crate::accounts::AccountId;
use crate::database::records::{column, stored_file};
use crate::files::{FilePages, StoredFile};

#[async_trait]
impl FilePages for SqliteDatabase {
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
}

fn files(
    db: &Connection,
    owner: AccountId,
    folder: &str,
    category: Option<&str>,
    offset: u64,
    limit: u32,
) -> Result<(Vec<StoredFile>, u64)> {
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

pub(super) const fn from_nearer_end(offset: u64, limit: u64, total: u64) -> (&'static str, u64) {
    match offset > total / 2 {
        true => ("DESC", total - offset - limit),
        false => ("ASC", offset),
    }
}
