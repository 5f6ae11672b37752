//! HTTP API: routes, callers, operations.

mod account;
mod caller;
mod keys;
mod middleware;
mod models;
mod storage;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::get;
use caller::Caller;
pub(crate) use middleware::{RequestLimit, announce_keys};
#[cfg(test)]
pub(crate) use tasks::MAX_PAGE as MAX_HISTORY_PAGE;
use tower::util::option_layer;

use crate::accounts::AccountId;
use crate::background::BackgroundTasks;
use crate::clock::Clock;
use crate::config::{CorsOrigin, Limits};
use crate::database::Database;
use crate::http::observe::{self, Observer};
use crate::http::request::BodyLimits;
use crate::http::response::{unknown_path, wrong_method};
use crate::http::share_limit::{RateLimit, ShareLimit};
use crate::nodes::Dispatcher;
use crate::object_storage::Objects;
use crate::queue::InsufficientBalance;
use crate::random::Randomness;

pub(crate) const ROOT: &str = "/api/v1";

const DOCUMENT: &str = include_str!("../../openapi.yaml");

pub(crate) struct Api {
    pub(crate) database: Arc<dyn Database>,
    pub(crate) clock: Clock,
    pub(crate) random: Randomness,
    pub(crate) objects: Arc<Objects>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) background: BackgroundTasks,
    pub(crate) account_requests: ShareLimit<AccountId>,
    pub(crate) request_rate: Option<RateLimit>,
    pub(crate) insufficient_balance: InsufficientBalance,
    pub(crate) lease: Duration,
    pub(crate) limits: Limits,
}

impl FromRef<Arc<Api>> for BodyLimits {
    fn from_ref(api: &Arc<Api>) -> Self {
        api.limits.into()
    }
}

pub(crate) struct Middleware<'a> {
    pub(crate) origins: &'a [CorsOrigin],
    pub(crate) requests: RequestLimit,
    pub(crate) observer: Arc<Observer>,
    pub(crate) with_controls: &'a dyn Fn(Router) -> Router,
}

pub(crate) fn router(api: Api, middleware: Middleware<'_>) -> Router {
    let operations = Router::new()
        .merge(account::routes())
        .merge(keys::routes())
        .merge(models::routes())
        .merge(tasks::routes())
        .merge(storage::routes())
        .method_not_allowed_fallback(wrong_method);
    let document = ([(CONTENT_TYPE, "application/yaml")], DOCUMENT);
    let routes = Router::new()
        .nest(ROOT, operations)
        .route("/openapi.yaml", get(document).fallback(wrong_method))
        .fallback(unknown_path("paths of the API look like /api/v1/api-key/balance"))
        .layer(DefaultBodyLimit::max(api.limits.body))
        .layer(from_fn_with_state(Arc::new(middleware.requests), middleware::limit_requests))
        .with_state(Arc::new(api));
    // A request that a test control delays holds no permit meanwhile.
    (middleware.with_controls)(routes)
        .layer(option_layer(middleware::cors(middleware.origins)))
        .layer(map_response(async |response| middleware::announce_keys(response)))
        .layer(from_fn_with_state(middleware.observer, observe::observe))
}
