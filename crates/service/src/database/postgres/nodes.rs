//! Heartbeats of nodes in PostgreSQL.

use async_trait::async_trait;

use super::PostgresDatabase;
use super::failure::statement;
use super::statements::{Params, run};
use crate::Result;
use crate::clock::Moment;
use crate::database::records::seen_models;
use crate::registry::{Heartbeats, SeenSlot};

#[async_trait]
impl Heartbeats for PostgresDatabase {
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
}
