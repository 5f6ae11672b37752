//! Any other request: a path below the base URL, sent and retried like every call.

use std::sync::Arc;

use reqwest::Method;
use serde_json::value::RawValue;

use crate::transport::core::Core;
use crate::transport::error::{Error, Result};
use crate::transport::operations::{Operation, Safety};

/// Sends a request and returns the whole response as the service wrote it, envelope included.
pub(crate) async fn request(core: Arc<Core>, method: Method, path: String, body: Option<Box<RawValue>>) -> Result<String> {
    let safety = if method == Method::GET { Safety::Repeatable } else { Safety::Once };
    let operation = Operation { id: "the request", safety };
    let body = body.as_deref().map(RawValue::get);
    let send = core.call(operation).send(|api| api.send(method.clone(), &path, body));
    let (sent, response) = inferstore_api::hear_body(send).await;
    sent?;
    response.ok_or_else(|| Error::InvalidArgument("the response has no body".to_owned()))
}
