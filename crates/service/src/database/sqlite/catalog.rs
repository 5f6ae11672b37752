//! Models and their versions in SQLite.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use super::{SqliteDatabase, signed, unsigned};
use crate::Error;
use crate::accounts::AccountId;
use crate::catalog::{Catalog, Existing, Filter, Model, NewModel, NewVersion, Search, Sort, Version, folded};
use crate::clock::Moment;
use crate::ledger::Money;

/// How far back `trending` looks.
const TRENDING_DAYS: u32 = 7;

const SELECT: &str = "SELECT models.*, accounts.username FROM models \
     JOIN accounts ON accounts.id = models.owner";

/// Models that the account ?1 may access.
const ACCESSIBLE: &str = "(models.is_public = 1 OR models.owner = ?1 \
     OR models.owner IN (SELECT organization FROM members WHERE person = ?1))";

/// Models that lists show to the account ?1 unless it asks for others.
const LISTED: &str = "(models.is_public = 1 OR models.owner = ?1)";

/// An empty text is part of every other, so no search is a search for it.
const MATCHING: &str = "(instr(models.folded_name, ?2) > 0 OR instr(models.folded_description, ?2) > 0)";

fn model(row: &SqliteRow) -> Result<Model, Error> {
    let metadata = RawValue::from_string(row.try_get("metadata")?)
        .map_err(|cause| Error::new("reading the metadata of a model", cause))?;
    Ok(Model {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        owner: AccountId(row.try_get("owner")?),
        username: row.try_get("username")?,
        description: row.try_get("description")?,
        is_official: row.try_get("is_official")?,
        is_verified: row.try_get("is_verified")?,
        is_public: row.try_get("is_public")?,
        price: Money::from_smallest(row.try_get("price")?),
        metadata,
        created_at: Moment(row.try_get("created_at")?),
        updated_at: Moment(row.try_get("updated_at")?),
    })
}

fn condition(filter: Option<Filter>) -> String {
    let own = match filter {
        None => LISTED.to_owned(),
        Some(Filter::Official) => format!("{LISTED} AND models.is_official = 1"),
        Some(Filter::Community) => format!("{LISTED} AND models.is_official = 0"),
        Some(Filter::Playground) => format!("{LISTED} AND models.is_playground = 1"),
        Some(Filter::Public) => "models.is_public = 1".to_owned(),
        Some(Filter::Author) => "models.owner = ?1".to_owned(),
        Some(Filter::Permission) => ACCESSIBLE.to_owned(),
    };
    format!("{own} AND {MATCHING}")
}

const fn order(sort: Sort) -> &'static str {
    match sort {
        Sort::CreatedOldest => "models.created_at, models.sequence",
        Sort::Created => "models.created_at DESC, models.sequence DESC",
        Sort::Modified => "models.updated_at DESC, models.sequence DESC",
        Sort::Likes => "models.likes DESC, models.sequence",
        Sort::Downloads => "models.downloads DESC, models.sequence",
        Sort::Trending => {
            "coalesce((SELECT sum(tasks) FROM model_days \
              WHERE model_days.model = models.id AND day > ?3), 0) DESC, \
             models.likes DESC, models.sequence"
        }
    }
}

#[async_trait]
impl Catalog for SqliteDatabase {
    async fn models(&self, search: &Search) -> Result<(Vec<Model>, u64), Error> {
        let condition = condition(search.filter);
        let bound = |sql: String| {
            let since = search.now.before(Duration::from_hours(24 * u64::from(TRENDING_DAYS)));
            sqlx::query(AssertSqlSafe(sql))
                .bind(search.caller.0)
                .bind(folded(search.text.as_deref().unwrap_or_default()))
                .bind(since.day())
        };
        // One transaction, so that the count belongs to the page.
        let mut tx = self.readers.begin().await?;
        let total =
            bound(format!("SELECT count(*) FROM models WHERE {condition}")).fetch_one(&mut *tx).await?;
        let page = format!("{SELECT} WHERE {condition} ORDER BY {} LIMIT ?4 OFFSET ?5", order(search.sort));
        let rows = bound(page).bind(search.limit).bind(signed(search.offset)).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok((rows.iter().map(model).collect::<Result<_, _>>()?, unsigned(total.try_get(0)?)))
    }

    async fn model(&self, caller: AccountId, id: &str) -> Result<Option<Model>, Error> {
        let sql = AssertSqlSafe(format!("{SELECT} WHERE {ACCESSIBLE} AND models.id = ?2"));
        let row = sqlx::query(sql).bind(caller.0).bind(id).fetch_optional(&self.readers).await?;
        row.as_ref().map(model).transpose()
    }

