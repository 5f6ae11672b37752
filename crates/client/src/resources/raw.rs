//! Any other request: a path below the base URL, sent and retried like every call.

use std::sync::Arc;

use inferstore_api::{Envelope, NoData, Safety};
use reqwest::Method;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::value::RawValue;

use crate::transport::core::Core;
use crate::transport::envelope::Enveloped;
use crate::transport::error::Result;

/// Sends a request and returns the whole response as the service wrote it, envelope included.
pub(crate) async fn request(
    core: Arc<Core>,
    method: Method,
    path: String,
    body: Option<Box<RawValue>>,
) -> Result<String> {
    let safety = if method == Method::GET { Safety::Repeatable } else { Safety::Once };
    let body = body.as_deref().map(RawValue::get);
    core.call_unlisted("the request", safety).send(|api| api.send::<Whole>(method.clone(), &path, body)).await
}

/// A response with its text.
struct Whole {
    envelope: Envelope<NoData>,
    text: Box<RawValue>,
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let envelope = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self { envelope, text })
    }
}

impl Enveloped for Whole {
    type Data = String;

    fn is_success(&self) -> bool {
        self.envelope.is_success()
    }

    fn open(self) -> (Option<String>, String) {
        (self.envelope.message, String::from(Box::<str>::from(self.text)))
    }
}
