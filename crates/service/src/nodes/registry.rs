//! Nodes: the keys that those outside the process show, and which of all are there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::Result;
use crate::accounts::KeptKey;
use crate::clock::Moment;

/// How long a node that says nothing is remembered.
pub(crate) const NODE_RETENTION: Duration = Duration::from_hours(24);

/// Largest number of models that all nodes of a key have together.
pub(crate) const MAX_KEY_MODELS: i64 = 10_000;

/// Time for which a silent node is remembered when its key has too many models.
pub(crate) const NODE_SILENCE: Duration = Duration::from_mins(10);

/// A key that nodes outside the process show.
pub(crate) struct NodeKey {
    pub(crate) name: String,
    pub(crate) kept: KeptKey,
    /// The models that its nodes may serve; None for any.
    pub(crate) models: Option<Vec<String>>,
}

/// A node outside the process that has registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownNode {
    /// Its models, and when it was seen for each.
    pub(crate) models: Vec<(String, Moment)>,
    pub(crate) seen_at: Moment,
}

/// A slot of a node outside the process that is there: its node, and the models whose tasks it runs.
pub(crate) type SeenSlot = (String, Arc<[String]>);

/// What the store knows of nodes outside the process. Every method is one transaction.
#[async_trait]
pub(crate) trait Registry: Send + Sync {
    /// Adds a key under a name, for these models or for any; false when the name has a valid one.
    async fn add_node_key(
        &self,
        name: &str,
        key: &KeptKey,
        models: Option<&[String]>,
        now: Moment,
    ) -> Result<bool>;
    /// Revokes a key and forgets its nodes; what they had leased can be claimed at once. False when there
    /// is no valid key of this name.
    async fn revoke_node_key(&self, name: &str, now: Moment) -> Result<bool>;
    /// The valid key with this identifier.
    async fn node_key(&self, id: &str) -> Result<Option<NodeKey>>;
    /// Notes that a node is there, with its key if it is outside the processes of the service, and which models it
    /// has; forgets those of its sort that were silent for long. False when the nodes of its key would have too many models.
    async fn register(&self, node: &str, key: Option<&str>, models: &[String], now: Moment) -> Result<bool>;
    /// A node, if it was registered with this key.
    async fn known_node(&self, node: &str, key: &str) -> Result<Option<KnownNode>>;
    /// The models for which a slot of a node with a key was there since then.
    async fn models_of_outside_nodes(&self, since: Moment) -> Result<Vec<String>>;
    /// Notes that slots of nodes are there.
    async fn touch_slots(&self, slots: &[SeenSlot], now: Moment) -> Result<()>;
    /// Notes that the slot of a node that runs a task is there.
    async fn touch_running(&self, node: &str, task: &str, now: Moment) -> Result<()>;
    /// Lets the nodes with a key that were alive within a time before the service was last there count as alive since
    /// `seen_at` at least, and keep what they have leased until then at least. Nothing happens when a process of the
    /// service was there since `absent_since`.
    async fn resume_nodes(
        &self,
        within: Duration,
        absent_since: Moment,
        seen_at: Moment,
        lease_until: Moment,
    ) -> Result<()>;
}
