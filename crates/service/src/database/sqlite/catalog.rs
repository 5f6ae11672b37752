//! Models and their versions in SQLite.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, Row, ToSql, params};

use super::statements::Statements as _;
use super::values::Json;
use super::{SqliteDatabase, signed, unsigned};
use crate::Error;
use crate::accounts::AccountId;
use crate::catalog::{Catalog, Existing, Filter, Model, NewModel, NewVersion, Search, Sort, Version, folded};
use crate::clock::Moment;
use crate::ledger::Money;

/// How far back `trending` looks.
const TRENDING_DAYS: u32 = 7;

const SELECT: &str = "SELECT models.id, name, owner, username, description, is_official, is_verified, \
     is_public, price, metadata, models.created_at, updated_at FROM models \
     JOIN accounts ON accounts.id = models.owner";

/// Models that the account ?1 may access.
const ACCESSIBLE: &str = "(models.is_public = 1 OR models.owner = ?1 \
     OR models.owner IN (SELECT organization FROM members WHERE person = ?1))";

/// Models that lists show to the account ?1 unless it asks for others.
const LISTED: &str = "(models.is_public = 1 OR models.owner = ?1)";

/// An empty text is part of every other, so no search is a search for it.
const MATCHING: &str = "(instr(models.folded_name, ?2) > 0 OR instr(models.folded_description, ?2) > 0)";

