//! Keys and registrations of nodes outside the process, in SQLite.

use async_trait::async_trait;
use rusqlite::params;

use super::SqliteDatabase;
use super::statements::Statements as _;
use super::values::json;
use crate::Error;
use crate::accounts::KeptKey;
use crate::clock::Moment;
use crate::nodes::{FORGOTTEN_AFTER, KnownNode, Registry};

#[async_trait]
impl Registry for SqliteDatabase {
    async fn add_node_key(
        &self,
        name: &str,
        key: &KeptKey,
        models: Option<&[String]>,
        now: Moment,
    ) -> Result<bool, Error> {
        let (name, key, models) = (name.to_owned(), key.clone(), models.map(json));
        self.write(move |db| {
            let added = db.run(
                "INSERT INTO node_keys (name, id, hash, created_at, models) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (name) DO UPDATE SET id = excluded.id, hash = excluded.hash, \
                 created_at = excluded.created_at, models = excluded.models, revoked_at = NULL \
                 WHERE revoked_at IS NOT NULL",
                params![name, key.id, key.hash, now, models],
            )?;
            Ok(added > 0)
        })
        .await
    }

    async fn models_of_node_key(&self, name: &str) -> Result<Option<Vec<String>>, Error> {
        let name = name.to_owned();
        let models: Option<String> = self
            .read(move |db| {
                let select = "SELECT models FROM node_keys WHERE name = ?";
                Ok(db.first(select, [name], |row| row.get(0))?.flatten())
            })
            .await?;
        let read = |text: String| serde_json::from_str(&text);
        models.map(read).transpose().map_err(|cause| Error::new("reading the models of a node key", cause))
    }

    async fn revoke_node_key(&self, name: &str, now: Moment) -> Result<bool, Error> {
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

    async fn node_key(&self, id: &str) -> Result<Option<(KeptKey, String)>, Error> {
        let id = id.to_owned();
        self.read(move |db| {
            Ok(db.first(
                "SELECT id, hash, name FROM node_keys WHERE id = ? AND revoked_at IS NULL",
                [id],
                |row| Ok((KeptKey { id: row.get(0)?, hash: row.get(1)? }, row.get(2)?)),
            )?)
        })
        .await
    }

    async fn add_node(&self, node: &str, key: &str, models: &[String], now: Moment) -> Result<(), Error> {
        let (node, key, models) = (node.to_owned(), key.to_owned(), json(models));
        self.write(move |db| {
            let forget = "DELETE FROM nodes WHERE key IS NOT NULL AND seen_at < ?";
            db.run(forget, [now.before(FORGOTTEN_AFTER)])?;
            db.run("INSERT INTO nodes (id, seen_at, key) VALUES (?, ?, ?)", params![node, now, key])?;
            db.run("INSERT INTO node_models SELECT DISTINCT value, ?1 FROM json_each(?2)", [node, models])?;
            Ok(())
        })
        .await
    }

    async fn known_node(&self, node: &str, key: &str) -> Result<Option<KnownNode>, Error> {
        let (node, key) = (node.to_owned(), key.to_owned());
        self.read(move |db| {
            let rows: Vec<(String, Moment)> = db.all(
                "SELECT model, seen_at FROM nodes JOIN node_models ON node_models.node = nodes.id \
                 WHERE nodes.id = ? AND nodes.key = ?",
                [node, key],
                |row| row.try_into(),
            )?;
            let Some(&(_, seen_at)) = rows.first() else { return Ok(None) };
            let models = rows.into_iter().map(|(model, _)| model).collect();
            Ok(Some(KnownNode { models, seen_at }))
        })
        .await
    }

    async fn models_of_outside_nodes(&self, since: Moment) -> Result<Vec<String>, Error> {
        self.read(move |db| {
            let select = "SELECT DISTINCT model FROM node_models JOIN nodes ON nodes.id = node_models.node \
                          WHERE nodes.key IS NOT NULL AND seen_at >= ?";
            Ok(db.all(select, [since], |row| row.get(0))?)
        })
        .await
    }

    async fn touch_nodes(&self, nodes: &[String], now: Moment) -> Result<(), Error> {
        let nodes = json(nodes);
        self.write(move |db| {
            let touch = "UPDATE nodes SET seen_at = ? WHERE id IN (SELECT value FROM json_each(?))";
            db.run(touch, params![now, nodes])?;
            Ok(())
        })
        .await
    }
}
