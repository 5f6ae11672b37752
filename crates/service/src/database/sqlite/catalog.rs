//! Models and their versions in SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::SqliteDatabase;
use super::statements::Statements as _;
use crate::Result;
use crate::accounts::AccountId;
use crate::catalog::{
    Catalog, Existing, Filter, ModelChange, ModelPage, NewModel, NewVersion, Published, Search, Sort,
    Visibility, folded, trending_since,
};
use crate::clock::Moment;
use crate::database::lists::{PUBLIC, SUMMARY, order, parts};
use crate::database::records::{column, model_summary, published};
use crate::database::shared_sql::{CHANGE_MODEL, IS_VERSION_DUE};

const MATCHING: &str = "AND (instr(folded_name, $2) > 0 OR instr(folded_description, $2) > 0)";

/// Maximum number of candidates. For a more frequent text, scanning the list in order soon finds the first models.
const MAX_CANDIDATES: usize = 1_000;

/// Minimum length of a text in the index, in characters.
const MIN_INDEXED: usize = 3;
const MAX_INDEXED: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Order,
    /// Scan of all texts.
    Text,
    /// Scan of the candidates' texts, whose numbers are in $3.
    Candidates,
}

impl By {
    const fn models(self) -> &'static str {
        match self {
            Self::Order | Self::Text => "models",
            Self::Candidates => {
                "(SELECT value AS candidate FROM json_each($3)) CROSS JOIN models ON sequence = candidate"
            }
        }
    }
}

/// Trending score, computed for a few models.
const TREND: &str = "coalesce((SELECT sum(tasks) FROM model_days WHERE model = models.id AND day > $4), 0)";

/// Returns the query for the positions of the models that meet a condition, up to the end of the page. Trending scores are
/// computed for used models; the others are in the order of their likes.
fn places(place: Option<&str>, by: By, condition: &str) -> String {
    let models = by.models();
    if let Some(place) = place {
        return format!("SELECT {place} AS place, sequence AS number FROM {models} WHERE {condition}");
    }
    if by == By::Candidates {
        return format!(
            "SELECT {TREND} AS place, likes AS next, sequence AS number FROM {models} WHERE {condition}"
        );
    }
    format!(
        "SELECT place, likes AS next, sequence AS number FROM (SELECT model, sum(tasks) AS place \
         FROM model_days INDEXED BY model_days_by_day WHERE day > $4 GROUP BY model) AS used \
         CROSS JOIN models ON models.id = used.model WHERE {condition} \
         UNION ALL SELECT * FROM ( \
           SELECT 0 AS place, likes AS next, sequence AS number FROM models WHERE {condition} \
           AND NOT EXISTS (SELECT 1 FROM model_days WHERE model = models.id AND day > $4) \
           ORDER BY next DESC, number LIMIT $5 + $6)"
    )
}

#[async_trait]
impl Catalog for SqliteDatabase {
    async fn models(&self, search: &Search) -> Result<ModelPage> {
        let read = || async {
            let query = search.clone();
            match search.reads_many() {
                true => self.scan(move |db| models(db, &query)).await,
                false => self.read(move |db| models(db, &query)).await,
            }
        };
        self.caches.page(search, read).await
    }

    async fn published(&self, id: &str) -> Result<Option<Arc<Published>>> {
        let read = || {
            let select = format!(
                "SELECT {SUMMARY}, owner, metadata, models.created_at, updated_at, \
                 versions.id, commit_hash, input_format, output_format, models.state \
                 FROM models JOIN accounts ON accounts.id = models.owner \
                 JOIN versions ON versions.model = models.id AND versions.is_active = 1 WHERE models.id = ?"
            );
            self.first(select, [id.to_owned()], published)
        };
        self.caches.models.get_or_read(id, read).await
    }

    async fn publish(&self, models: &[NewModel], existing: Existing) -> Result<u64> {
        let models = models.to_vec();
        let invalidation = self.caches.invalidate_models();
        self.write_guarded(invalidation, move |db| publish(db, &models, existing)).await
    }

