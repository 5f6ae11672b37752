//! Keys of the caller's account over HTTP: list, create, revoke.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{delete, get};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Api;
use super::Caller;
use crate::accounts::{KeyRules, NewKey, check_line, redact_keys};
use crate::clock::Moment;
use crate::database::Database;
use crate::http::request::{ApiJson, ApiPath, present};
use crate::http::response::{Done, Failure, Success, beginning};
use crate::ledger::Money;
use crate::operator::{KeyOverview, KeyRefusal, MAX_KEYS, Recorded};
use crate::policies;

const MAX_MODELS: usize = 100;

const MAX_MODEL: usize = 200;

/// `Retry-After` in seconds for an account with too many keys.
const RETRY: u64 = 3_600;

pub(crate) fn routes() -> Router<Arc<Api>> {
    Router::new().route("/api-key/keys", get(list).post(create)).route("/api-key/keys/{key}", delete(revoke))
}

#[derive(Serialize)]
struct KeyRecord {
    id: String,
    name: Option<String>,
    created_at: Moment,
    expires_at: Option<Moment>,
    revoked_at: Option<Moment>,
    daily_limit: Option<Money>,
    models: Option<Vec<String>>,
    is_current: bool,
}

#[derive(Serialize)]
struct KeyPage {
    records: Vec<KeyRecord>,
    total: usize,
    can_manage: bool,
}

async fn list(Caller { api, account, key, .. }: Caller) -> Done<KeyPage> {
    let keys = api.database.keys(account.id).await?;
    let (total, now) = (keys.len(), api.clock.now());
    let mut invalid = 0;
    let is_listed = |key: &KeyOverview| {
        invalid += usize::from(!key.is_valid(now));
        key.is_valid(now) || invalid <= MAX_KEYS
    };
    let record = |listed: KeyOverview| KeyRecord {
        is_current: listed.key == key.id,
        id: listed.key,
        name: listed.name,
        created_at: listed.created_at,
        expires_at: listed.expires_at,
        revoked_at: listed.revoked_at,
        daily_limit: listed.daily_limit,
        models: listed.models,
    };
    let records = keys.into_iter().filter(is_listed).map(record).collect();
    let can_manage = check_manager(&*api.database, &key.rules).await.is_ok();
    Ok(Success::data(KeyPage { records, total, can_manage }))
}

/// Checks that the key of the call may manage keys. A key with rules may not, because a new key would evade them.
async fn check_manager(database: &dyn Database, rules: &KeyRules) -> Result<(), Failure> {
    let refused = |message: &str| Err(Failure::new(StatusCode::FORBIDDEN, message));
    if !policies::owners_manage_keys(database).await? {
        return refused("only the operator of this service makes and revokes keys");
    }
    if rules.are_restrictive() {
        return refused(
            "a key with an expiry, a daily limit or a list of models does not make or revoke keys; use another key of the \
             account",
        );
    }
    Ok(())
}

#[derive(Deserialize)]
struct NewKeyBody {
    name: String,
    #[serde(default, deserialize_with = "present")]
    expires_at: Option<String>,
    #[serde(default, deserialize_with = "present")]
    daily_limit: Option<Money>,
    #[serde(default, deserialize_with = "present")]
    models: Option<Vec<String>>,
}

impl NewKeyBody {
    fn rules(self, now: Moment) -> Result<KeyRules, Failure> {
        let Self { name, expires_at, daily_limit, models } = self;
        let unreadable = |_| {
            Failure::unprocessable(
                "expires_at must be a time with its zone, such as 2030-01-01T00:00:00Z, and at most \
                 9999-12-30T22:00:00Z; without it, the key does not expire",
            )
        };
        let expires_at = expires_at.map(|time| time.parse::<Timestamp>().map_err(unreadable)).transpose()?;
        let expires_at = expires_at.map(|time| Moment(time.as_millisecond()));
        if expires_at.is_some_and(|expires_at| expires_at <= now) {
            return Err(Failure::unprocessable("expires_at has passed"));
        }
        if models.as_ref().is_some_and(|models| models.len() > MAX_MODELS) {
            return Err(Failure::unprocessable(format!("models has more than {MAX_MODELS} models")));
        }
        for model in models.iter().flatten() {
            check_line("model of a key", model, MAX_MODEL).map_err(Failure::unprocessable)?;
        }
        let rules = KeyRules { name: Some(name), expires_at, daily_limit, models };
        rules.check().map_err(Failure::unprocessable)?;
        Ok(rules)
    }
}

#[derive(Serialize)]
struct CreatedKey {
    id: String,
    key: String,
}

