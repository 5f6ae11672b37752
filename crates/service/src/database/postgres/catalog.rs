//! Lists of models in PostgreSQL.

use async_trait::async_trait;

use super::PostgresDatabase;
use super::failure::read;
use super::statements::{Params, page};
use crate::Result;
use crate::catalog::{Filter, ModelPage, ModelPages, Search, Sort, trending_since};
use crate::database::lists::{SUMMARY, order, parts};
use crate::database::records::model_summary;
use crate::database::values::signed;

const MATCHING: &str = "AND (strpos(folded_name, $2) > 0 OR strpos(folded_description, $2) > 0)";

const TRENDING: &str = "coalesce((SELECT sum(tasks) FROM model_days WHERE model = models.id AND day > $3), 0) \
     + (SELECT coalesce(sum(tasks), 0) FROM model_uses WHERE model = models.id AND day > $3) AS place, likes AS next";

#[async_trait]
impl ModelPages for PostgresDatabase {
    async fn models(&self, search: &Search) -> Result<ModelPage> {
        let read = || async {
            let scans = search.reads_many() || search.sort == Sort::Trending;
            let _scan = if scans { self.scans.acquire().await.ok() } else { None };
            let (text, since) = (search.folded_text(), trending_since(search.now));
            let sql = list(search.filter, search.sort, text.is_some());
            let (limit, offset) = (i64::from(search.limit), signed(search.offset));
            let params: Params<'_> = &[&search.caller, &text, &since, &limit, &offset];
            read!(self, |db| page(db, &sql, params, model_summary))
        };
        self.caches.page(search, read).await
    }
}

/// Returns the query of a list: account $1, text $2, trending since $3, limit $4, offset $5. One consistent statement.
fn list(filter: Option<Filter>, sort: Sort, has_text: bool) -> String {
    let (parts, more) = parts(filter);
    let matching = if has_text { MATCHING } else { "" };
    let (place, order) = order(sort);
    let columns = place.map_or_else(|| TRENDING.to_owned(), |place| format!("{place} AS place"));
    let each = |select: &str, between: &str| {
        let parts = parts.iter().map(|part| format!("{select} FROM models WHERE {part} {more} {matching}"));
        parts.collect::<Vec<_>>().join(between)
    };
    let count = each("SELECT count(*)", ") + (");
    let keys = each(&format!("SELECT {columns}, sequence AS number"), " UNION ALL ");
    // All parameters have a type, even if the parts do not use them.
    format!(
        "SELECT total, id, name, username, description, is_official, is_verified, is_public, price \
         FROM (SELECT ({count}) AS total, $1::bigint, $2::text, $3::bigint) AS counted LEFT JOIN ( \
           SELECT page.*, {SUMMARY} \
           FROM (SELECT * FROM ({keys}) AS keys ORDER BY {order} LIMIT $4 OFFSET $5) AS page \
           JOIN models ON models.sequence = page.number JOIN accounts ON accounts.id = models.owner \
         ) AS listed ON true ORDER BY {order}"
    )
}
