//! Any other request: a path below the base URL, sent and retried like every call.

use std::sync::Arc;

use inferstore_api::{Envelope, Error as RawError, NoData, ResponseValue, Safety};
use reqwest::Method;
use serde_json::value::RawValue;

use crate::transport::Core;
use crate::transport::error::{OTHER_REQUEST, Result};

/// Sends a request and returns the whole response as the service wrote it, envelope included.
pub(crate) async fn request(
    core: Arc<Core>,
    method: Method,
    path: String,
    body: Option<Box<RawValue>>,
) -> Result<String> {
    let safety = if method == Method::GET { Safety::Repeatable } else { Safety::Once };
    let body = body.as_deref().map(RawValue::get);
    let call = core.call_unlisted(OTHER_REQUEST, safety);
    call.send(|api| around_text(api.send(method.clone(), &path, body))).await
}

/// The envelope of a response around its own text.
async fn around_text(
    sent: impl Future<Output = Result<ResponseValue<Box<RawValue>>, RawError>>,
) -> Result<ResponseValue<Envelope<String>>, RawError> {
    let response = sent.await?;
    match serde_json::from_str::<Envelope<NoData>>(response.get()) {
        Ok(Envelope { status, message, data: NoData }) => {
            response.map(|text| Envelope { status, message, data: String::from(Box::<str>::from(text)) })
        }
        Err(error) => Err(RawError::InvalidResponsePayload(response.get().to_owned().into(), error)),
    }
}