    async fn publish_version(
        &self,
        owner: AccountId,
        model: &str,
        version: &NewVersion,
        now: Moment,
    ) -> Result<Option<bool>> {
        let (model, version) = (model.to_owned(), version.clone());
        let invalidation = self.caches.invalidate_models();
        self.write_guarded(invalidation, move |db| {
            let own = "SELECT 1 FROM models WHERE id = ? AND owner = ?";
            if !db.is_there(own, params![model, owner])? {
                return Ok(None);
            }
            Ok(Some(put_version(db, &model, &version, false, now)?))
        })
        .await
    }

    async fn forget_uses(&self, now: Moment) -> Result<()> {
        let forget = "DELETE FROM model_days WHERE day <= ?";
        self.run(forget, [trending_since(now)]).await.map(drop)
    }

    async fn change_model(&self, model: &str, change: ModelChange, now: Moment) -> Result<bool> {
        let invalidation = self.caches.invalidate_models();
        let ModelChange { price, visibility, is_verified, is_playground, state } = change;
        let is_public = visibility.map(|visibility| visibility == Visibility::Public);
        let values = (price, is_public, is_verified, is_playground, state, now, model.to_owned());
        self.write_guarded(invalidation, move |db| Ok(db.run(CHANGE_MODEL, values)? > 0)).await
    }
}

fn models(db: &Connection, search: &Search) -> Result<ModelPage> {
    let (text, since) = (search.folded_text(), trending_since(search.now));
    // One transaction, so that count and page are consistent.
    let snapshot = db.unchecked_transaction()?;
    let candidates = text.as_deref().map(|text| candidates(&snapshot, text)).transpose()?.flatten();
    let by = match (&text, &candidates) {
        (None, _) => By::Order,
        (_, None) => By::Text,
        (_, Some(_)) => By::Candidates,
    };
    let statement = List::new(search.filter, search.sort, by);
    let total = snapshot.one(&statement.count, params![search.caller, text, candidates], column)?;
    // There are never more models, and the sum with the limit stays an integer.
    let offset = search.offset.min(u32::MAX.into());
    let params = params![search.caller, text, candidates, since, search.limit, offset];
    Ok((snapshot.all(&statement.page, params, model_summary)?, total))
}

/// Returns the numbers of the models that may contain a text; None if too many, or if the text is too short.
pub(super) fn candidates(db: &Connection, text: &str) -> Result<Option<String>> {
    let looked_up: Vec<char> = text.chars().take(MAX_INDEXED).collect();
    if looked_up.len() < MIN_INDEXED {
        return Ok(None);
    }
    let phrase = format!("\"{}\"", String::from_iter(looked_up).replace('"', "\"\""));
    let select = "SELECT rowid FROM model_texts WHERE model_texts MATCH ? LIMIT ?";
    let numbers: Vec<i64> = db.all(select, params![phrase, MAX_CANDIDATES + 1], column)?;
    Ok((numbers.len() <= MAX_CANDIDATES).then(|| serde_json::json!(numbers).to_string()))
}

/// Statements of a list: for the account $1, the text $2, candidates $3, trending since $4, limit $5 and offset $6.
pub(super) struct List {
    pub(super) count: String,
    pub(super) page: String,
}