fn model(row: &Row<'_>) -> rusqlite::Result<Model> {
    Ok(Model {
        id: row.get(0)?,
        name: row.get(1)?,
        owner: row.get(2)?,
        username: row.get(3)?,
        description: row.get(4)?,
        is_official: row.get(5)?,
        is_verified: row.get(6)?,
        is_public: row.get(7)?,
        price: row.get(8)?,
        metadata: row.get::<_, Json>(9)?.0,
        created_at: row.get(10)?,
        updated_at: row.get(11)?,
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
        let search = search.clone();
        self.read(move |db| models(db, &search)).await
    }

    async fn model(&self, caller: AccountId, id: &str) -> Result<Option<Model>, Error> {
        let id = id.to_owned();
        self.read(move |db| {
            let select = format!("{SELECT} WHERE {ACCESSIBLE} AND models.id = ?2");
            Ok(db.first(&select, params![caller, id], model)?)
        })
        .await
    }

    async fn active_version(&self, model: &str) -> Result<Option<Version>, Error> {
        let model = model.to_owned();
        self.read(move |db| {
            let select = "SELECT id, model, commit_hash, is_active, input_format, output_format \
                          FROM versions WHERE model = ? AND is_active = 1";
            Ok(db.first(select, [model], |row| {
                Ok(Version {
                    id: row.get(0)?,
                    model: row.get(1)?,
                    commit_hash: row.get(2)?,
                    is_active: row.get(3)?,
                    input_format: row.get(4)?,
                    output_format: row.get(5)?,
                })
            })?)
        })
        .await
    }

    async fn publish(&self, models: &[NewModel], existing: Existing) -> Result<u64, Error> {
        let models = models.to_vec();
        self.write(move |db| publish(db, &models, existing)).await
    }

    async fn publish_version(
        &self,
        owner: AccountId,
        model: &str,
        version: &NewVersion,
        now: Moment,
    ) -> Result<Option<bool>, Error> {
        let (model, version) = (model.to_owned(), version.clone());
        self.write(move |db| {
            let own = "SELECT 1 FROM models WHERE id = ? AND owner = ?";
            if !db.is_there(own, params![model, owner])? {
                return Ok(None);
            }
            let is_new = put_version(db, &model, &version, now)?;
            if is_new {
                db.run("UPDATE models SET updated_at = ? WHERE id = ?", params![now, model])?;
            }
            Ok(Some(is_new))
        })
        .await
    }

    async fn set_public(&self, model: &str, is_public: bool, now: Moment) -> Result<bool, Error> {
        self.set("is_public", is_public, model, now).await
    }

    async fn set_verified(&self, model: &str, is_verified: bool, now: Moment) -> Result<bool, Error> {
        self.set("is_verified", is_verified, model, now).await
    }

    async fn set_price(&self, model: &str, price: Money, now: Moment) -> Result<bool, Error> {
        self.set("price", price, model, now).await
    }
}

impl SqliteDatabase {
    /// Sets one column of a model; false when there is no such model.
    async fn set(
        &self,
        column: &'static str,
        value: impl ToSql + Send + 'static,
        model: &str,
        now: Moment,
    ) -> Result<bool, Error> {
        let model = model.to_owned();
        self.write(move |db| {
            let update = format!("UPDATE models SET {column} = ?, updated_at = ? WHERE id = ?");
            Ok(db.run(&update, params![value, now, model])? > 0)
        })
        .await
    }
}

fn models(db: &Connection, search: &Search) -> Result<(Vec<Model>, u64), Error> {
    let condition = condition(search.filter);
    let text = folded(search.text.as_deref().unwrap_or_default());
    let since = search.now.before(Duration::from_hours(24 * u64::from(TRENDING_DAYS))).day();
    // One transaction, so that the count belongs to the page.
    let snapshot = db.unchecked_transaction()?;
    let count = format!("SELECT count(*) FROM models WHERE {condition}");
    let total = snapshot.one(&count, params![search.caller, text], |row| row.get(0))?;
    let page = format!("{SELECT} WHERE {condition} ORDER BY {} LIMIT ?4 OFFSET ?5", order(search.sort));
    let params = params![search.caller, text, since, search.limit, signed(search.offset)];
    Ok((snapshot.all(&page, params, model)?, unsigned(total)))
}

fn publish(db: &Connection, models: &[NewModel], existing: Existing) -> Result<u64, Error> {
    let mut changed = 0;
    for model in models {
        let put = put_model(db, model, existing)?;
        if existing == Existing::Keep && !put {
            continue;
        }
        let owner: AccountId =
            db.one("SELECT owner FROM models WHERE id = ?", [&model.id], |row| row.get(0))?;
        let is_ours = owner == model.owner;
        let versioned = is_ours && put_version(db, &model.id, &model.version, model.updated_at)?;
        changed += u64::from(put || versioned);
    }
    Ok(changed)
}

/// Whether the model is new or has changed.
fn put_model(db: &Connection, model: &NewModel, existing: Existing) -> Result<bool, Error> {
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
    let changed = db.run(
        &sql,
        params![
            model.id,
            model.name,
            model.owner,
            model.description,
            model.is_official,
            model.is_verified,
            model.is_public,
            model.is_playground,
            model.price,
            model.metadata.get(),
            model.likes,
            model.downloads,
            model.created_at,
            model.updated_at,
            folded(&model.name),
            folded(&model.description),
            existing == Existing::Replace,
            existing == Existing::Keep,
        ],
    )?;
    Ok(changed > 0)
}

/// Makes the version the active one; false when it was already.
fn put_version(db: &Connection, model: &str, version: &NewVersion, now: Moment) -> Result<bool, Error> {
    let active = "SELECT 1 FROM versions WHERE model = ? AND is_active = 1 AND commit_hash = ?";
    if db.is_there(active, [model, &version.commit_hash])? {
        return Ok(false);
    }
    db.run("UPDATE versions SET is_active = 0 WHERE model = ? AND is_active = 1", [model])?;
    // A version that was active once may become so again.
    db.run(
        "INSERT INTO versions (model, commit_hash, is_active, input_format, output_format, created_at) \
         VALUES (?1, ?2, 1, ?3, ?4, ?5) ON CONFLICT (model, commit_hash) DO UPDATE SET is_active = 1",
        params![model, version.commit_hash, version.input_format, version.output_format, now],
    )?;
    Ok(true)
}
