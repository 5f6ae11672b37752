//! Catalog: the models of the service, searched, sorted and filtered.

use super::prelude::*;
use std::time::Duration;

use futures_util::future::join_all;
use inferstore::Error;
use inferstore::types::{ModelFilter, ModelListRequest, ModelSort, ModelSummary};
use tokio::time::timeout;

const PAGE: u32 = 24;

/// Timeout of the serving states in the catalog, which are only information.
const SERVING_TIMEOUT: Duration = Duration::from_millis(500);

/// Size up to which the console searches the catalog itself.
const MAX_SEARCHED: u64 = 500;

/// Synonyms in searches, as prefixes of words.
const SYNONYMS: [&[&str]; 10] = [
    &["remov", "cut", "eras", "delet", "clear", "isolat"],
    &["replac", "swap", "chang", "exchang"],
    &["upscal", "enlarg", "larg", "big", "sharp", "resol", "zoom", "hd", "4k", "blur", "enhanc", "qualit"],
    &["haze", "fog", "mist", "smog", "blur", "dehaz"],
    &["anim", "cartoon", "comic", "manga", "redraw"],
    &["light", "bright", "dark", "night", "exposure", "lighten"],
    &["color", "colour", "palette", "hue"],
    &["face", "portrait", "people", "person", "selfie", "landmark"],
    &["edge", "outlin", "contour", "sketch", "line"],
    &["blend", "merg", "mix", "combin", "compos", "paste"],
];

/// Words of searches that no model has to match.
const FILLERS: &str =
    "a an the of from my to too in out two make find fix improve image images picture pictures photo photos";

pub(crate) async fn show(app: &App, query: &Words) -> Result<Response> {
    let [search, sort, filter, file] = ["q", "sort", "filter", "use"].map(|name| word(query, name));
    let number = parsed::<u64>(query, "page")?.unwrap_or(1).max(1);
    let request = ModelListRequest {
        sort: parsed::<ModelSort>(query, "sort")?,
        filter_by: parsed::<ModelFilter>(query, "filter")?,
        limit: Some(PAGE),
        offset: Some((number - 1).saturating_mul(PAGE.into())),
        ..Default::default()
    };
    let (unit, models) = tokio::join!(app.currency(), within(models(app, search, request)));
    let (records, total) = models?;
    let serving = records.iter().map(|model| {
        let asked = app.client.model(model.id.as_str()).serving();
        async move { timeout(SERVING_TIMEOUT, asked).await.ok()?.ok()?.serving }
    });
    let serving = join_all(serving).await;
    let pages = total.div_ceil(PAGE.into());
    let has_choices = total > PAGE.into() || !sort.is_empty() || !filter.is_empty();
    let body = html! {
        div.heading { h1 { "Models" } }
        form.bar method="get" action="/" role="search" {
            label.grow { span.hidden { "Search" } input type="search" name="q" value=(exact(search)) placeholder="Search: remove background, upscale, cartoon"; }
            @if has_choices {
                (choice("sort", "Any order", ModelSort::ALL.iter().map(ModelSort::as_str), sort))
                (choice("filter", "All models", ModelFilter::ALL.iter().map(ModelFilter::as_str), filter))
            }
            @if !file.is_empty() { input type="hidden" name="use" value=(exact(file)); }
            button type="submit" { "Search" }
        }
        @if !file.is_empty() {
            p.using { img src={ "/view/" (segment(file)) "?small" } alt="The chosen file" width="96"; "Choose the model that gets this file." }
        }
        @if records.is_empty() {
            div.empty { h2 { "No model matches" } p { "Try fewer words, or " a href="/" { "show all" } "." } }
        } @else {
            ul.cards { @for (model, serving) in records.iter().zip(serving) { li { (card(model, serving, unit, file)) } } }
        }
        (pager(pages, number, |one| format!("/?q={}&sort={sort}&filter={filter}&use={}&page={one}", segment(search), segment(file))))
    };
    Ok(page("Models", "/", body))
}

