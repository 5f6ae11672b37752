//! Caller: the account behind the API key of a request, and its limits.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use super::Api;
use crate::accounts::{Account, AccountId, AccountState, StoredKey, key_id};
use crate::http::observe::CallerSlot;
use crate::http::request::sent_key;
use crate::http::response::Failure;
use crate::http::share_limit::Permit;

pub(crate) struct Caller {
    pub(crate) api: Arc<Api>,
    pub(crate) account: Account,
    pub(crate) key: StoredKey,
    _permit: Permit<AccountId>,
}

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Failure> {
        // A missing, a malformed and a wrong key have the same message, so that the message reveals nothing.
        let refused = || {
            let message = "a valid API key is needed in the header x-api-key";
            Failure::new(StatusCode::UNAUTHORIZED, message)
        };
        let text = sent_key(&parts.headers, "x-api-key").ok_or_else(refused)?;
        match api.database.key(&key_id(text)).await? {
            Some((kept, account)) if kept.is_of(text) => {
                if account.state != AccountState::Active {
                    let message = "this account is suspended; only the operator of the service can resume it";
                    return Err(Failure::new(StatusCode::FORBIDDEN, message));
                }
                if kept.rules.expires_at.is_some_and(|expires_at| expires_at <= api.clock.now()) {
                    return Err(Failure::new(StatusCode::UNAUTHORIZED, "this API key has expired"));
                }
                let permit = admit(parts, api, &account)?;
                Ok(Self { api: Arc::clone(api), account, key: kept, _permit: permit })
            }
            _ => Err(refused()),
        }
    }
}

fn admit(parts: &Parts, api: &Api, account: &Account) -> Result<Permit<AccountId>, Failure> {
    if let Some(limit) = &api.request_rate {
        limit.check(account.id).map_err(|wait| {
            let message = "this account sends too many requests a second; try again later";
            Failure::too_many(message, wait.as_secs() + 1)
        })?;
    }
    let is_full = || Failure::too_many("too many requests of this account are in progress; try again", 1);
    let permit = api.account_requests.try_acquire(account.id).ok_or_else(is_full)?;
    if let Some(slot) = parts.extensions.get::<CallerSlot>() {
        slot.set(&account.username);
    }
    Ok(permit)
}
