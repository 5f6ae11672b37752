//! Keys and registrations of nodes outside the process, in SQLite.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;

use super::SqliteDatabase;
use super::statements::Statements as _;
use crate::Result;
use crate::accounts::KeptKey;
use crate::clock::Moment;
use crate::database::records::{column, node_key, pair};
use crate::database::shared_sql::{ADD_NODE_KEY, KNOWN_NODE, NODE_KEY, NODE_SEEN, OUTSIDE_MODELS};
use crate::database::values::json;
use crate::nodes::{KnownNode, NODE_RETENTION, NodeKey, Registry};

#[async_trait]
impl Registry for SqliteDatabase {
    async fn add_node_key(
        &self,
        name: &str,
        key: &KeptKey,
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

    async fn register(&self, node: &str, key: Option<&str>, models: &[String], now: Moment) -> Result<()> {
        let (node, key, models) = (node.to_owned(), key.map(str::to_owned), json(models));
        self.write(move |db| {
            let forget = "DELETE FROM nodes WHERE seen_at < ? AND id <> ? AND (key IS NULL) = ?";
            db.run(forget, params![now.before(NODE_RETENTION), node, key.is_none()])?;
            db.run(NODE_SEEN, params![node, now, key])?;
            db.run("DELETE FROM node_models WHERE node = ?", [&node])?;
            db.run("INSERT INTO node_models SELECT DISTINCT value, ?1 FROM json_each(?2)", [node, models])?;
            Ok(())
        })
        .await
    }

    async fn known_node(&self, node: &str, key: &str) -> Result<Option<KnownNode>> {
        let rows: Vec<(String, Moment)> =
            self.all(KNOWN_NODE, [node.to_owned(), key.to_owned()], pair).await?;
        let Some(&(_, seen_at)) = rows.first() else { return Ok(None) };
        let models = rows.into_iter().map(|(model, _)| model).collect();
        Ok(Some(KnownNode { models, seen_at }))
    }

    async fn models_of_outside_nodes(&self, since: Moment) -> Result<Vec<String>> {
        self.all(OUTSIDE_MODELS, [since], column).await
    }

    async fn touch_nodes(&self, nodes: &[String], now: Moment) -> Result<()> {
        let touch = "UPDATE nodes SET seen_at = ? WHERE id IN (SELECT value FROM json_each(?))";
        self.run(touch, (now, json(nodes))).await.map(drop)
    }

    async fn resume_nodes(&self, within: Duration, seen_at: Moment, lease_until: Moment) -> Result<()> {
        self.write(move |db| {
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
            Ok(())
        })
        .await
    }
}
