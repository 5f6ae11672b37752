//! Models and their versions, in any engine.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::cache::CachedRows;
use super::dialect::Dialect;
use super::engine::{Engine, How, Rows as _, Session, params, work};
use super::lists::SUMMARY;
use super::records::{column as read_column, published};
use super::values::Json;
use crate::Result;
use crate::accounts::AccountId;
use crate::catalog::{
    Catalog, Existing, ModelChange, NewModel, NewVersion, Published, Visibility, folded, trending_since,
};
use crate::clock::Moment;

const CHANGE: How = How::Change(CachedRows::Models);

#[async_trait]
impl<E: Engine> Catalog for E {
    async fn published(&self, id: &str) -> Result<Option<Arc<Published>>> {
        let read = || async {
            let select = format!(
                "SELECT {SUMMARY}, owner, metadata, models.created_at, updated_at, \
                 versions.id, commit_hash, input_format, output_format, models.state \
                 FROM models JOIN accounts ON accounts.id = models.owner \
                 JOIN versions ON versions.model = models.id AND {} WHERE models.id = $1",
                E::DIALECT.is_active
            );
            self.first(&select, params![id], published).await
        };
        self.caches().models.get_or_read(id, read).await
    }

    async fn publish(&self, models: &[NewModel], existing: Existing) -> Result<u64> {
        work!(self, CHANGE, |db, models, existing| {
            // The lock serializes processes that start at once and publish the same models.
            db.lock_tables("models").await?;
            // In a refresh, a version of the operator stays active, and one that existed before is not activated again.
            // Formats that the publisher states as before activate nothing: a version of the operator may be active.
            let is_due = "SELECT 1 FROM models WHERE id = $1 AND owner = $2 \
                 AND NOT ($3 AND EXISTS (SELECT 1 FROM versions WHERE model = models.id \
                   AND (commit_hash = $4 OR (is_active AND NOT is_built_in))))";
            let mut changed = 0;
            for model in models {
                let put = put_model(db, model, *existing).await?;
                let is_refresh = *existing == Existing::Refresh;
                let due_if = params![model.id, model.owner, is_refresh, model.version.commit_hash];
                let is_stated = put.is_changed && put.is_version_restated;
                let is_due = (is_stated || is_refresh) && db.is_there(is_due, due_if).await?;
                let versioned = is_due
                    && put_version(db, &model.id, &model.version, is_refresh, model.updated_at).await?;
                changed += u64::from(put.is_changed || versioned);
            }
            Ok(changed)
        })
    }

    async fn publish_version(
        &self,
        owner: AccountId,
        model: &str,
        version: &NewVersion,
        now: Moment,
    ) -> Result<Option<bool>> {
        work!(self, CHANGE, |db, owner, model, version, now| {
            let own = format!("SELECT 1 FROM models WHERE id = $1 AND owner = $2{}", E::DIALECT.for_update);
            if !db.is_there(&own, params![model, owner]).await? {
                return Ok(None);
            }
            put_version(db, model, version, false, *now).await.map(Some)
        })
    }

    async fn forget_uses(&self, now: Moment) -> Result<()> {
        self.run("DELETE FROM model_days WHERE day <= $1", params![trending_since(now)]).await.map(drop)
    }

    async fn change_model(&self, model: &str, change: ModelChange, now: Moment) -> Result<bool> {
        let ModelChange { name, description, metadata, price, visibility, is_verified, is_playground, state } =
            change;
        let [folded_name, folded_description] = [&name, &description].map(|text| text.as_deref().map(folded));
        let metadata = metadata.map(|metadata| Value::Object(metadata).to_string());
        let is_public = visibility.map(|visibility| visibility == Visibility::Public);
        let change = "UPDATE models SET price = coalesce($1, price), \
             is_public = coalesce($2, is_public), is_verified = coalesce($3, is_verified), \
             is_playground = coalesce($4, is_playground), state = coalesce($5, state), name = coalesce($6, name), \
             folded_name = coalesce($7, folded_name), description = coalesce($8, description), \
             folded_description = coalesce($9, folded_description), metadata = coalesce($10, metadata), \
             updated_at = $11 WHERE id = $12";
        let values = params![
            price,
            is_public,
            is_verified,
            is_playground,
            state,
            name,
            folded_name,
            description,
            folded_description,
            metadata,
            now,
            model
        ];
        Ok(self.run_as(CHANGE, change, values).await? > 0)
    }
}

