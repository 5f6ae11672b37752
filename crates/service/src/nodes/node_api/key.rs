//! Authentication of the node API: the key of a node.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::accounts::key_id;
use crate::http::request::sent_key;
use crate::http::response::Failure;
use crate::nodes::Nodes;
use crate::registry::NodeKey;

impl FromRequestParts<Arc<Nodes>> for NodeKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, nodes: &Arc<Nodes>) -> Result<Self, Failure> {
        let refused = || {
            let message = "a valid node key is needed in the header x-node-key";
            Failure::new(StatusCode::UNAUTHORIZED, message)
        };
        let text = sent_key(&parts.headers, "x-node-key").ok_or_else(refused)?;
        match nodes.database.node_key(&key_id(text)).await? {
            Some(key) if key.kept.is_of(text) => Ok(key),
            _ => Err(refused()),
        }
    }
}
