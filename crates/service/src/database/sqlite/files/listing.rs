//! Pages of a folder: found by counts of files, so that a deep page costs what the first one costs.

use sqlx::sqlite::SqlitePool;
use sqlx::{Row, SqliteConnection};

use super::super::{signed, unsigned};
use super::stored_file;
use crate::Error;
use crate::accounts::AccountId;
use crate::object_storage::StoredFile;

/// By how many bits the sequences of a stretch are shifted, from long stretches to short ones. The table
/// `shifts` says the same.
const SHIFTS: [u32; 3] = [24, 16, 8];

/// What stands for all categories in the counts.
const ALL: &str = "";

/// Which files are listed.
pub(super) struct Listing<'a> {
    pub(super) owner: AccountId,
    pub(super) folder: &'a str,
    pub(super) category: Option<&'a str>,
}

impl Listing<'_> {
    /// So many files after skipping so many, in the order in which they were stored, and how many there are
    /// in all.
    pub(super) async fn page(
        &self,
        readers: &SqlitePool,
        skip: u64,
        limit: u32,
    ) -> Result<(Vec<StoredFile>, u64), Error> {
        // The count and the page are of one moment.
        let mut tx = readers.begin().await?;
        let total = unsigned(self.total(&mut tx).await?);
        if skip >= total {
            return Ok((Vec::new(), total));
        }
        let (first, skip) = self.stretch(&mut tx, signed(skip)).await?;
        let page = match self.category {
            None => sqlx::query(
                "SELECT * FROM objects WHERE owner = ?1 AND folder = ?2 AND sequence >= ?4 \
                 ORDER BY sequence LIMIT ?5 OFFSET ?6",
            ),
            Some(_) => sqlx::query(
                "SELECT * FROM objects WHERE owner = ?1 AND folder = ?2 AND category = ?3 AND sequence >= ?4 \
                 ORDER BY sequence LIMIT ?5 OFFSET ?6",
            ),
        };
        let page = page.bind(self.owner.0).bind(self.folder).bind(self.category);
        let rows = page.bind(first).bind(limit).bind(skip).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok((rows.iter().map(stored_file).collect::<Result<_, _>>()?, total))
    }

    async fn total(&self, tx: &mut SqliteConnection) -> Result<i64, Error> {
        let query = sqlx::query_scalar(
            "SELECT coalesce(sum(files), 0) FROM folder_usage \
             WHERE owner = ?1 AND folder = ?2 AND (?3 IS NULL OR category = ?3)",
        );
        Ok(query.bind(self.owner.0).bind(self.folder).bind(self.category).fetch_one(tx).await?)
    }

    /// The first sequence of the shortest stretch that holds the file after so many others, and how many of
    /// them are in it.
    async fn stretch(&self, tx: &mut SqliteConnection, mut skip: i64) -> Result<(i64, i64), Error> {
        let (mut first, mut end) = (0, i64::MAX);
        for shift in SHIFTS {
            let found = sqlx::query(
                "SELECT stretch, before FROM (SELECT stretch, files, \
                 sum(files) OVER (ORDER BY stretch) - files AS before FROM folder_stretches \
                 WHERE owner = ?1 AND folder = ?2 AND category = ?3 AND shift = ?4 \
                 AND stretch BETWEEN ?5 AND ?6) WHERE before <= ?7 AND before + files > ?7",
            );
            let found =
                found.bind(self.owner.0).bind(self.folder).bind(self.category.unwrap_or(ALL)).bind(shift);
            let found =
                found.bind(first >> shift).bind(end >> shift).bind(skip).fetch_optional(&mut *tx).await?;
            // Counts that fit the files always have it.
            let Some(row) = found else { break };
            let stretch: i64 = row.try_get("stretch")?;
            skip -= row.try_get::<i64, _>("before")?;
            first = stretch << shift;
            end = first + (1 << shift) - 1;
        }
        Ok((first, skip))
    }
}