/// Returns a page of matching models, and their number. The console searches a catalog of usual size itself.
async fn models(
    app: &App,
    search: &str,
    request: ModelListRequest,
) -> Result<(Vec<ModelSummary>, u64), Error> {
    let page = app.client.models_page(request.clone()).await?;
    let total = page.total.unwrap_or_default();
    if search.is_empty() {
        return Ok((page.records, total));
    }
    if total > MAX_SEARCHED {
        let page =
            app.client.models_page(ModelListRequest { search: Some(search.to_owned()), ..request }).await?;
        return Ok((page.records, page.total.unwrap_or_default()));
    }
    let whole = ModelListRequest { limit: None, offset: None, ..request.clone() };
    let mut all = app.client.models(whole).try_collect().await?;
    all.retain(|model| matches(search, model));
    let total = all.len() as u64;
    let skipped = usize::try_from(request.offset.unwrap_or_default()).unwrap_or(usize::MAX);
    Ok((all.into_iter().skip(skipped).take(PAGE as usize).collect(), total))
}

/// Returns true if every word of the search, or a synonym, is a prefix of a word of the model.
fn matches(search: &str, model: &ModelSummary) -> bool {
    let texts =
        [&model.name, &model.description, &model.username].map(|text| text.as_deref().unwrap_or_default());
    let text = format!("{} {}", model.id.as_str(), texts.join(" ")).to_lowercase();
    let words: Vec<_> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let begins = |start: &str| words.iter().any(|word| word.starts_with(start));
    let is_known = |wanted: &str| {
        let groups = SYNONYMS.iter().filter(|group| group.iter().any(|one| wanted.starts_with(one)));
        begins(wanted) || groups.into_iter().any(|group| group.iter().any(|one| begins(one)))
    };
    let search = search.to_lowercase();
    let wanted = search.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let (fillers, wanted): (Vec<_>, Vec<_>) =
        wanted.partition(|word| FILLERS.split(' ').any(|filler| filler == *word));
    // A search of fillers only is literal.
    let wanted = if wanted.is_empty() { fillers } else { wanted };
    !wanted.is_empty() && wanted.into_iter().all(is_known)
}

fn card(model: &ModelSummary, serving: Option<bool>, unit: &str, file: &str) -> Markup {
    let name = titled(model.name.as_deref().unwrap_or(model.id.as_str()));
    let chosen = if file.is_empty() { String::new() } else { format!("?use={}", segment(file)) };
    html! {
        a.card href={ "/models/" (segment(model.id.as_str())) (chosen) } {
            div.title { h2 { (name) } (served(serving)) }
            p { (model.description.as_deref().unwrap_or_default()) }
            div.foot {
                @match &model.price {
                    Some(cost) if cost.is_zero() => span.price { "Free" },
                    Some(cost) => span.price { (price(Some(cost), unit)) span.muted { " per run" } },
                    None => span.price.muted { "Price unknown" },
                }
                span.muted { @if model.is_official == Some(true) { "Official" } @else { (model.username.as_deref().unwrap_or_default()) } }
            }
        }
    }
}

pub(crate) fn served(serving: Option<bool>) -> Markup {
    html! {
        @if serving == Some(true) { span.dot.good { "Ready" } }
        @if serving == Some(false) { span.dot.quiet { "Offline" } }
    }
}

#[cfg(test)]
mod tests {
    use inferstore::types::ModelSummary;
    use serde_json::json;

    use super::matches;

    #[test]
    fn a_model_is_found_by_other_words_for_it() -> serde_json::Result<()> {
        let model = |id: &str, description: &str| {
            serde_json::from_value::<ModelSummary>(json!({"id": id, "name": id, "description": description}))
        };
        let cut = model("background-removal", "Cuts out what an image shows.")?;
        let large = model("super-resolution", "Makes an image larger and sharper.")?;
        let anime = model("image-to-anime", "Redraws an image in the style of an anime.")?;
        for (search, model, is_found) in [
            ("remove background", &cut, true),
            ("Background, remove the", &cut, true),
            ("upscale", &large, true),
            ("cartoon", &anime, true),
            ("image", &anime, true),
            ("remove background", &large, false),
            ("upscale", &cut, false),
            ("?", &cut, false),
        ] {
            assert_eq!(matches(search, model), is_found, "{search}");
        }
        Ok(())
    }
}
