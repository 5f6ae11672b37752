//! Catalog: the models of the service, searched, sorted and filtered.

use super::prelude::*;
use std::time::Duration;

use futures_util::future::join_all;
use inferstore::types::{ModelFilter, ModelListRequest, ModelSort, ModelSummary};
use tokio::time::timeout;

const PAGE: u32 = 24;

/// How long the catalog waits for whether models are served; it only informs.
const SERVING_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) async fn show(app: &App, query: &Words) -> Result<Response> {
    let [search, sort, filter] = ["q", "sort", "filter"].map(|name| word(query, name));
    let number = parsed::<u64>(query, "page")?.unwrap_or(1).max(1);
    let request = ModelListRequest {
        search: (!search.is_empty()).then(|| search.to_owned()),
        sort: parsed::<ModelSort>(query, "sort")?,
        filter_by: parsed::<ModelFilter>(query, "filter")?,
        ..page_of_models(number)
    };
    let models = within(app.client.models().page(request)).await?;
    let serving = models.records.iter().map(|model| {
        let asked = app.client.model(model.id.as_str()).serving();
        async move { timeout(SERVING_TIMEOUT, asked).await.ok()?.ok()?.serving }
    });
    let serving = join_all(serving).await;
    let pages = models.total.unwrap_or_default().div_ceil(PAGE.into());
    let body = html! {
        div.heading { h1 { "Models" } }
        form.bar method="get" action="/" role="search" {
            label.grow { span.hidden { "Search" } input type="search" name="q" value=(exact(search)) placeholder="Search models"; }
            (choice("sort", "Any order", ModelSort::ALL.iter().map(ModelSort::as_str), sort))
            (choice("filter", "All models", ModelFilter::ALL.iter().map(ModelFilter::as_str), filter))
            button type="submit" { "Search" }
        }
        @if models.records.is_empty() {
            div.empty { h2 { "No model matches" } p { "Try fewer words, or " a href="/" { "show all" } "." } }
        } @else {
            ul.cards { @for (model, serving) in models.records.iter().zip(serving) { li { (card(model, serving)) } } }
        }
        (pager(pages, number, |one| format!("/?q={}&sort={sort}&filter={filter}&page={one}", segment(search))))
    };
    Ok(page("Models", "/", body))
}

/// Returns the request for a page of all models, counted from 1.
fn page_of_models(number: u64) -> ModelListRequest {
    let offset = (number - 1).saturating_mul(PAGE.into());
    ModelListRequest { limit: Some(PAGE), offset: Some(offset), ..Default::default() }
}

fn card(model: &ModelSummary, serving: Option<bool>) -> Markup {
    let name = titled(model.name.as_deref().unwrap_or(model.id.as_str()));
    html! {
        a.card href={ "/models/" (segment(model.id.as_str())) } {
            div.title { h2 { (name) } (served(serving)) }
            p { (model.description.as_deref().unwrap_or_default()) }
            div.foot {
                @match &model.price {
                    Some(price) if price.is_zero() => span.price { "Free" },
                    Some(price) => span.price { (amount(Some(price))) span.muted { " per run" } },
                    None => span.price.muted { "Price unknown" },
                }
                span.muted { @if model.is_official == Some(true) { "Official" } @else { (model.username.as_deref().unwrap_or_default()) } }
            }
        }
    }
}

/// Whether a node serves the model.
pub(crate) fn served(serving: Option<bool>) -> Markup {
    html! {
        @if serving == Some(true) { span.dot.good { "Ready" } }
        @if serving == Some(false) { span.dot.quiet { "Offline" } }
    }
}
