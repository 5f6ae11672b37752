//! Models and their versions in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::types::ToSql;

use super::PostgresDatabase;
use super::changes::Change;
use super::failure::{Outcome, read, statement, transaction};
use super::statements::{Params, first, is_there, page, run};
use super::values::signed;
use crate::Result;
use crate::accounts::AccountId;
use crate::catalog::{
    Catalog, Existing, Filter, ModelChange, ModelPage, NewModel, NewVersion, Published, Search, Sort,
    Visibility, folded, trending_since,
};
use crate::clock::Moment;
use crate::database::lists::{SUMMARY, order, parts};
use crate::database::records::{model_summary, published};
use crate::database::shared_sql::{CHANGE_MODEL, IS_VERSION_DUE};

const MATCHING: &str = "AND (strpos(folded_name, $2) > 0 OR strpos(folded_description, $2) > 0)";

/// Trending score as `place`, and the tie-breaker `next`.
const TRENDING: &str = "coalesce((SELECT sum(tasks) FROM model_days WHERE model = models.id AND day > $3), 0) \
     + (SELECT coalesce(sum(tasks), 0) FROM model_uses WHERE model = models.id AND day > $3) AS place, likes AS next";

#[async_trait]
impl Catalog for PostgresDatabase {
    async fn models(&self, search: &Search) -> Result<ModelPage> {
        let read = || async {
            let scans = search.reads_many() || search.sort == Sort::Trending;
            let _scan = if scans { self.scans.acquire().await.ok() } else { None };
            read!(self, |db| models(db, search))
        };
        self.caches.page(search, read).await
    }

    async fn published(&self, id: &str) -> Result<Option<Arc<Published>>> {
        let select = format!(
            "SELECT {SUMMARY}, owner, metadata, models.created_at, updated_at, \
             versions.id, commit_hash, input_format, output_format, models.state \
             FROM models JOIN accounts ON accounts.id = models.owner \
             JOIN versions ON versions.model = models.id AND versions.is_active WHERE models.id = $1"
        );
        let read = || async { read!(self, |db| first(db, &select, &[&id], published)) };
        self.caches.models.get_or_read(id, read).await
    }

    async fn publish(&self, models: &[NewModel], existing: Existing) -> Result<u64> {
        let models = models.to_vec();
        self.write_and_announce(Change::Models, async move |database| {
            transaction!(database, |tx| publish(tx, &models, existing))
        })
        .await
    }

    async fn publish_version(
        &self,
        owner: AccountId,
        model: &str,
        version: &NewVersion,
        now: Moment,
    ) -> Result<Option<bool>> {
        let model = model.to_owned();
        let version = version.clone();
        self.write_and_announce(Change::Models, async move |database| {
            transaction!(database, |tx| publish_version(tx, owner, &model, &version, now))
        })
        .await
    }

    async fn forget_uses(&self, now: Moment) -> Result<()> {
        let forget = "DELETE FROM model_days WHERE day <= $1";
        statement!(self, |db| run(db, forget, &[&trending_since(now)])).map(|_| ())
    }

    async fn change_model(&self, model: &str, change: ModelChange, now: Moment) -> Result<bool> {
        let is_public = change.visibility.map(|visibility| visibility == Visibility::Public);
        let ModelChange { price, is_verified, is_playground, state, .. } = change;
        let model = model.to_owned();
        let changed = self.write_and_announce(Change::Models, async move |database| {
            let values: [&(dyn ToSql + Sync); 7] =
                [&price, &is_public, &is_verified, &is_playground, &state, &now, &model];
            statement!(database, |db| run(db, CHANGE_MODEL, &values))
        });
        Ok(changed.await? > 0)
    }
}

/// Returns the query of a list for the account $1, the text $2, trending since $3, limit $4 and offset $5. One
/// statement, so that count and page are consistent.
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

async fn models(db: &impl GenericClient, search: &Search) -> Outcome<ModelPage> {
    let (text, since) = (search.folded_text(), trending_since(search.now));
    let sql = list(search.filter, search.sort, text.is_some());
    let (limit, offset) = (i64::from(search.limit), signed(search.offset));
    page(db, &sql, &[&search.caller, &text, &since, &limit, &offset], model_summary).await
}

