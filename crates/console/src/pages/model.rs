//! One model: what it takes, its price, and a form made from what it declares.

use super::prelude::*;
use crate::state::random_id;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

use axum::http::StatusCode;
use inferstore::types::{Descriptor, DescriptorType, ModelDetail, ModelVersioning, NumConfig};
use inferstore::{Decimal, Sample};
use serde_json::Value;

use super::catalog::{served, tile};
use crate::form::{self, Given, RAW};
use crate::runs::Run;
use crate::shown::{Kind, media};

/// More options than this become a list that opens.
const MAX_BUTTONS: usize = 8;

pub(crate) async fn show(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<Words>,
) -> Result<Markup> {
    let mut given = Given::default();
    if let Some(task) = query.get("from") {
        let task = within(app.client.task(task.as_str()).get()).await?;
        given = Given::from_task(&task.input_data.unwrap_or_default());
    }
    show_with(&app, &id, given).await
}

/// The parameters in their order.
pub(crate) fn ordered(format: Option<&BTreeMap<String, Descriptor>>) -> Vec<(&String, &Descriptor)> {
    let mut parameters: Vec<_> = format.into_iter().flatten().collect();
    parameters.sort_by_key(|(_, descriptor)| descriptor.position.unwrap_or(i64::MAX));
    parameters
}

async fn show_with(app: &App, id: &str, given: Given) -> Result<Markup> {
    let model = app.client.model(id);
    let (detail, version, cost, serving) = within(async {
        let (detail, version) = tokio::try_join!(model.get(), model.versioning())?;
        let (cost, serving) = tokio::join!(model.cost(), model.serving());
        Ok((detail, version, cost.ok(), serving.ok()))
    })
    .await?;
    let metadata = detail.model_metadata.clone().unwrap_or_default();
    let name = titled(metadata.pretty_name.as_deref().or(detail.name.as_deref()).unwrap_or(id));
    let cost = cost.and_then(|cost| Some((cost.cost?, cost.unit.or(cost.symbol))));
    let serving = serving.and_then(|serving| serving.serving);
    let body = html! {
        (tile(id))
        div.heading {
            h1 { (name) " " (served(serving)) }
            p.muted { (detail.description.as_deref().unwrap_or_default()) }
        }
        div.columns {
            (run_form(app, id, &version, cost.as_ref(), &given, serving))
            aside { (about(&detail, &version)) }
        }
    };
    Ok(page(&name, "/", body))
}

fn about(detail: &ModelDetail, version: &ModelVersioning) -> Markup {
    let metadata = detail.model_metadata.clone().unwrap_or_default();
    let facts = [
        ("Identifier", Some(detail.id.as_str().to_owned())),
        ("Publisher", detail.username.clone()),
        ("Task", metadata.task),
        ("License", metadata.license),
        ("Version", version.commit_hash.as_ref().map(|hash| hash.chars().take(12).collect())),
    ];
    html! {
        section.card {
            h2 { "About" }
            dl {
                @for (name, value) in facts {
                    @if let Some(value) = value { dt { (name) } dd { (value) } }
                }
                dt { "Updated" } dd { (when(detail.updated_at.as_ref())) }
            }
            h3 { "Returns" }
            dl {
                @for (name, descriptor) in ordered(version.output_format.as_ref()) {
                    dt { (titled(name)) } dd { (takes(descriptor)) }
                }
            }
        }
    }
}

/// What a parameter is, in words.
fn takes(descriptor: &Descriptor) -> String {
    let range = descriptor.num_config.clone().unwrap_or_default();
    let bounds = match (&range.min, &range.max) {
        (Some(min), Some(max)) => format!(" from {min} to {max}"),
        (Some(min), None) => format!(" from {min}"),
        (None, Some(max)) => format!(" up to {max}"),
        (None, None) => String::new(),
    };
    match (&descriptor.type_, descriptor.mime_type.as_deref()) {
        (Some(DescriptorType::File), Some(types)) => format!("File ({})", types.join(", ")),
        (Some(DescriptorType::File), None) => "File".to_owned(),
        (Some(DescriptorType::Int), _) => format!("Whole number{bounds}"),
        (Some(DescriptorType::Float), _) => format!("Number{bounds}"),
        (Some(DescriptorType::Options), _) => "One of a list".to_owned(),
        (Some(DescriptorType::String), _) => "Text".to_owned(),
        (Some(other), _) => titled(other.as_str()),
        (None, _) => "Any value".to_owned(),
    }
}

