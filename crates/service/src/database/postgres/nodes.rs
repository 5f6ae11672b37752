//! Keys and registrations of external nodes in PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Transaction;

use super::PostgresDatabase;
use super::failure::{Outcome, read, statement, transaction};
use super::statements::{Params, all, first, one, run};
use crate::Result;
use crate::accounts::StoredKey;
use crate::clock::Moment;
use crate::database::records::{column, known_node, node_key, seen_models, triple};
use crate::database::shared_sql::{
    ADD_NODE_KEY, FORGET_SILENT, KEY_MODELS, KNOWN_NODE, NODE_KEY, NODE_SEEN, OUTSIDE_MODELS, TOUCH_RUNNING,
};
use crate::database::values::json;
use crate::registry::{KnownNode, MAX_KEY_MODELS, NODE_RETENTION, NODE_SILENCE, NodeKey, Registry, SeenSlot};

#[async_trait]
impl Registry for PostgresDatabase {
    async fn add_node_key(
        &self,
        name: &str,
        key: &StoredKey,
        models: Option<&[String]>,
        now: Moment,
    ) -> Result<bool> {
        let models = models.map(json);
        let key: Params<'_> = &[&name, &key.id, &&key.hash[..], &now, &models];
        let added = statement!(self, |db| run(db, ADD_NODE_KEY, key))?;
        Ok(added > 0)
    }

    async fn revoke_node_key(&self, name: &str, now: Moment) -> Result<bool> {
        let expired = now.0 - 1;
        let revoked = statement!(self, |db| one(
            db,
            "WITH revoked AS ( \
               UPDATE node_keys SET revoked_at = $2 WHERE name = $1 AND revoked_at IS NULL RETURNING 1), \
             gone AS (DELETE FROM nodes WHERE key = $1 RETURNING id), \
             expired AS ( \
               UPDATE tasks SET lease_until = $3 WHERE status = 'computing' AND node IN (SELECT id FROM gone)) \
             SELECT count(*) FROM revoked",
            &[&name, &now, &expired],
            column::<i64>,
        ))?;
        Ok(revoked > 0)
    }

    async fn node_key(&self, id: &str) -> Result<Option<NodeKey>> {
        read!(self, |db| first(db, NODE_KEY, &[&id], node_key))
    }

    async fn register(&self, node: &str, key: Option<&str>, models: &[String], now: Moment) -> Result<bool> {
        transaction!(self, |tx| register(tx, node, key, models, now))
    }

    async fn known_node(&self, node: &str, key: &str) -> Result<Option<KnownNode>> {
        Ok(known_node(read!(self, |db| all(db, KNOWN_NODE, &[&node, &key], triple))?))
    }

    async fn models_of_outside_nodes(&self, since: Moment) -> Result<Vec<String>> {
        read!(self, |db| all(db, OUTSIDE_MODELS, &[&since], column))
    }

    async fn touch_slots(&self, slots: &[SeenSlot], now: Moment) -> Result<()> {
        // Rows are locked in one order, and times only increase, because several processes may record the same node.
        let touch = "WITH seen AS ( \
                       SELECT * FROM unnest($3::text[], $4::text[], $5::text[]) AS seen (node, model, slot)), \
                     found AS ( \
                       SELECT node_models.node, node_models.model, seen.slot \
                       FROM node_models JOIN seen ON seen.node = node_models.node AND seen.model = node_models.model \
                       WHERE coalesce(seen_at, 0) < $2 ORDER BY 1, 2 FOR UPDATE OF node_models), \
                     served AS ( \
                       UPDATE node_models SET seen_at = $2, slot = found.slot FROM found \
                       WHERE node_models.node = found.node AND node_models.model = found.model) \
                     UPDATE nodes SET seen_at = $2 FROM ( \
                       SELECT id FROM nodes WHERE id = ANY ($1) AND seen_at < $2 ORDER BY id FOR UPDATE) AS waiting \
                     WHERE nodes.id = waiting.id";
        let nodes: Vec<&str> = slots.iter().map(|(node, _)| &**node).collect();
        let models = seen_models(slots);
        let of_models: Vec<&str> = models.iter().map(|(node, ..)| *node).collect();
        let names: Vec<&str> = models.iter().map(|(_, model, _)| *model).collect();
        let labels: Vec<&str> = models.iter().map(|(.., slot)| *slot).collect();
        let touched: Params<'_> = &[&nodes, &now, &of_models, &names, &labels];
        statement!(self, |db| run(db, touch, touched)).map(|_| ())
    }

    async fn touch_running(&self, node: &str, task: &str, now: Moment) -> Result<()> {
        statement!(self, |db| run(db, TOUCH_RUNNING, &[&now, &node, &task])).map(|_| ())
    }

    async fn resume_nodes(
        &self,
        within: Duration,
        absent_since: Moment,
        seen_at: Moment,
        lease_until: Moment,
    ) -> Result<()> {
        let within = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
        let resume = "WITH there AS ( \
                        SELECT id FROM nodes \
                        WHERE key IS NOT NULL AND seen_at >= (SELECT max(seen_at) FROM nodes) - $1::bigint \
                          AND NOT EXISTS (SELECT 1 FROM nodes WHERE key IS NULL AND seen_at >= $2) \
                        ORDER BY id FOR UPDATE), \
                      seen AS ( \
                        UPDATE nodes SET seen_at = greatest(seen_at, $3) FROM there WHERE nodes.id = there.id), \
                      served AS ( \
                        UPDATE node_models SET seen_at = greatest(seen_at, $3) FROM there WHERE node = there.id \
                        AND seen_at >= (SELECT max(seen_at) FROM nodes) - $1::bigint) \
                      UPDATE tasks SET lease_until = $4 \
                      WHERE status = 'computing' AND lease_until < $4 AND node IN (SELECT id FROM there)";
        statement!(self, |db| run(db, resume, &[&within, &absent_since, &seen_at, &lease_until])).map(|_| ())
    }
}

async fn register(
    tx: &Transaction<'_>,
    node: &str,
    key: Option<&str>,
    models: &[String],
    now: Moment,
) -> Outcome<bool> {
    let forget = "DELETE FROM nodes WHERE seen_at < $1 AND id <> $2 AND (key IS NULL) = $3";
    run(tx, forget, &[&now.before(NODE_RETENTION), &node, &key.is_none()]).await?;
    if let Some(key) = key {
        let max_others = MAX_KEY_MODELS - i64::try_from(models.len()).unwrap_or(i64::MAX);
        let is_full = async || Outcome::Ok(one(tx, KEY_MODELS, &[&key], column::<i64>).await? > max_others);
        if is_full().await? {
            run(tx, FORGET_SILENT, &[&key, &now.before(NODE_SILENCE)]).await?;
            if is_full().await? {
                return Ok(false);
            }
        }
    }
    run(tx, NODE_SEEN, &[&node, &now, &key]).await?;
    let gone = "DELETE FROM node_models WHERE node = $1 AND model <> ALL ($2)";
    run(tx, gone, &[&node, &models]).await?;
    let insert = "INSERT INTO node_models (model, node, seen_at) SELECT DISTINCT model, $1, $3::bigint \
                  FROM unnest($2::text[]) AS served (model) ON CONFLICT DO NOTHING";
    run(tx, insert, &[&node, &models, &key.map(|_| now)]).await?;
    Ok(true)
}
