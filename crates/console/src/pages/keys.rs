//! Keys of the account: a section of its page, and forms that make and revoke them.

use super::prelude::*;
use axum::response::Redirect;
use inferstore::types::{KeyPage, KeyRecord, NewKeyRequest};

use super::storage::sent_words;
use crate::runs::now;

const FIELDS: [(&str, &str, &str); 4] = [
    ("name", "text", "Name"),
    ("expires", "date", "Last day in UTC, if the key expires"),
    ("limit", "number", "Limit for the tasks of a day, such as 2.50, if there is one"),
    ("models", "text", "Models such as background-removal, with commas between, if not all"),
];

pub(crate) fn section(keys: &KeyPage, unit: &str) -> Markup {
    let can_manage = keys.can_manage == Some(true);
    html! {
        section.card {
            h2 { "API keys" }
            ul.values { @for key in keys.records.iter().flatten() { li { (record(key, can_manage, unit)) } } }
            @if !can_manage { p.muted { "The operator of the service makes and revokes keys." } } @else {
                details { summary { "Make a key" } form method="post" action="/account/keys" {
                    @for (name, kind, label) in FIELDS { div.field { label for=(name) { (label) } input type=(kind) step="any" id=(name) name=(name) required[name == "name"]; } }
                    button.primary type="submit" { "Make the key" }
                } }
            }
        }
    }
}

fn record(key: &KeyRecord, can_manage: bool, unit: &str) -> Markup {
    let name = key.name.as_deref().unwrap_or("Key without a name");
    let expiry = key.expires_at.as_ref();
    let is_expired = expiry.and_then(|at| at.as_str().parse().ok()).is_some_and(|at| now() >= at);
    let is_valid = key.revoked_at.is_none() && !is_expired;
    html! {
        h3 { (name) @if key.is_current == Some(true) { " (of this console)" } }
        p.muted {
            code { "isk_" (key.id) "_…" } " · made " (when(key.created_at.as_ref()))
            @if key.revoked_at.is_some() { " · revoked " (when(key.revoked_at.as_ref())) } @if expiry.is_some() { @if is_expired { " · expired " } @else { " · until " } (when(expiry)) }
            @if key.daily_limit.is_some() { " · " (price(key.daily_limit.as_ref(), unit)) " a day" }
            @for (index, model) in key.models.iter().flatten().enumerate() { @if index == 0 { " · only " } @else { ", " } (model) }
        }
        @if can_manage && is_valid && key.is_current != Some(true) {
            details { summary aria-label={ "Revoke " (name) } { "Revoke" } form method="post" action={ "/account/keys/" (segment(key.id.as_str())) } {
                button.danger type="submit" { "Revoke for good" }
            } }
        }
    }
}

pub(crate) async fn create(app: &App, request: Request) -> Result<Response> {
    let form = sent_words(app, request).await;
    let given = |name| Some(word(&form, name)).filter(|word| !word.is_empty());
    let models = word(&form, "models").split(',').map(str::trim).filter(|one| !one.is_empty());
    for model in models.clone() {
        within(app.client.model(model).get()).await?;
    }
    let no_amount =
        |_| Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "No key is made", "The limit is no amount.");
    let new = NewKeyRequest {
        expires_at: given("expires").map(|day| format!("{day}T23:59:59Z").into()),
        daily_limit: given("limit").map(str::parse).transpose().map_err(no_amount)?,
        models: given("models").map(|_| models.map(Into::into).collect()),
        ..NewKeyRequest::new(word(&form, "name"))
    };
    let made = within(app.client.keys().create(new)).await?;
    let body = html! {
        h1 { "The key is made" } p { "Copy it now: no page shows it again." }
        div.code { pre tabindex="0" role="group" aria-label="API key" { code.once { (made.key.expose()) } } button.copy.quiet type="button" hidden { "Copy" } }
        p { a.button href="/account" { "Back to the account" } }
    };
    Ok(page("The key is made", "/account", body))
}

pub(crate) async fn revoke(app: &App, id: &str) -> Result<Response> {
    within(app.client.keys().revoke(id)).await?;
    Ok(Redirect::to("/account").into_response())
}