fn run_form(
    app: &App,
    id: &str,
    version: &ModelVersioning,
    cost: Option<&(Decimal, Option<String>)>,
    given: &Given,
    serving: Option<bool>,
) -> Markup {
    let inputs = ordered(version.input_format.as_ref());
    html! {
        form.card.run method="post" action={ "/models/" (segment(id)) } enctype="multipart/form-data" novalidate {
            h2 { "Try it" }
            @if let Some(failure) = &given.failure { (failure) }
            @if !given.errors.is_empty() {
                p.error role="alert" { "Nothing was sent: " (given.errors.len()) @if given.errors.len() == 1 { " input does" } @else { " inputs do" } " not fit." }
            }
            input type="hidden" name="form" value=(random_id().unwrap_or_default());
            @for (name, descriptor) in &inputs { (field(app, name, descriptor, given)) }
            @if inputs.is_empty() {
                label for="in.raw" { "Inputs, as a JSON object" }
                textarea id="in.raw" name="in.raw" rows="6" { (given.values.get(RAW).map_or("{}", String::as_str)) }
            }
            div.go {
                @match cost {
                    Some((cost, unit)) => {
                        input type="hidden" name="max_cost" value=(amount(Some(cost)));
                        p.cost { @if cost.is_zero() { strong { "Free" } } @else { "Costs " strong { (amount(Some(cost))) " " (unit.as_deref().unwrap_or_default()) } }
                            br; span.muted { "Only a run that succeeds is billed." } }
                    }
                    None => p.cost { "The service states no price." }
                }
                @if serving == Some(false) { p.cost { "No node serves the model now: the task waits for one." } }
                button.primary type="submit" { "Run" }
            }
        }
    }
}

fn field(app: &App, name: &str, descriptor: &Descriptor, given: &Given) -> Markup {
    let id = format!("in.{name}");
    let error = given.errors.get(name);
    let samples: Vec<&str> = descriptor.samples.iter().flatten().map(Sample::as_str).collect();
    let is_new = given.values.is_empty() && given.files.is_empty() && given.errors.is_empty();
    let kind = descriptor.type_.clone().unwrap_or(DescriptorType::Other(String::new()));
    let is_required = descriptor.required == Some(true);
    // Samples of files and texts are examples; a number or an option begins with one.
    let begins =
        is_new && matches!(kind, DescriptorType::Int | DescriptorType::Float | DescriptorType::Options);
    let begin = samples.first().copied().filter(|_| begins).unwrap_or_default();
    let value = given.values.get(name).map_or(begin, String::as_str);
    let described = format!("{id}.help");
    let label = html! { (titled(name)) @if !is_required { span.muted { " optional" } } };
    let control = match kind {
        DescriptorType::File => file(app, name, descriptor, given, &described),
        DescriptorType::Options if (1..=MAX_BUTTONS).contains(&samples.len()) => html! {
            div.options {
                @for (index, option) in samples.iter().enumerate() {
                    label { input type="radio" name=(id) id=[(index == 0).then_some(&id)] value=(option) checked[*option == value] aria-describedby=(described); span { (titled(option)) } }
                }
            }
        },
        DescriptorType::Options => html! {
            select id=(id) name=(id) aria-describedby=(described) {
                @if !is_required || value.is_empty() { option value="" {} }
                @for option in &samples { option value=(option) selected[*option == value] { (option) } }
            }
        },
        DescriptorType::Int | DescriptorType::Float => {
            number(&id, value, descriptor.num_config.as_ref(), kind == DescriptorType::Int, &described)
        }
        _ => {
            html! { textarea id=(id) name=(id) rows="3" placeholder=[samples.first()] aria-describedby=(described) { (value) } }
        }
    };
    let is_group = matches!(descriptor.type_, Some(DescriptorType::Options)) && samples.len() <= MAX_BUTTONS;
    html! {
        div.field.invalid[error.is_some()] {
            @if is_group { fieldset { legend { (label) } (control) } } @else { label for=(id) { (label) } (control) }
            p.help id=(described) {
                @if let Some(error) = error { span.error { (error) } } @else { (takes(descriptor)) }
            }
        }
    }
}

