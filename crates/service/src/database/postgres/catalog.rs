//! Models and their versions in PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::PostgresDatabase;
use super::changes::Change;
use super::failure::{Outcome, read, statement, transaction};
use super::statements::{all, column, first, is_there, one, run};
use super::values::{Json, signed, unsigned};
use crate::Result;
use crate::accounts::AccountId;
use crate::catalog::{
    Catalog, Existing, Filter, Format, Model, ModelChange, ModelPage, ModelSummary, NewModel, NewVersion,
    Published, Search, Sort, Version, Visibility, folded, trending_since,
};
use crate::clock::Moment;
use crate::database::records::record;

/// Models that are visible, in parts that each have an index.
const PUBLIC: &str = "is_public";
const OWN_PUBLIC: &str = "is_public AND owner = $1";
const OWN_PRIVATE: &str = "NOT is_public AND owner = $1";
const PRIVATE_OF_ORGANIZATIONS: &str = "NOT is_public AND owner <> $1 \
     AND owner IN (SELECT organization FROM members WHERE person = $1)";

const MATCHING: &str = "AND (strpos(folded_name, $2) > 0 OR strpos(folded_description, $2) > 0)";

/// Reads what lists show of a model, from a column on.
fn summary(row: &Row, from: usize) -> Result<ModelSummary, tokio_postgres::Error> {
    Ok(record!(try_get row from from, ModelSummary: id name username description is_official is_verified
                                                    visibility price))
}

/// Which parts a list has, and what else it asks of a model.
const fn parts(filter: Option<Filter>) -> (&'static [&'static str], &'static str) {
    const LISTED: &[&str] = &[PUBLIC, OWN_PRIVATE];
    match filter {
        None => (LISTED, ""),
        Some(Filter::Official) => (LISTED, "AND is_official"),
        Some(Filter::Community) => (LISTED, "AND NOT is_official"),
        Some(Filter::Playground) => (LISTED, "AND is_playground"),
        Some(Filter::Public) => (&[PUBLIC], ""),
        Some(Filter::Author) => (&[OWN_PUBLIC, OWN_PRIVATE], ""),
        Some(Filter::Permission) => (&[PUBLIC, OWN_PRIVATE, PRIVATE_OF_ORGANIZATIONS], ""),
    }
}

/// What a list is ordered by: columns of its own, and their order with the `number` of publication.
const fn order(sort: Sort) -> (&'static str, &'static str) {
    match sort {
        Sort::CreatedOldest => ("created_at AS place", "place, number"),
        Sort::Created => ("created_at AS place", "place DESC, number DESC"),
        Sort::Modified => ("updated_at AS place", "place DESC, number DESC"),
        Sort::Likes => ("likes AS place", "place DESC, number"),
        Sort::Downloads => ("downloads AS place", "place DESC, number"),
        Sort::Trending => (
            "coalesce((SELECT sum(tasks) FROM model_days WHERE model = models.id AND day > $3), 0) \
             + (SELECT coalesce(sum(tasks), 0) FROM model_uses WHERE model = models.id AND day > $3) AS place, likes AS next",
            "place DESC, next DESC, number",
        ),
    }
}

#[async_trait]
impl Catalog for PostgresDatabase {
    async fn models(&self, search: &Search) -> Result<ModelPage> {
        self.caches.page(search, || async { read!(self, |db| models(db, search)) }).await
    }

    async fn published(&self, id: &str) -> Result<Option<Arc<Published>>> {
        let read = || async { read!(self, |db| published(db, id)) };
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
        let ModelChange { price, is_verified, is_playground, .. } = change;
        let model = model.to_owned();
        let update = "UPDATE models SET price = coalesce($2, price), is_public = coalesce($3, is_public), \
                      is_verified = coalesce($4, is_verified), \
                      is_playground = coalesce($5, is_playground), updated_at = $6 WHERE id = $1";
        let changed = self.write_and_announce(Change::Models, async move |database| {
            let values: [&(dyn ToSql + Sync); 6] =
                [&model, &price, &is_public, &is_verified, &is_playground, &now];
            statement!(database, |db| run(db, update, &values))
        });
        Ok(changed.await? > 0)
    }
}

/// A list in one statement, so that the count belongs to the page: for the account $1, the text $2, trends since
/// $3, limit $4 and offset $5.
fn list(filter: Option<Filter>, sort: Sort, has_text: bool) -> String {
    let (parts, more) = parts(filter);
    let matching = if has_text { MATCHING } else { "" };
    let (columns, order) = order(sort);
    let each = |select: &str, between: &str| {
        let parts = parts.iter().map(|part| format!("{select} FROM models WHERE {part} {more} {matching}"));
        parts.collect::<Vec<_>>().join(between)
    };
    let count = each("SELECT count(*)", ") + (");
    let keys = each(&format!("SELECT {columns}, sequence AS number"), " UNION ALL ");
    // All parameters are named with their types, whether the parts name them or not.
    format!(
        "SELECT total, id, name, username, description, is_official, is_verified, is_public, price \
         FROM (SELECT ({count}) AS total, $1::bigint, $2::text, $3::bigint) AS counted LEFT JOIN ( \
           SELECT page.*, models.id, name, username, description, is_official, is_verified, is_public, price \
           FROM (SELECT * FROM ({keys}) AS keys ORDER BY {order} LIMIT $4 OFFSET $5) AS page \
           JOIN models ON models.sequence = page.number JOIN accounts ON accounts.id = models.owner \
         ) AS listed ON true ORDER BY {order}"
    )
}

