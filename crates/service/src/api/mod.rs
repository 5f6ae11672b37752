//! HTTP API: routes, callers, request parameters, responses.

mod account;
mod body;
mod caller;
mod edge;
mod models;
mod response;
mod storage;
mod tasks;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::get;
use tower::util::option_layer;

pub(crate) use body::{ApiJson, ApiPath, ApiQuery, Whole, page_size, place, present, read_body, whole};
pub(crate) use caller::{Caller, sent_key};
pub(crate) use edge::{RequestId, cors_of, observe, set_date};
pub(crate) use response::{
    DetailedFailure, Done, Failure, Page, Success, beginning, refuse_unrouted, unknown_path,
    with_stored_json, wrong_method,
};
pub(crate) use storage::is_mime;
#[cfg(test)]
pub(crate) use tasks::MAX_PAGE as MAX_HISTORY_PAGE;
pub(crate) use tasks::with_current_urls;

use crate::lifecycle::app::App;

pub(crate) const ROOT: &str = "/api/v1";

const DOCUMENT: &str = include_str!("../../openapi.yaml");

/// Builds the router: every operation, the API document, and an error in the same format for other paths.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let operations = Router::new()
        .merge(account::routes())
        .merge(models::routes())
        .merge(tasks::routes())
        .merge(storage::routes())
        .method_not_allowed_fallback(wrong_method);
    let document = ([(CONTENT_TYPE, "application/yaml")], DOCUMENT);
    let routes = Router::new()
        .nest(ROOT, operations)
        .route("/openapi.yaml", get(document).fallback(wrong_method))
        .fallback(unknown_path("paths of the API look like /api/v1/api-key/balance"))
        .layer(DefaultBodyLimit::max(app.config.limits.body))
        .layer(from_fn_with_state(Arc::clone(app), edge::limit_requests));
    // A request that a test control delays holds no permit meanwhile.
    #[cfg(feature = "controls")]
    let routes = crate::controls::around_the_api(routes, app);
    routes
        .layer(option_layer(edge::cors(&app.config.cors_origins)))
        .layer(map_response(edge::announce_keys))
        .layer(from_fn_with_state(Arc::clone(app), edge::observe))
        .with_state(Arc::clone(app))
}
