//! Heartbeats of nodes in SQLite.

use async_trait::async_trait;
use rusqlite::params;

use super::SqliteDatabase;
use super::statements::Statements as _;
use crate::Result;
use crate::clock::Moment;
use crate::database::records::seen_models;
use crate::database::values::json;
use crate::registry::{Heartbeats, SeenSlot};

#[async_trait]
impl Heartbeats for SqliteDatabase {
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
}
