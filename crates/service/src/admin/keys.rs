//! Creation of API keys with a name, an expiry, a daily limit and allowed models.

use std::time::Duration;

use axum::Extension;
use axum::body::HttpBody as _;
use axum::extract::{FromRequest as _, Request};
use serde::Deserialize;
use serde_json::json;

use super::Admin;
use super::audit_log::{Details, DoneWith};
use crate::accounts::{KeyRules, key_id};
use crate::clock::Moment;
use crate::http::request::{ApiJson, ApiPath};
use crate::http::response::{Failure, Success};
use crate::ledger::Money;

const MAX_DAYS: u32 = 36_500;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct NewKey {
    name: Option<String>,
    expires_in_days: Option<u32>,
    daily_limit: Option<Money>,
    models: Option<Vec<String>>,
}

impl NewKey {
    fn rules(self, now: Moment) -> Result<KeyRules, Failure> {
        let Self { name, expires_in_days, daily_limit, models } = self;
        if expires_in_days.is_some_and(|days| !(1..=MAX_DAYS).contains(&days)) {
            let message = format!("expires_in_days must lie between 1 and {MAX_DAYS}");
            return Err(Failure::unprocessable(message));
        }
        let life = |days| Duration::from_hours(u64::from(days) * 24);
        let expires_at = expires_in_days.map(|days| now.after(life(days)));
        let rules = KeyRules { name, expires_at, daily_limit, models };
        rules.check().map_err(Failure::unprocessable)?;
        Ok(rules)
    }
}

pub(super) async fn add_key(admin: Admin, ApiPath(account): ApiPath, request: Request) -> DoneWith {
    let new: NewKey = if request.body().is_end_stream() {
        NewKey::default()
    } else {
        ApiJson::from_request(request, &admin).await?.value
    };
    let key = admin.add_key_with(&account, new.rules(admin.clock.now())?).await?;
    let details = Details(json!({ "key": key_id(&key) }));
    Ok((Extension(details), Success::data(json!({ "account": account, "api_key": key }))))
}
