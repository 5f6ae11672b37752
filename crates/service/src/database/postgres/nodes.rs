//! Keys and registrations of nodes outside the processes of the service, in PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Transaction;

use super::PostgresDatabase;
use super::failure::{Outcome, read, statement, transaction};
use super::statements::{Params, all, first, one, run};
use crate::Result;
use crate::accounts::KeptKey;
use crate::clock::Moment;
use crate::database::records::{column, node_key, pair};
use crate::database::shared_sql::{ADD_NODE_KEY, KNOWN_NODE, NODE_KEY, NODE_SEEN, OUTSIDE_MODELS};
use crate::database::values::json;
use crate::nodes::{KnownNode, NODE_RETENTION, NodeKey, Registry};

#[async_trait]
impl Registry for PostgresDatabase {
    async fn add_node_key(
        &self,
        name: &str,
        key: &KeptKey,
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

    async fn register(&self, node: &str, key: Option<&str>, models: &[String], now: Moment) -> Result<()> {
        transaction!(self, |tx| register(tx, node, key, models, now))
    }

    async fn known_node(&self, node: &str, key: &str) -> Result<Option<KnownNode>> {
        let rows: Vec<(String, Moment)> = read!(self, |db| all(db, KNOWN_NODE, &[&node, &key], pair))?;
        let Some(&(_, seen_at)) = rows.first() else { return Ok(None) };
        let models = rows.into_iter().map(|(model, _)| model).collect();
        Ok(Some(KnownNode { models, seen_at }))
    }

    async fn models_of_outside_nodes(&self, since: Moment) -> Result<Vec<String>> {
        read!(self, |db| all(db, OUTSIDE_MODELS, &[&since], column))
    }

    async fn touch_nodes(&self, nodes: &[String], now: Moment) -> Result<()> {
        // In one order, and only forward: a node may be touched by several processes.
        let touch = "UPDATE nodes SET seen_at = $2 FROM ( \
                       SELECT id FROM nodes WHERE id = ANY ($1) AND seen_at < $2 ORDER BY id FOR UPDATE) AS waiting \
                     WHERE nodes.id = waiting.id";
        statement!(self, |db| run(db, touch, &[&nodes, &now])).map(|_| ())
    }

    async fn resume_nodes(&self, within: Duration, seen_at: Moment, lease_until: Moment) -> Result<()> {
        let within = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
        let resume = "WITH there AS ( \
                        SELECT id FROM nodes \
                        WHERE key IS NOT NULL AND seen_at >= (SELECT max(seen_at) FROM nodes) - $1 \
                        ORDER BY id FOR UPDATE), \
                      seen AS ( \
                        UPDATE nodes SET seen_at = greatest(seen_at, $2) FROM there WHERE nodes.id = there.id) \
                      UPDATE tasks SET lease_until = $3 \
                      WHERE status = 'computing' AND lease_until < $3 AND node IN (SELECT id FROM there)";
        statement!(self, |db| run(db, resume, &[&within, &seen_at, &lease_until])).map(|_| ())
    }
}

async fn register(
    tx: &Transaction<'_>,
    node: &str,
    key: Option<&str>,
    models: &[String],
    now: Moment,
) -> Outcome {
    let forget = "DELETE FROM nodes WHERE seen_at < $1 AND id <> $2 AND (key IS NULL) = $3";
    run(tx, forget, &[&now.before(NODE_RETENTION), &node, &key.is_none()]).await?;
    run(tx, NODE_SEEN, &[&node, &now, &key]).await?;
    let gone = "DELETE FROM node_models WHERE node = $1 AND model <> ALL ($2)";
    run(tx, gone, &[&node, &models]).await?;
    let insert = "INSERT INTO node_models (model, node) SELECT DISTINCT model, $1 FROM unnest($2::text[]) AS \
                  served (model) ON CONFLICT DO NOTHING";
    run(tx, insert, &[&node, &models]).await?;
    Ok(())
}
