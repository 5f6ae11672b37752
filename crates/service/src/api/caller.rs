//! Who calls: the account behind the API key of a request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use super::Failure;
use crate::accounts::{Account, key_id};
use crate::lifecycle::app::App;

/// The account behind the API key. A handler that takes one answers 401 to everyone else.
pub(crate) struct Caller(pub(crate) Account);

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        // The same words for a missing, a malformed and a wrong key: nobody learns which it was.
        let refused = || {
            let message = "a valid API key is needed in the header x-api-key";
            Failure::new(StatusCode::UNAUTHORIZED, message)
        };
        let mut sent = parts.headers.get_all("x-api-key").iter();
        let (Some(text), None) = (sent.next(), sent.next()) else {
            return Err(refused());
        };
        let text = text.to_str().map_err(|_| refused())?;
        match app.database.key(&key_id(text)).await? {
            Some((kept, account)) if kept.is_of(text) => {
                // For whoever reads the body.
                parts.extensions.insert(account.id);
                Ok(Self(account))
            }
            _ => Err(refused()),
        }
    }
}
