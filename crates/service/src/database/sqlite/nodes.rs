//! Keys and registrations of external nodes in SQLite.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;

use super::SqliteDatabase;
use super::statements::Statements as _;
use crate::accounts::StoredKey;
use crate::clock::Moment;
use crate::database::records::{column, known_node, node_key, seen_models, triple};
use crate::database::shared_sql::{
    ADD_NODE_KEY, FORGET_SILENT, KEY_MODELS, KNOWN_NODE, NODE_KEY, NODE_SEEN, OUTSIDE_MODELS, TOUCH_RUNNING,
};
use crate::database::values::json;
use crate::registry::{KnownNode, MAX_KEY_MODELS, NODE_RETENTION, NODE_SILENCE, NodeKey, Registry, SeenSlot};
use crate::{Error, Result};

#[async_trait]
impl Registry for SqliteDatabase {
    async fn add_node_key(
        &self,
        name: &str,
        key: &StoredKey,
        models: Option<&[String]>,
        now: Moment,
    ) -> Result<bool> {
        let added =
            self.run(ADD_NODE_KEY, (name.to_owned(), key.id.clone(), key.hash, now, models.map(json)));
        Ok(added.await? > 0)
    }

    async fn revoke_node_key(&self, name: &str, now: Moment) -> Result<bool> {
        let name = name.to_owned();
        self.write(move |db| {
            let revoke = "UPDATE node_keys SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL";
            let revoked = db.run(revoke, params![now, name])?;
            db.run(
                "UPDATE tasks SET lease_until = ? WHERE status = 'computing' \
                 AND node IN (SELECT id FROM nodes WHERE key = ?)",
                params![now.0 - 1, name],
            )?;
            db.run("DELETE FROM nodes WHERE key = ?", [name])?;
            Ok(revoked > 0)
        })
        .await
    }

    async fn node_key(&self, id: &str) -> Result<Option<NodeKey>> {
        self.first(NODE_KEY, [id.to_owned()], node_key).await
    }

    async fn register(&self, node: &str, key: Option<&str>, models: &[String], now: Moment) -> Result<bool> {
        let max_others = MAX_KEY_MODELS - i64::try_from(models.len()).unwrap_or(i64::MAX);
        let (node, key, models) = (node.to_owned(), key.map(str::to_owned), json(models));
        self.write(move |db| {
            let forget = "DELETE FROM nodes WHERE seen_at < ? AND id <> ? AND (key IS NULL) = ?";
            db.run(forget, params![now.before(NODE_RETENTION), node, key.is_none()])?;
            if let Some(key) = &key {
                let is_full = || Ok::<_, Error>(db.one(KEY_MODELS, [key], column::<i64>)? > max_others);
                if is_full()? {
                    db.run(FORGET_SILENT, params![key, now.before(NODE_SILENCE)])?;
                    if is_full()? {
                        return Ok(false);
                    }
                }
            }
            db.run(NODE_SEEN, params![node, now, key])?;
            db.run("DELETE FROM node_models WHERE node = ?", [&node])?;
            let insert = "INSERT INTO node_models (model, node, seen_at) \
                          SELECT DISTINCT value, ?1, iif(?3 IS NULL, NULL, ?4) FROM json_each(?2)";
            db.run(insert, params![node, models, key, now])?;
            Ok(true)
        })
        .await
    }

    async fn known_node(&self, node: &str, key: &str) -> Result<Option<KnownNode>> {
        Ok(known_node(self.all(KNOWN_NODE, [node.to_owned(), key.to_owned()], triple).await?))
    }

    async fn models_of_outside_nodes(&self, since: Moment) -> Result<Vec<String>> {
        self.all(OUTSIDE_MODELS, [since], column).await
    }

    async fn touch_slots(&self, slots: &[SeenSlot], now: Moment) -> Result<()> {
        let nodes = json(&slots.iter().map(|(node, _)| node).collect::<Vec<_>>());
        let models = json(&seen_models(slots));
        self.write(move |db| {
            let touch = "UPDATE nodes SET seen_at = ? WHERE id IN (SELECT value FROM json_each(?))";
            db.run(touch, params![now, nodes])?;
            db.run(
                "UPDATE node_models SET seen_at = ?1, slot = seen.slot \
                 FROM (SELECT value ->> 0 AS node, value ->> 1 AS model, value ->> 2 AS slot \
                       FROM json_each(?2)) AS seen \
                 WHERE node_models.node = seen.node AND node_models.model = seen.model",
                params![now, models],
            )?;
            Ok(())
        })
        .await
    }

    async fn touch_running(&self, node: &str, task: &str, now: Moment) -> Result<()> {
        self.run(TOUCH_RUNNING, (now, node.to_owned(), task.to_owned())).await.map(drop)
    }

    async fn resume_nodes(
        &self,
        within: Duration,
        absent_since: Moment,
        seen_at: Moment,
        lease_until: Moment,
    ) -> Result<()> {
        self.write(move |db| {
            if db.is_there("SELECT 1 FROM nodes WHERE key IS NULL AND seen_at >= ?", [absent_since])? {
                return Ok(());
            }
            let latest = "SELECT max(seen_at) FROM nodes";
            let Some(latest) = db.one(latest, [], column::<Option<Moment>>)? else { return Ok(()) };
            let since = latest.before(within);
            db.run(
                "UPDATE tasks SET lease_until = ?1 WHERE status = 'computing' AND lease_until < ?1 \
                 AND node IN (SELECT id FROM nodes WHERE key IS NOT NULL AND seen_at >= ?2)",
                params![lease_until, since],
            )?;
            let resume = "UPDATE nodes SET seen_at = max(seen_at, ?) WHERE key IS NOT NULL AND seen_at >= ?";
            db.run(resume, params![seen_at, since])?;
            let resume = "UPDATE node_models SET seen_at = max(seen_at, ?) WHERE seen_at >= ?";
            db.run(resume, params![seen_at, since])?;
            Ok(())
        })
        .await
    }
}