/// Difference between what a publisher states of a model and what it stated before, if it did.
struct Put {
    is_changed: bool,
    is_version_restated: bool,
}

/// Inserts a model, or updates what its publisher states otherwise than before.
async fn put_model(db: &dyn Session, model: &NewModel, existing: Existing) -> Result<Put> {
    let Dialect { greatest, model_number: [column, number], .. } = db.dialect();
    let mut stated = json!({
        "name": model.name, "description": model.description, "metadata": model.metadata, "price": model.price,
        "is_public": model.is_public,
    });
    if existing != Existing::Refresh {
        stated["version"] = json!(model.version.commit_hash);
    }
    // A field that the publisher states as before may have been changed by the operator, and stays.
    let earlier = "SELECT stated FROM models WHERE id = $1";
    let earlier = db.first(earlier, params![model.id], read_column::<Option<Json<Value>>>).await?;
    let earlier = earlier.flatten().map_or(Value::Null, |earlier| earlier.0);
    let is_restated = |field: &str| earlier[field] != stated[field];
    let is_sold_by_publisher = existing == Existing::Restate;
    let [name, description, metadata] = ["name", "description", "metadata"].map(is_restated);
    let [price, is_public] = ["price", "is_public"].map(|field| is_sold_by_publisher && is_restated(field));
    let is_version_restated = is_restated("version");
    let update = |column: &str, parameter: u8| {
        format!("{column} = CASE WHEN ${parameter} THEN excluded.{column} ELSE models.{column} END")
    };
    let updates = [
        update("name", 19),
        update("folded_name", 19),
        update("description", 20),
        update("folded_description", 20),
        update("metadata", 21),
        update("price", 22),
        update("is_public", 23),
    ]
    .join(", ");
    // Publishing an unchanged model writes nothing, so that a restart needs no disk sync.
    let sql = format!(
        "INSERT INTO models ({column}id, name, owner, description, is_official, is_verified, is_public, \
         is_playground, price, metadata, likes, downloads, created_at, updated_at, folded_name, \
         folded_description, stated) \
         VALUES ({number}$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) \
         ON CONFLICT (id) DO UPDATE SET {updates}, is_official = excluded.is_official, stated = excluded.stated, \
         updated_at = {greatest}(models.updated_at, excluded.updated_at) \
         WHERE $18 AND models.owner = excluded.owner AND models.stated IS DISTINCT FROM excluded.stated"
    );
    let stored_metadata = model.metadata.get();
    let folded_name = folded(&model.name);
    let folded_description = folded(&model.description);
    let stated = stated.to_string();
    let is_updated = existing != Existing::Keep;
    let values = params![
        model.id,
        model.name,
        model.owner,
        model.description,
        model.is_official,
        model.is_verified,
        model.is_public,
        model.is_playground,
        model.price,
        stored_metadata,
        model.likes,
        model.downloads,
        model.created_at,
        model.updated_at,
        folded_name,
        folded_description,
        stated,
        is_updated,
        name,
        description,
        metadata,
        price,
        is_public
    ];
    Ok(Put { is_changed: db.run(&sql, values).await? > 0, is_version_restated })
}

async fn put_version(
    db: &dyn Session,
    model: &str,
    version: &NewVersion,
    is_built_in: bool,
    now: Moment,
) -> Result<bool> {
    let Dialect { greatest, is_active, .. } = db.dialect();
    let NewVersion { commit_hash, input_format, output_format } = version;
    let active = format!("SELECT 1 FROM versions WHERE model = $1 AND {is_active} AND commit_hash = $2");
    if db.is_there(&active, params![model, commit_hash]).await? {
        return Ok(false);
    }
    let deactivate = format!("UPDATE versions SET is_active = false WHERE model = $1 AND {is_active}");
    db.run(&deactivate, params![model]).await?;
    let activate = "INSERT INTO versions \
           (model, commit_hash, is_active, input_format, output_format, created_at, is_built_in) \
         VALUES ($1, $2, true, $3, $4, $5, $6) \
         ON CONFLICT (model, commit_hash) DO UPDATE SET is_active = true";
    let values = params![model, commit_hash, input_format, output_format, now, is_built_in];
    db.run(activate, values).await?;
    let update = format!("UPDATE models SET updated_at = {greatest}(updated_at, $1) WHERE id = $2");
    db.run(&update, params![now, model]).await?;
    Ok(true)
}
