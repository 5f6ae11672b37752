//! Audit log: every request of an operator that changed or may have changed data.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::Admin;
use super::http::{Done, PageQuery};
use crate::accounts::key_id;
use crate::http::request::{ApiQuery, read_body};
use crate::http::response::{DetailedFailure, Success};
use crate::operator::Recorded;

#[derive(Clone)]
pub(super) struct Details(pub(super) Value);

pub(super) type DoneWith = Result<(Extension<Details>, Success<Value>), DetailedFailure>;

pub(super) async fn record(
    State(admin): State<Admin>,
    request: Request,
    next: Next,
) -> Result<Response, DetailedFailure> {
    if request.method() == Method::GET {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let body = read_body(Request::from_parts(parts.clone(), body), admin.limits.into()).await?;
    let path = percent_decode_str(parts.uri.path()).decode_utf8_lossy();
    let request = format!("{} {path}", parts.method);
    let mut to_log = redact_body(&body);
    let database = &*admin.database;
    let recorded = Recorded::begin(database, admin.clock.now(), request, to_log.as_ref()).await?;
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    if let Some(Details(Value::Object(details))) = response.extensions().get::<Details>()
        && let Value::Object(body) = to_log.get_or_insert_with(|| json!({}))
    {
        body.extend(details.clone());
    }
    recorded.end(database, to_log.as_ref(), response.status()).await;
    Ok(response)
}

fn redact_body(body: &[u8]) -> Option<Value> {
    let mut body: Value = serde_json::from_slice(body).ok()?;
    if let Some(key) = body.get_mut("key")
        && let Some(text) = key.as_str()
        && !is_identifier(text.strip_prefix("isk_").unwrap_or(text))
    {
        *key = json!(key_id(text));
    }
    Some(body)
}

fn is_identifier(text: &str) -> bool {
    let is_drawn = text.len() <= 12 && !text.contains('_');
    is_drawn || text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) async fn actions(admin: Admin, ApiQuery(page): ApiQuery<PageQuery>) -> Done {
    let (limit, offset) = page.bounds()?;
    let actions = admin.database.actions(limit, offset).await?;
    Ok(Success::data(json!({ "actions": actions })))
}

#[cfg(test)]
mod tests {
    use super::redact_body;

    #[test]
    fn a_key_is_shown_by_its_identifier_alone() {
        for (key, secret) in [
            ("isk_ab_secretsec", "secretsec"),
            ("isk_0123456789ab_x", "_x"),
            ("a chosen key of an account", "chosen"),
        ] {
            let body = format!("{{\"key\":\"{key}\"}}");
            let logged = redact_body(body.as_bytes());
            assert!(logged.is_some_and(|body| !body.to_string().contains(secret)), "{key}");
        }
        for id in ["0123456789ab", "isk_0123"] {
            let body = format!("{{\"key\":\"{id}\"}}");
            let logged = redact_body(body.as_bytes()).map(|body| body.to_string());
            assert_eq!(logged, Some(body), "an identifier, or its beginning");
        }
    }
}