async fn publish(tx: &Transaction<'_>, models: &[NewModel], existing: Existing) -> Outcome<u64> {
    // The table lock serializes processes that start at once and publish the same models.
    tx.batch_execute("LOCK TABLE models IN SHARE ROW EXCLUSIVE MODE").await?;
    let mut changed = 0;
    for model in models {
        let put = put_model(tx, model, existing).await?;
        let is_refresh = existing == Existing::Refresh;
        let due_if: Params<'_> = &[&model.id, &model.owner, &is_refresh, &model.version.commit_hash];
        let is_due = (put || is_refresh) && is_there(tx, IS_VERSION_DUE, due_if).await?;
        let versioned =
            is_due && put_version(tx, &model.id, &model.version, is_refresh, model.updated_at).await?;
        changed += u64::from(put || versioned);
    }
    Ok(changed)
}

async fn publish_version(
    tx: &Transaction<'_>,
    owner: AccountId,
    model: &str,
    version: &NewVersion,
    now: Moment,
) -> Outcome<Option<bool>> {
    let own = "SELECT 1 FROM models WHERE id = $1 AND owner = $2 FOR UPDATE";
    if !is_there(tx, own, &[&model, &owner]).await? {
        return Ok(None);
    }
    put_version(tx, model, version, false, now).await.map(Some)
}

/// Inserts or updates a model; returns true if the model is new or has changed.
async fn put_model(tx: &Transaction<'_>, model: &NewModel, existing: Existing) -> Outcome<bool> {
    // Publishing an unchanged model writes nothing.
    let sql = "INSERT INTO models (id, name, owner, description, is_official, is_verified, is_public, \
         is_playground, price, metadata, likes, downloads, created_at, updated_at, folded_name, \
         folded_description) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) \
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, description = excluded.description, \
         is_official = excluded.is_official, metadata = excluded.metadata, \
         updated_at = greatest(models.updated_at, excluded.updated_at), folded_name = excluded.folded_name, \
         folded_description = excluded.folded_description \
         WHERE $17 AND models.owner = excluded.owner AND (models.name, models.description, \
         models.is_official, models.metadata) IS DISTINCT FROM \
         (excluded.name, excluded.description, excluded.is_official, excluded.metadata)";
    let changed = run(
        tx,
        sql,
        &[
            &model.id,
            &model.name,
            &model.owner,
            &model.description,
            &model.is_official,
            &model.is_verified,
            &model.is_public,
            &model.is_playground,
            &model.price,
            &model.metadata.get(),
            &model.likes,
            &model.downloads,
            &model.created_at,
            &model.updated_at,
            &folded(&model.name),
            &folded(&model.description),
            &(existing == Existing::Refresh),
        ],
    )
    .await?;
    Ok(changed > 0)
}

/// Activates the version, which updates the model; false if the version was active already.
async fn put_version(
    tx: &Transaction<'_>,
    model: &str,
    version: &NewVersion,
    is_built_in: bool,
    now: Moment,
) -> Outcome<bool> {
    let active = "SELECT 1 FROM versions WHERE model = $1 AND is_active AND commit_hash = $2";
    if is_there(tx, active, &[&model, &version.commit_hash]).await? {
        return Ok(false);
    }
    run(tx, "UPDATE versions SET is_active = false WHERE model = $1 AND is_active", &[&model]).await?;
    // An earlier version may be activated again.
    run(
        tx,
        "INSERT INTO versions (model, commit_hash, is_active, input_format, output_format, created_at, \
           is_built_in) VALUES ($1, $2, true, $3, $4, $5, $6) \
         ON CONFLICT (model, commit_hash) DO UPDATE SET is_active = true",
        &[&model, &version.commit_hash, &version.input_format, &version.output_format, &now, &is_built_in],
    )
    .await?;
    let update = "UPDATE models SET updated_at = greatest(updated_at, $2) WHERE id = $1";
    run(tx, update, &[&model, &now]).await?;
    Ok(true)
}