async fn models(db: &impl GenericClient, search: &Search) -> Outcome<ModelPage> {
    let (text, since) = (search.folded_text(), trending_since(search.now));
    let sql = list(search.filter, search.sort, text.is_some());
    let (limit, offset) = (i64::from(search.limit), signed(search.offset));
    let rows: Vec<(i64, Option<ModelSummary>)> =
        all(db, &sql, &[&search.caller, &text, &since, &limit, &offset], |row| {
            let id: Option<String> = row.try_get(1)?;
            let model = id.map(|_| summary(row, 1)).transpose()?;
            Ok((row.try_get(0)?, model))
        })
        .await?;
    let total = rows.first().map_or(0, |(total, _)| *total);
    Ok((rows.into_iter().filter_map(|(_, model)| model).collect(), unsigned(total)))
}

async fn published(db: &impl GenericClient, id: &str) -> Outcome<Option<Arc<Published>>> {
    let found = first(
        db,
        "SELECT models.id, name, username, description, is_official, is_verified, is_public, price, owner, \
         metadata, models.created_at, updated_at, versions.id, commit_hash, input_format, output_format \
         FROM models JOIN accounts ON accounts.id = models.owner \
         JOIN versions ON versions.model = models.id AND versions.is_active WHERE models.id = $1",
        &[&id],
        |row| {
            let model = Model {
                summary: summary(row, 0)?,
                owner: row.try_get(8)?,
                metadata: row.try_get::<_, Json>(9)?.0,
                created_at: row.try_get(10)?,
                updated_at: row.try_get(11)?,
            };
            let version = Version {
                id: row.try_get(12)?,
                commit_hash: row.try_get(13)?,
                input_format: row.try_get::<_, Json>(14)?.0,
                output_format: row.try_get::<_, Json>(15)?.0,
            };
            Ok((model, version))
        },
    )
    .await?;
    let Some((model, version)) = found else { return Ok(None) };
    let inputs = Format::kept(version.input_format.get())?;
    Ok(Some(Arc::new(Published { model, version, inputs })))
}

async fn publish(tx: &Transaction<'_>, models: &[NewModel], existing: Existing) -> Outcome<u64> {
    // Several processes that start at once publish the same models: in one order, one process after the other.
    tx.batch_execute("LOCK TABLE models IN SHARE ROW EXCLUSIVE MODE").await?;
    let mut changed = 0;
    for model in models {
        let put = put_model(tx, model, existing).await?;
        if existing == Existing::Keep && !put {
            continue;
        }
        let owner: AccountId =
            one(tx, "SELECT owner FROM models WHERE id = $1", &[&model.id], column).await?;
        // A version that the operator published in the place of a built-in one stays.
        let is_superseded = existing == Existing::Refresh && has_version(tx, model).await?;
        let is_due = owner == model.owner && !is_superseded;
        let versioned = is_due && put_version(tx, &model.id, &model.version, model.updated_at).await?;
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
    match is_there(tx, own, &[&model, &owner]).await? {
        true => put_version(tx, model, version, now).await.map(Some),
        false => Ok(None),
    }
}

/// Whether the model is new or has changed.
async fn put_model(tx: &Transaction<'_>, model: &NewModel, existing: Existing) -> Outcome<bool> {
    // Publishing what is there already writes nothing.
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

/// Whether the version of the model was published before, active or not.
async fn has_version(tx: &Transaction<'_>, model: &NewModel) -> Outcome<bool> {
    let version = "SELECT 1 FROM versions WHERE model = $1 AND commit_hash = $2";
    is_there(tx, version, &[&model.id, &model.version.commit_hash]).await
}

/// Makes the version the active one, which updates the model; false when it was already.
async fn put_version(tx: &Transaction<'_>, model: &str, version: &NewVersion, now: Moment) -> Outcome<bool> {
    let active = "SELECT 1 FROM versions WHERE model = $1 AND is_active AND commit_hash = $2";
    if is_there(tx, active, &[&model, &version.commit_hash]).await? {
        return Ok(false);
    }
    run(tx, "UPDATE versions SET is_active = false WHERE model = $1 AND is_active", &[&model]).await?;
    // A version that was active once may become so again.
    run(
        tx,
        "INSERT INTO versions (model, commit_hash, is_active, input_format, output_format, created_at) \
         VALUES ($1, $2, true, $3, $4, $5) ON CONFLICT (model, commit_hash) DO UPDATE SET is_active = true",
        &[&model, &version.commit_hash, &version.input_format, &version.output_format, &now],
    )
    .await?;
    let update = "UPDATE models SET updated_at = greatest(updated_at, $2) WHERE id = $1";
    run(tx, update, &[&model, &now]).await?;
    Ok(true)
}
