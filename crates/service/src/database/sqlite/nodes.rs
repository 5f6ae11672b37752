//! Keys and registrations of nodes outside the process, in SQLite.

use async_trait::async_trait;
use sqlx::Row;

use super::SqliteDatabase;
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
        let done = sqlx::query(
            "INSERT INTO node_keys (name, id, hash, created_at, models) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (name) DO UPDATE SET id = excluded.id, hash = excluded.hash, \
             created_at = excluded.created_at, models = excluded.models, revoked_at = NULL \
             WHERE revoked_at IS NOT NULL",
        )
        .bind(name)
        .bind(&key.id)
        .bind(&key.hash[..])
        .bind(now.0)
        .bind(models.map(|models| serde_json::json!(models).to_string()))
        .execute(&self.writer)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn models_of_node_key(&self, name: &str) -> Result<Option<Vec<String>>, Error> {
        let models: Option<String> = sqlx::query_scalar("SELECT models FROM node_keys WHERE name = ?")
            .bind(name)
            .fetch_optional(&self.readers)
            .await?
            .flatten();
        let read = |text: String| serde_json::from_str(&text);
        models.map(read).transpose().map_err(|cause| Error::new("reading the models of a node key", cause))
    }

    async fn revoke_node_key(&self, name: &str, now: Moment) -> Result<bool, Error> {
        let mut tx = self.write().await?;
        let done = sqlx::query("UPDATE node_keys SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL")
            .bind(now.0)
            .bind(name)
            .execute(&mut *tx)
            .await?;
        sqlx::query(
            "UPDATE tasks SET lease_until = ? WHERE status = 'computing' \
             AND node IN (SELECT id FROM nodes WHERE key = ?)",
        )
        .bind(now.0 - 1)
        .bind(name)
        .execute(&mut *tx)
        .await?;
        sqlx::query("DELETE FROM nodes WHERE key = ?").bind(name).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    async fn node_key(&self, id: &str) -> Result<Option<(KeptKey, String)>, Error> {
        let row = sqlx::query("SELECT name, hash FROM node_keys WHERE id = ? AND revoked_at IS NULL")
            .bind(id)
            .fetch_optional(&self.readers)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let hash: Vec<u8> = row.try_get("hash")?;
        let hash =
            hash.try_into().map_err(|_| Error::new("reading a node key", "its hash has not 32 bytes"))?;
        Ok(Some((KeptKey { id: id.to_owned(), hash }, row.try_get("name")?)))
    }

    async fn add_node(&self, node: &str, key: &str, models: &[String], now: Moment) -> Result<(), Error> {
        let mut tx = self.write().await?;
        sqlx::query("DELETE FROM nodes WHERE key IS NOT NULL AND seen_at < ?")
            .bind(now.before(FORGOTTEN_AFTER).0)
            .execute(&mut *tx)
            .await?;
        sqlx::query("INSERT INTO nodes (id, seen_at, key) VALUES (?, ?, ?)")
            .bind(node)
            .bind(now.0)
            .bind(key)
            .execute(&mut *tx)
            .await?;
        sqlx::query("INSERT INTO node_models SELECT DISTINCT value, ?1 FROM json_each(?2)")
            .bind(node)
            .bind(serde_json::json!(models).to_string())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    async fn known_node(&self, node: &str, key: &str) -> Result<Option<KnownNode>, Error> {
        let rows = sqlx::query(
            "SELECT model, seen_at FROM nodes JOIN node_models ON node_models.node = nodes.id \
             WHERE nodes.id = ? AND nodes.key = ?",
        )
        .bind(node)
        .bind(key)
        .fetch_all(&self.readers)
        .await?;
        let Some(first) = rows.first() else { return Ok(None) };
        let seen_at = Moment(first.try_get("seen_at")?);
        let models = rows.iter().map(|row| row.try_get("model")).collect::<Result<_, _>>()?;
        Ok(Some(KnownNode { models, seen_at }))
    }

    async fn touch_node(&self, node: &str, now: Moment) -> Result<(), Error> {
        sqlx::query("UPDATE nodes SET seen_at = ? WHERE id = ?")
            .bind(now.0)
            .bind(node)
            .execute(&self.writer)
            .await?;
        Ok(())
    }
}
