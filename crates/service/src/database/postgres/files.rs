//! Pages of files in PostgreSQL.

use async_trait::async_trait;

use super::PostgresDatabase;
use super::failure::read;
use super::statements::page;
use crate::Result;
use crate::accounts::AccountId;
use crate::database::records::stored_file;
use crate::database::values::signed;
use crate::files::{FilePages, StoredFile};

#[async_trait]
impl FilePages for PostgresDatabase {
    async fn files(
        &self,
        owner: AccountId,
        folder: &str,
        category: Option<&str>,
        number: u64,
        page_size: u32,
    ) -> Result<(Vec<StoredFile>, u64)> {
        // One statement, so that count and page are consistent; each branch skips the offset in its own index.
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
}
