//! Keys and registrations of external nodes, in any engine.

use std::time::Duration;

use async_trait::async_trait;

use super::dialect::Dialect;
use super::engine::{Engine, How, Rows as _, Session, params, work};
use super::records::{column, known_node, node_key, triple};
use super::values::json;
use crate::Result;
use crate::accounts::StoredKey;
use crate::clock::Moment;
use crate::registry::{KnownNode, MAX_KEY_MODELS, NODE_RETENTION, NODE_SILENCE, NodeKey, Registry};

#[async_trait]
impl<E: Engine> Registry for E {
    async fn add_node_key(
        &self,
        name: &str,
        key: &StoredKey,
        models: Option<&[String]>,
        now: Moment,
    ) -> Result<bool> {
        let add = "INSERT INTO node_keys (name, id, hash, created_at, models) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (name) DO UPDATE SET id = excluded.id, hash = excluded.hash, \
             created_at = excluded.created_at, models = excluded.models, revoked_at = NULL \
             WHERE node_keys.revoked_at IS NOT NULL";
        Ok(self.run(add, params![name, key.id, key.hash, now, models.map(json)]).await? > 0)
    }

    async fn revoke_node_key(&self, name: &str, now: Moment) -> Result<bool> {
        work!(self, How::Transaction, |db, name, now| {
            let revoke = "UPDATE node_keys SET revoked_at = $1 WHERE name = $2 AND revoked_at IS NULL";
            let revoked = db.run(revoke, params![now, name]).await?;
            let gone = "DELETE FROM nodes WHERE key = $1 RETURNING id";
            let gone: Vec<String> = db.all(gone, params![name], column).await?;
            let is_gone = E::DIALECT.is_in("$2");
            let expire =
                format!("UPDATE tasks SET lease_until = $1 WHERE status = 'computing' AND node {is_gone}");
            db.run(&expire, params![now.0 - 1, json(&gone)]).await?;
            Ok(revoked > 0)
        })
    }

    async fn node_key(&self, id: &str) -> Result<Option<NodeKey>> {
        let select = "SELECT id, hash, name, models FROM node_keys WHERE id = $1 AND revoked_at IS NULL";
        self.first(select, params![id], node_key).await
    }

    async fn register(&self, node: &str, key: Option<&str>, models: &[String], now: Moment) -> Result<bool> {
        let key = key.map(str::to_owned);
        work!(self, How::Transaction, |db, node, key, models, now| {
            let forget = "DELETE FROM nodes WHERE seen_at < $1 AND id <> $2 AND (key IS NULL) = $3";
            db.run(forget, params![now.before(NODE_RETENTION), node, key.is_none()]).await?;
            if let Some(key) = key
                && is_full(db, key, models).await?
            {
                let forget_silent = "DELETE FROM nodes WHERE key = $1 AND seen_at < $2";
                db.run(forget_silent, params![key, now.before(NODE_SILENCE)]).await?;
                if is_full(db, key, models).await? {
                    return Ok(false);
                }
            }
            let seen = "INSERT INTO nodes (id, seen_at, key) VALUES ($1, $2, $3) \
                        ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";
            db.run(seen, params![node, now, key]).await?;
            let served = json(models);
            let gone =
                format!("DELETE FROM node_models WHERE node = $1 AND model {}", E::DIALECT.is_not_in("$2"));
            db.run(&gone, params![node, served]).await?;
            let insert = format!(
                "INSERT INTO node_models (model, node, seen_at) SELECT DISTINCT item, $1, CAST($3 AS BIGINT) FROM {} \
                 WHERE true ON CONFLICT DO NOTHING",
                E::DIALECT.items.join("$2")
            );
            db.run(&insert, params![node, served, key.as_ref().map(|_| now)]).await?;
            Ok(true)
        })
    }

    async fn known_node(&self, node: &str, key: &str) -> Result<Option<KnownNode>> {
        let select = "SELECT model, coalesce(node_models.seen_at, nodes.seen_at), nodes.seen_at \
             FROM nodes JOIN node_models ON node_models.node = nodes.id WHERE nodes.id = $1 AND nodes.key = $2";
        Ok(known_node(self.all(select, params![node, key], triple).await?))
    }

    async fn models_of_outside_nodes(&self, since: Moment) -> Result<Vec<String>> {
        let select = "SELECT DISTINCT model FROM node_models \
             JOIN nodes ON nodes.id = node_models.node WHERE nodes.key IS NOT NULL \
             AND coalesce(node_models.seen_at, nodes.seen_at) >= $1";
        self.all(select, params![since], column).await
    }

    async fn touch_running(&self, node: &str, task: &str, now: Moment) -> Result<()> {
        // The node is alive for all models of the slot that runs the task.
        let touch = "UPDATE node_models SET seen_at = $1 WHERE node = $2 AND slot = ( \
             SELECT own.slot FROM node_models AS own JOIN tasks ON tasks.model = own.model \
             WHERE own.node = $2 AND tasks.id = $3)";
        self.run(touch, params![now, node, task]).await.map(drop)
    }

    async fn resume_nodes(
        &self,
        within: Duration,
        absent_since: Moment,
        seen_at: Moment,
        lease_until: Moment,
    ) -> Result<()> {
        work!(self, How::Transaction, |db, within, absent_since, seen_at, lease_until| {
            let local = "SELECT 1 FROM nodes WHERE key IS NULL AND seen_at >= $1";
            if db.is_there(local, params![absent_since]).await? {
                return Ok(());
            }
            let latest: Option<Moment> = db.one("SELECT max(seen_at) FROM nodes", params![], column).await?;
            let Some(latest) = latest else { return Ok(()) };
            let since = latest.before(*within);
            let Dialect { greatest, for_update, .. } = E::DIALECT;
            let there = format!(
                "SELECT id FROM nodes WHERE key IS NOT NULL AND seen_at >= $1 ORDER BY id{for_update}"
            );
            let there = json(&db.all::<String>(&there, params![since], column).await?);
            let resume = format!(
                "UPDATE nodes SET seen_at = {greatest}(seen_at, $1) WHERE id {}",
                E::DIALECT.is_in("$2")
            );
            db.run(&resume, params![seen_at, there]).await?;
            let resume = format!(
                "UPDATE node_models SET seen_at = {greatest}(seen_at, $1) WHERE seen_at >= $2 AND node {}",
                E::DIALECT.is_in("$3")
            );
            db.run(&resume, params![seen_at, since, there]).await?;
            let extend = format!(
                "UPDATE tasks SET lease_until = $1 WHERE status = 'computing' AND lease_until < $1 AND node {}",
                E::DIALECT.is_in("$2")
            );
            db.run(&extend, params![lease_until, there]).await.map(drop)
        })
    }
}

async fn is_full(db: &dyn Session, key: &str, models: &[String]) -> Result<bool> {
    let count =
        "SELECT count(*) FROM node_models JOIN nodes ON nodes.id = node_models.node WHERE nodes.key = $1";
    let others: i64 = db.one(count, params![key], column).await?;
    Ok(others > MAX_KEY_MODELS - i64::try_from(models.len()).unwrap_or(i64::MAX))
}