async fn create(Caller { api, account, key, .. }: Caller, body: ApiJson<NewKeyBody>) -> Done<CreatedKey> {
    check_manager(&*api.database, &key.rules).await?;
    let rules = body.value.rules(api.clock.now())?;
    let mut new = NewKey::draw(&api.random)?;
    new.kept.rules = rules;
    let background = api.background.clone();
    let work = async move {
        let KeyRules { name, expires_at, daily_limit, models } = &new.kept.rules;
        let refused = |refusal| refused(refusal, name.as_deref().unwrap_or_default());
        let (database, now) = (&*api.database, api.clock.now());
        // A create that is refused here leaves no entry in the log of operators.
        let keys = database.keys(account.id).await?;
        if let Some(refusal) = KeyRefusal::of(&keys, name.as_deref(), now) {
            return Err(refused(refusal));
        }
        let detail = json!({
            "account": account.username, "by": key.id, "key": new.kept.id, "name": name, "expires_at": expires_at,
            "daily_limit": daily_limit, "models": models,
        });
        let request = "POST /api-key/keys".to_owned();
        let recorded = Recorded::begin(database, now, request, Some(&detail)).await?;
        let added = database.add_own_key(account.id, &new.kept, now).await?;
        let status = if added.is_ok() { StatusCode::OK } else { StatusCode::CONFLICT };
        recorded.end(database, Some(&detail), status).await;
        added.map_err(refused)?;
        Ok(Success::data(CreatedKey { id: new.kept.id, key: new.text }))
    };
    background.run_to_end("creating a key", work).await?
}

fn refused(refusal: KeyRefusal, name: &str) -> Failure {
    match refusal {
        KeyRefusal::NameTaken => {
            let name = beginning(name);
            let message = format!(
                "a valid key of this account has the name {name:?}; revoke it, or choose another name"
            );
            Failure::new(StatusCode::CONFLICT, message)
        }
        KeyRefusal::TooManyValid => {
            Failure::too_many(format!("this account has {MAX_KEYS} valid keys; revoke one first"), RETRY)
        }
        KeyRefusal::TooManyNew => Failure::too_many(
            format!("this account got {MAX_KEYS} keys within 24 hours; try again later"),
            RETRY,
        ),
    }
}

async fn revoke(Caller { api, account, key, .. }: Caller, ApiPath(id): ApiPath) -> Done {
    check_manager(&*api.database, &key.rules).await?;
    if id == key.id {
        let message = "a key does not revoke itself; use another key of the account";
        return Err(Failure::new(StatusCode::CONFLICT, message));
    }
    let keys = api.database.keys(account.id).await?;
    if !keys.iter().any(|own| own.key == id && own.revoked_at.is_none()) {
        // A whole key in place of its identifier is not repeated.
        return Err(Failure::not_found("valid key", &redact_keys(&id)));
    }
    let background = api.background.clone();
    let work = async move {
        let (database, now) = (&*api.database, api.clock.now());
        let request = format!("DELETE /api-key/keys/{id}");
        let detail = json!({ "account": account.username, "by": key.id });
        let recorded = Recorded::begin(database, now, request, Some(&detail)).await?;
        let is_revoked = database.revoke_key(&id, now).await?;
        let status = if is_revoked { StatusCode::OK } else { StatusCode::NOT_FOUND };
        recorded.end(database, Some(&detail), status).await;
        match is_revoked {
            true => Ok(Success::done("revoked")),
            false => Err(Failure::not_found("valid key", &id)),
        }
    };
    background.run_to_end("revoking a key", work).await?
}

#[cfg(test)]
mod tests {
    use reqwest::Method;
    use serde_json::{Value, json};

    use crate::{Config, Error, Service};

    #[tokio::test]
    async fn the_log_of_operators_has_the_account_and_no_secret() -> Result<(), Error> {
        let mut config = Config::ephemeral();
        config.owners_manage_keys = Some(true);
        let service = Service::start(config).await?;
        let url = format!("{}/api-key/keys", service.base_url());
        let key = service.api_key().unwrap_or_default();
        let failed = |cause| Error::new("sending a request", cause);
        let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build();
        let client = client.map_err(failed)?;
        let send = async |method: Method, url: &str| {
            let request = client.request(method, url).header("x-api-key", key);
            let request = request.header("content-type", "application/json");
            let response =
                request.body(json!({ "name": "laptop" }).to_string()).send().await.map_err(failed)?;
            response.text().await.map_err(failed)
        };
        let created = send(Method::POST, &url).await?;
        let created: Value = serde_json::from_str(&created).unwrap_or_default();
        let [id, secret] = ["id", "key"].map(|field| created["data"][field].as_str().unwrap_or_default());
        // Refused, and so not in the log.
        send(Method::POST, &url).await?;
        send(Method::DELETE, &format!("{url}/{id}")).await?;
        send(Method::DELETE, &format!("{url}/{id}")).await?;
        let actions = service.database.actions(10, 0).await?;
        let by = crate::accounts::key_id(key);
        let logged: Vec<_> = actions
            .iter()
            .map(|action| {
                let body: Value =
                    serde_json::from_str(action.body.as_deref().unwrap_or_default()).unwrap_or_default();
                assert_eq!((&body["account"], &body["by"]), (&json!("demo"), &json!(by)));
                assert!(secret.len() > id.len() && !format!("{action:?}").contains(secret));
                (action.request.clone(), action.status, body["key"].clone())
            })
            .collect();
        let expected = [
            (format!("DELETE /api-key/keys/{id}"), 200, Value::Null),
            ("POST /api-key/keys".to_owned(), 200, json!(id)),
        ];
        assert_eq!(logged, expected);
        service.shutdown().await;
        Ok(())
    }
}