fn number(id: &str, value: &str, range: Option<&NumConfig>, is_whole: bool, described: &str) -> Markup {
    let range = range.cloned().unwrap_or_default();
    let bound = |bound: &Option<Decimal>| bound.as_ref().map(|bound| amount(Some(bound)));
    let (min, max) = (bound(&range.min), bound(&range.max));
    let step = bound(&range.step).unwrap_or_else(|| if is_whole { "1" } else { "any" }.to_owned());
    let fine = if step == "any" { "0.01" } else { &step };
    html! {
        div.number {
            @if min.is_some() && max.is_some() {
                input type="range" min=[&min] max=[&max] step=(fine) value=(value) aria-label={ "Slider of " (id.trim_start_matches("in.")) } hidden;
            }
            input type="number" inputmode="decimal" id=(id) name=(id) min=[&min] max=[&max] step=(step) value=(value) aria-describedby=(described);
        }
    }
}

fn file(app: &App, name: &str, descriptor: &Descriptor, given: &Given, described: &str) -> Markup {
    let types = descriptor.mime_type.as_ref().map(|types| types.join(","));
    let kept = given.files.get(name).map(|upload| &upload.file);
    let url = given.values.get(name).map_or("", String::as_str);
    let kind = Kind::of_name(kept.map_or(url, |file| &file.name), descriptor.mime_type.as_deref());
    html! {
        div.drop {
            div.preview {
                @if let Some(file) = kept {
                    (media(kind, &format!("/uploads/{}", file.id), &file.name))
                } @else if !url.is_empty() && !given.errors.contains_key(name) {
                    (media(kind, &app.link(url, name), name))
                }
            }
            p { span.chosen { @if let Some(file) = kept { (file.name) ", " (size(file.size)) } @else { "Drop a file here, or choose one" } } }
            input type="file" id={ "in." (name) } name={ "in." (name) } accept=[types] aria-describedby=(described);
            @if let Some(file) = kept { input type="hidden" name={ "kept." (name) } value=(file.id); }
            details open[!url.is_empty()] {
                summary { "or give the URL of a file" }
                input type="url" name={ "url." (name) } value=(url) placeholder="https://…" aria-label={ "URL of " (titled(name)) };
            }
        }
    }
}

/// Checks what was filled in, and starts the run. Nothing is sent while an input does not fit.
pub(crate) async fn run(
    State(app): State<Shared>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    let sent = form::read(&app, request).await?;
    let text = |name: &str| sent.texts.get(name).cloned();
    let (max_cost, nonce) = (text("max_cost"), text("form"));
    let contents: Vec<_> =
        sent.files.iter().map(|(field, upload)| (field, &upload.file.name, upload.file.size)).collect();
    let form = nonce.map_or(0, |nonce| app.hasher.hash_one((&id, nonce, &sent.texts, contents)));
    let mut given = Given::from_form(&app, sent);
    let version = within(app.client.model(&id).versioning()).await?;
    let declared = version.input_format.unwrap_or_default();
    let make = || {
        let run = app.client.model(&id).run(given.inputs(&declared)?);
        Ok(match &max_cost {
            Some(max_cost) => run.max_cost(max_cost.as_str()),
            None => run,
        })
    };
    let checked = match make() {
        _ if !given.errors.is_empty() => None,
        Ok(run) => Some(run.check().await),
        Err(error) => Some(Err(error)),
    };
    match checked {
        Some(Ok(mut inputs)) => {
            let run = make()?;
            for name in given.files.keys() {
                inputs.insert(name.clone(), Value::from("FILE_URL"));
            }
            let mut new = Run::new(Some(id), inputs, None);
            new.files =
                given.files.iter().map(|(name, upload)| (name.clone(), upload.file.clone())).collect();
            new.form = form;
            let run = app.runs.start(new, given.files.into_values().collect(), || run.events());
            return Ok(Redirect::to(&format!("/runs/{}", run.id)).into_response());
        }
        Some(Err(error)) => given.refuse(&error),
        None => {}
    }
    let page = show_with(&app, &id, given).await?;
    Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
}
