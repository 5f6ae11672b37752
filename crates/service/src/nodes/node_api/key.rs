//! Who calls: the name behind the key of a node, and the parts of its path.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::accounts::key_id;
use crate::api::Failure;
use crate::lifecycle::app::App;

/// The name of the node key. A handler that takes one responds with 401 to everyone else.
pub(super) struct NodeKey(pub(super) String);

impl FromRequestParts<Arc<App>> for NodeKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let refused = || {
            let message = "a valid node key is needed in the header x-node-key";
            Failure::new(StatusCode::UNAUTHORIZED, message)
        };
        let mut sent = parts.headers.get_all("x-node-key").iter();
        let (Some(text), None) = (sent.next(), sent.next()) else {
            return Err(refused());
        };
        let text = text.to_str().map_err(|_| refused())?;
        match app.database.node_key(&key_id(text)).await? {
            Some((kept, name)) if kept.is_of(text) => Ok(Self(name)),
            _ => Err(refused()),
        }
    }
}

/// The parts of the path, with refusals in the shape of the API.
pub(super) struct NodePath<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for NodePath<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        match Path::from_request_parts(parts, app).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Failure::unprocessable(format!("the path: {}", rejection.body_text()))),
        }
    }
}