    async fn active_version(&self, model: &str) -> Result<Option<Version>, Error> {
        let row = sqlx::query("SELECT * FROM versions WHERE model = ? AND is_active = 1")
            .bind(model)
            .fetch_optional(&self.readers)
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Version {
            id: row.try_get("id")?,
            model: row.try_get("model")?,
            commit_hash: row.try_get("commit_hash")?,
            is_active: row.try_get("is_active")?,
            input_format: row.try_get("input_format")?,
            output_format: row.try_get("output_format")?,
        }))
    }

    async fn publish(&self, models: &[NewModel], existing: Existing) -> Result<u64, Error> {
        let mut tx = self.write().await?;
        let mut changed = 0;
        for model in models {
            let put = put_model(&mut tx, model, existing).await?;
            if existing == Existing::Keep && !put {
                continue;
            }
            let owner: i64 = sqlx::query_scalar("SELECT owner FROM models WHERE id = ?")
                .bind(&model.id)
                .fetch_one(&mut *tx)
                .await?;
            let is_ours = owner == model.owner.0;
            let versioned =
                is_ours && put_version(&mut tx, &model.id, &model.version, model.updated_at).await?;
            changed += u64::from(put || versioned);
        }
        tx.commit().await?;
        Ok(changed)
    }

    async fn publish_version(
        &self,
        owner: AccountId,
        model: &str,
        version: &NewVersion,
        now: Moment,
    ) -> Result<Option<bool>, Error> {
        let mut tx = self.write().await?;
        let owned: Option<i64> = sqlx::query_scalar("SELECT 1 FROM models WHERE id = ? AND owner = ?")
            .bind(model)
            .bind(owner.0)
            .fetch_optional(&mut *tx)
            .await?;
        if owned.is_none() {
            return Ok(None);
        }
        let is_new = put_version(&mut tx, model, version, now).await?;
        if is_new {
            sqlx::query("UPDATE models SET updated_at = ? WHERE id = ?")
                .bind(now.0)
                .bind(model)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(Some(is_new))
    }

    async fn set_public(&self, model: &str, is_public: bool, now: Moment) -> Result<bool, Error> {
        let done = sqlx::query("UPDATE models SET is_public = ?, updated_at = ? WHERE id = ?")
            .bind(is_public)
            .bind(now.0)
            .bind(model)
            .execute(&self.writer)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn set_verified(&self, model: &str, is_verified: bool, now: Moment) -> Result<bool, Error> {
        let done = sqlx::query("UPDATE models SET is_verified = ?, updated_at = ? WHERE id = ?")
            .bind(is_verified)
            .bind(now.0)
            .bind(model)
            .execute(&self.writer)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn set_price(&self, model: &str, price: Money, now: Moment) -> Result<bool, Error> {
        let done = sqlx::query("UPDATE models SET price = ?, updated_at = ? WHERE id = ?")
            .bind(price.smallest())
            .bind(now.0)
            .bind(model)
            .execute(&self.writer)
            .await?;
        Ok(done.rows_affected() > 0)
    }
}

/// Whether the model is new or has changed.
async fn put_model(tx: &mut SqliteConnection, model: &NewModel, existing: Existing) -> Result<bool, Error> {
    let replaced = match existing {
        Existing::Replace => {
            ", is_public = excluded.is_public, price = excluded.price, likes = excluded.likes, \
             downloads = excluded.downloads"
        }
        Existing::Refresh | Existing::Keep => "",
    };
    // Publishing what is there already writes nothing, so a restart costs no sync of the disk.
    let sql = format!(
        "INSERT INTO models (id, sequence, name, owner, description, is_official, is_verified, is_public, \
         is_playground, price, metadata, likes, downloads, created_at, updated_at, folded_name, \
         folded_description) \
         VALUES (?1, (SELECT coalesce(max(sequence), 0) + 1 FROM models), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, \
         ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, description = excluded.description, \
         is_official = excluded.is_official, is_verified = excluded.is_verified, \
         is_playground = excluded.is_playground, metadata = excluded.metadata, \
         updated_at = max(updated_at, excluded.updated_at), folded_name = excluded.folded_name, \
         folded_description = excluded.folded_description{replaced} \
         WHERE owner = excluded.owner AND NOT ?18 AND (?17 OR (name, description, is_official, is_verified, \
         is_playground, metadata) IS NOT (excluded.name, excluded.description, excluded.is_official, \
         excluded.is_verified, excluded.is_playground, excluded.metadata))"
    );
    let done = sqlx::query(AssertSqlSafe(sql))
        .bind(&model.id)
        .bind(&model.name)
        .bind(model.owner.0)
        .bind(&model.description)
        .bind(model.is_official)
        .bind(model.is_verified)
        .bind(model.is_public)
        .bind(model.is_playground)
        .bind(model.price.smallest())
        .bind(model.metadata.get())
        .bind(model.likes)
        .bind(model.downloads)
        .bind(model.created_at.0)
        .bind(model.updated_at.0)
        .bind(folded(&model.name))
        .bind(folded(&model.description))
        .bind(existing == Existing::Replace)
        .bind(existing == Existing::Keep)
        .execute(tx)
        .await?;
    Ok(done.rows_affected() > 0)
}

/// Makes the version the active one; false when it was already.
async fn put_version(
    tx: &mut SqliteConnection,
    model: &str,
    version: &NewVersion,
    now: Moment,
) -> Result<bool, Error> {
    let active: Option<String> =
        sqlx::query_scalar("SELECT commit_hash FROM versions WHERE model = ? AND is_active = 1")
            .bind(model)
            .fetch_optional(&mut *tx)
            .await?;
    if active.as_ref() == Some(&version.commit_hash) {
        return Ok(false);
    }
    sqlx::query("UPDATE versions SET is_active = 0 WHERE model = ? AND is_active = 1")
        .bind(model)
        .execute(&mut *tx)
        .await?;
    // A version that was active once may become so again.
    sqlx::query(
        "INSERT INTO versions (model, commit_hash, is_active, input_format, output_format, created_at) \
         VALUES (?1, ?2, 1, ?3, ?4, ?5) ON CONFLICT (model, commit_hash) DO UPDATE SET is_active = 1",
    )
    .bind(model)
    .bind(&version.commit_hash)
    .bind(&version.input_format)
    .bind(&version.output_format)
    .bind(now.0)
    .execute(tx)
    .await?;
    Ok(true)
}
