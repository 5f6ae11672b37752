//! Registry of nodes: keys of external nodes, and heartbeats of all nodes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::Result;
use crate::accounts::StoredKey;
use crate::clock::Moment;

pub(crate) const NODE_RETENTION: Duration = Duration::from_hours(24);

pub(crate) const MAX_KEY_MODELS: i64 = 10_000;

/// Retention of silent nodes of a key that has too many models.
pub(crate) const NODE_SILENCE: Duration = Duration::from_mins(10);

pub(crate) struct NodeKey {
    pub(crate) name: String,
    pub(crate) kept: StoredKey,
    /// Models that nodes of this key may serve; None for all.
    pub(crate) models: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownNode {
    pub(crate) models: Vec<(String, Moment)>,
    pub(crate) seen_at: Moment,
}

/// Live slot of an external node: the node, and the models whose tasks the slot runs.
pub(crate) type SeenSlot = (String, Arc<[String]>);

#[async_trait]
pub(crate) trait Registry: Send + Sync {
    async fn add_node_key(
        &self,
        name: &str,
        key: &StoredKey,
        models: Option<&[String]>,
        now: Moment,
    ) -> Result<bool>;
    /// Revokes a key, deletes its nodes, and frees their leases; false if there is no valid key of this name.
    async fn revoke_node_key(&self, name: &str, now: Moment) -> Result<bool>;
    async fn node_key(&self, id: &str) -> Result<Option<NodeKey>>;
    /// Registers a node, and deletes long-silent ones of its kind; false if the key's nodes would have too many models.
    async fn register(&self, node: &str, key: Option<&str>, models: &[String], now: Moment) -> Result<bool>;
    async fn known_node(&self, node: &str, key: &str) -> Result<Option<KnownNode>>;
    async fn models_of_outside_nodes(&self, since: Moment) -> Result<Vec<String>>;
    async fn touch_running(&self, node: &str, task: &str, now: Moment) -> Result<()>;
    /// Resumes external nodes after a downtime, unless a process has run since `absent_since`: nodes alive within
    /// `within` before the last run count as seen at `seen_at` or later, with leases to `lease_until` or later.
    async fn resume_nodes(
        &self,
        within: Duration,
        absent_since: Moment,
        seen_at: Moment,
        lease_until: Moment,
    ) -> Result<()>;
}

#[async_trait]
pub(crate) trait Heartbeats: Send + Sync {
    async fn touch_slots(&self, slots: &[SeenSlot], now: Moment) -> Result<()>;
}