impl List {
    pub(super) fn new(filter: Option<Filter>, sort: Sort, by: By) -> Self {
        let (parts, more) = parts(filter);
        let matching = if by == By::Order { "" } else { MATCHING };
        let (place, order) = order(sort);
        let each = |select: &dyn Fn(&str) -> String, between: &str| {
            parts.iter().map(|part| select(part)).collect::<Vec<_>>().join(between)
        };
        let count = |part: &str| match (by, part) {
            (By::Order, PUBLIC) => {
                format!("SELECT sum(models) FROM model_counts WHERE {PUBLIC} AND owner = 0 {more}")
            }
            (By::Order, part) => format!("SELECT sum(models) FROM model_counts WHERE {part} {more}"),
            // An index would read almost all models too, each individually.
            (By::Text, PUBLIC) => {
                format!("SELECT count(*) FROM models NOT INDEXED WHERE {PUBLIC} {more} {matching}")
            }
            _ => format!("SELECT count(*) FROM {} WHERE {part} {more} {matching}", by.models()),
        };
        let counts = each(&|part| format!("coalesce(({}), 0)", count(part)), " + ");
        // All parameters are named, even if the parts do not use them.
        let count = format!("SELECT {counts}, $1, $2, $3");
        let keys = each(&|part| places(place, by, &format!("{part} {more} {matching}")), " UNION ALL ");
        let page = format!(
            "SELECT {SUMMARY} FROM ({keys} ORDER BY {order} LIMIT $5 OFFSET $6) AS page \
             CROSS JOIN models ON models.sequence = page.number \
             JOIN accounts ON accounts.id = models.owner ORDER BY {order}"
        );
        // In SQLite, $1 is a name, and ?1 a parameter number.
        Self { count: count.replace('$', "?"), page: page.replace('$', "?") }
    }
}

fn publish(db: &Connection, models: &[NewModel], existing: Existing) -> Result<u64> {
    let mut changed = 0;
    for model in models {
        let put = put_model(db, model, existing)?;
        let is_refresh = existing == Existing::Refresh;
        let due_if = params![model.id, model.owner, is_refresh, model.version.commit_hash];
        let is_due = (put || is_refresh) && db.is_there(IS_VERSION_DUE, due_if)?;
        let versioned = is_due && put_version(db, &model.id, &model.version, is_refresh, model.updated_at)?;
        changed += u64::from(put || versioned);
    }
    Ok(changed)
}

/// Inserts or updates a model; returns true if the model is new or has changed.
fn put_model(db: &Connection, model: &NewModel, existing: Existing) -> Result<bool> {
    // Publishing an unchanged model writes nothing, so that a restart needs no disk sync.
    let sql = "INSERT INTO models (id, sequence, name, owner, description, is_official, is_verified, is_public, \
         is_playground, price, metadata, likes, downloads, created_at, updated_at, folded_name, \
         folded_description) \
         VALUES (?1, (SELECT coalesce(max(sequence), 0) + 1 FROM models), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, \
         ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, description = excluded.description, \
         is_official = excluded.is_official, metadata = excluded.metadata, \
         updated_at = max(updated_at, excluded.updated_at), folded_name = excluded.folded_name, \
         folded_description = excluded.folded_description \
         WHERE ?17 AND owner = excluded.owner AND (name, description, is_official, metadata) \
         IS NOT (excluded.name, excluded.description, excluded.is_official, excluded.metadata)";
    let changed = db.run(
        sql,
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
            existing == Existing::Refresh,
        ],
    )?;
    Ok(changed > 0)
}

/// Activates the version, which updates the model; false if the version was active already.
fn put_version(
    db: &Connection,
    model: &str,
    version: &NewVersion,
    is_built_in: bool,
    now: Moment,
) -> Result<bool> {
    let active = "SELECT 1 FROM versions WHERE model = ? AND is_active = 1 AND commit_hash = ?";
    if db.is_there(active, [model, &version.commit_hash])? {
        return Ok(false);
    }
    db.run("UPDATE versions SET is_active = 0 WHERE model = ? AND is_active = 1", [model])?;
    // An earlier version may be activated again.
    db.run(
        "INSERT INTO versions (model, commit_hash, is_active, input_format, output_format, created_at, \
           is_built_in) VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6) \
         ON CONFLICT (model, commit_hash) DO UPDATE SET is_active = 1",
        params![model, version.commit_hash, version.input_format, version.output_format, now, is_built_in],
    )?;
    db.run("UPDATE models SET updated_at = max(updated_at, ?) WHERE id = ?", params![now, model])?;
    Ok(true)
}
