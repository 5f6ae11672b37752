//! The API over HTTP: routes, who calls, what is read from a request and how answers are written.

mod account;
mod answer;
mod body;
mod caller;
mod edge;
mod failure;
mod models;
mod storage;
mod tasks;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};

pub(crate) use answer::{Answer, Page};
pub(crate) use body::{ApiJson, ApiPath, ApiQuery, place};
pub(crate) use caller::Caller;
pub(crate) use edge::{RequestId, observe};
pub(crate) use failure::{Failure, wrong_method};
pub(crate) use storage::is_mime;

use crate::controls;
use crate::lifecycle::app::App;

/// Where the API begins. Its version is part of its address.
pub(crate) const ROOT: &str = "/api/v1";

/// Every operation of the API, and a refusal in the same shape for everything else.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let operations = Router::new()
        .merge(account::routes())
        .merge(models::routes())
        .merge(tasks::routes())
        .merge(storage::routes())
        .route_layer(from_fn(edge::refuse_undeclared_head))
        .method_not_allowed_fallback(failure::wrong_method);
    let routes = Router::new()
        .nest(ROOT, operations)
        .fallback(failure::unknown_path)
        .layer(DefaultBodyLimit::max(app.config.limits.body))
        .layer(from_fn_with_state(Arc::clone(app), edge::limit_requests));
    // A request that a tester delays is not worked on meanwhile, and takes no place of others.
    let api = controls::around_the_api(routes, app)
        .layer(from_fn_with_state(Arc::clone(app), edge::observe))
        .with_state(Arc::clone(app));
    // axum names the allowed methods when everything above has answered.
    Router::new().fallback_service(api).layer(from_fn(edge::allow_what_is_declared))
}
