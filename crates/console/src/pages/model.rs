//! Page of one model: inputs, price, and a form generated from the declaration.

use super::prelude::*;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

use inferstore::types::{Descriptor, DescriptorType, ModelDetail, ModelVersioning, TaskCost};
use inferstore::{Decimal, Sample};
use serde_json::Value;

use super::catalog::served;
use crate::files::name_of;
use crate::form::{Form, begin_of, label_of, title_of};
use crate::runs::Run;
use crate::shown::{self, media, mime_of};
use crate::state::random_id;

const MAX_EXAMPLES: usize = 3;

pub(crate) async fn show(app: &App, id: &str, query: &Words) -> Result<Response> {
    let mut form = Form::default();
    if let Some(task) = query.get("from") {
        let task = within(app.client.task(task.as_str()).get()).await?;
        form = Form::from_task(&task.input_data.unwrap_or_default());
        app.learn_origin().await;
    }
    if let Some(file) = query.get("use") {
        // The first file input gets the picture chosen on another page.
        let url = app.linked(file)?;
        let version = within(app.client.model(id).versioning()).await?;
        let inputs = ordered(version.input_format.as_ref());
        let file = inputs.iter().find(|(_, descriptor)| descriptor.type_ == Some(DescriptorType::File));
        form.values.extend(file.map(|(name, _)| ((*name).clone(), url)));
        app.learn_origin().await;
    }
    show_with(app, id, &form).await
}

async fn show_with(app: &App, id: &str, form: &Form) -> Result<Response> {
    let model = app.client.model(id);
    let (detail, version, cost, serving) = within(async {
        let (detail, version) = tokio::try_join!(model.get(), model.versioning())?;
        let (cost, serving) = tokio::join!(model.cost(), model.serving());
        Ok((detail, version, cost.unwrap_or_default(), serving.unwrap_or_default().serving))
    })
    .await?;
    let metadata = detail.model_metadata.clone().unwrap_or_default();
    let name = titled(detail.name.as_deref().or(metadata.pretty_name.as_deref()).unwrap_or(id));
    let body = html! {
        div.heading {
            h1 { (name) " " (served(serving)) }
            p.muted { (detail.description.as_deref().unwrap_or_default()) }
        }
        div.columns {
            form.card.run method="post" action={ "/models/" (segment(id)) } enctype="multipart/form-data" novalidate {
                h2 { "Try it" }
                @if let Some(failure) = &form.failure { (failure) }
                @if !form.errors.is_empty() {
                    p.error.summary role="alert" {
                        "Error: nothing was sent: " (form.errors.len())
                        @if form.errors.len() == 1 { " input does" } @else { " inputs do" } " not fit:"
                        @for field in form.errors.keys() { " " a href={ "#in." (field) } { (title_of(field, version.input_format.as_ref().and_then(|format| format.get(field)))) } }
                    }
                }
                input type="hidden" name="form" value=(random_id().unwrap_or_default());
                // The Enter key presses the first button of a form, which must not remove a file.
                button.hidden type="submit" tabindex="-1" aria-hidden="true" { "Run" }
                (fields(app, &version, form))
                div.go {
                    (price(&cost))
                    @if serving == Some(false) { p.cost { "No node serves the model now: the task waits for one." } }
                    button.primary type="submit" { "Run" }
                }
            }
            div {
                section.tries hidden { ol.earlier aria-label="Earlier tries" {} div.latest {} }
                (about(&detail, &version))
            }
        }
    };
    let is_refused = form.failure.is_some() || !form.errors.is_empty();
    let title = if is_refused { format!("Error · {name}") } else { name };
    Ok(page(&title, "/", body))
}

fn price(price: &TaskCost) -> Markup {
    let unit = price.unit.as_ref().or(price.symbol.as_ref()).map_or("", String::as_str);
    html! {
        @match &price.cost {
            Some(cost) if cost.is_zero() => p.cost { strong { "Free" } },
            Some(cost) => p.cost { "Costs " strong { (amount(Some(cost))) " " (unit) } span.each hidden { " for each file" } ", if it succeeds" },
            None => p.cost { "The service states no price." },
        }
        @if let Some(cost) = &price.cost { input type="hidden" name="max_cost" value=(amount(Some(cost))); }
    }
}

fn ordered(format: Option<&BTreeMap<String, Descriptor>>) -> Vec<(&String, &Descriptor)> {
    let mut parameters: Vec<_> = format.into_iter().flatten().collect();
    parameters.sort_by_key(|(_, descriptor)| descriptor.position.unwrap_or(i64::MAX));
    parameters
}

fn about(detail: &ModelDetail, version: &ModelVersioning) -> Markup {
    let metadata = detail.model_metadata.clone().unwrap_or_default();
    let facts = [
        ("Identifier", Some(detail.id.as_str().to_owned())),
        ("Publisher", detail.username.clone()),
        ("License", metadata.license),
        ("Version", version.commit_hash.as_ref().map(|hash| hash.chars().take(12).collect())),
    ];
    html! {
        section.card {
            h2 { "About" }
            dl {
                @for (name, value) in facts { @if let Some(value) = value { dt { (name) } dd { (value) } } }
            }
            h3 { "Returns" }
            dl {
                @for (name, descriptor) in ordered(version.output_format.as_ref()) { dt { (title_of(name, Some(descriptor))) } dd { (help(descriptor)) } }
            }
        }
    }
}

fn help(descriptor: &Descriptor) -> Markup {
    let description = descriptor.description.as_deref().unwrap_or_default();
    let is_listed = descriptor.type_ == Some(DescriptorType::Options) && !description.is_empty();
    html! { (description) @if !is_listed { " " span.muted { (takes(descriptor)) } } }
}

fn takes(descriptor: &Descriptor) -> String {
    let range = descriptor.num_config.clone().unwrap_or_default();
    let min = range.min.map_or(String::new(), |min| format!(" from {min}"));
    let max = range.max.map_or(String::new(), |max| format!(" to {max}"));
    let types =
        descriptor.mime_type.as_ref().map_or(String::new(), |types| format!(" ({})", types.join(", ")));
    let kind = match &descriptor.type_ {
        Some(DescriptorType::Int) => "whole number",
        Some(DescriptorType::Float) => "number",
        Some(DescriptorType::Options) => "one of a list",
        Some(DescriptorType::String) => "text",
        Some(other) => other.as_str(),
        None => "any value",
    };
    let pixels = descriptor.max_pixels.map(|most| format!(", at most {} megapixels", most as f64 / 1e6));
    titled(kind) + &min + &max + &types + &pixels.unwrap_or_default()
}

fn fields(app: &App, version: &ModelVersioning, form: &Form) -> Markup {
    html! {
        @for (name, descriptor) in ordered(version.input_format.as_ref()) {
            @let error = form.errors.get(name);
            div.field.invalid[error.is_some()] {
                (field(app, name, descriptor, form))
                p.help id={ "in." (name) ".help" } { @if let Some(error) = error { span.error { (error) } } @else { (help(descriptor)) } }
            }
        }
    }
}

fn field(app: &App, name: &str, descriptor: &Descriptor, form: &Form) -> Markup {
    let id = format!("in.{name}");
    let help = format!("{id}.help");
    let samples: Vec<&str> = descriptor.samples.iter().flatten().map(Sample::as_str).collect();
    let begin = if form.is_filled { "" } else { begin_of(descriptor) };
    let given = form.values.get(name).map(String::as_str);
    let name_and_need = html! {
        (title_of(name, Some(descriptor))) @if descriptor.required != Some(true) { span.muted { " optional" } }
    };
    let label = html! { label for=(id) { (name_and_need) } };
    html! {
        @match &descriptor.type_ {
            Some(DescriptorType::File) => { (label) (file(app, name, descriptor, form)) }
            Some(DescriptorType::Options) => fieldset {
                legend { (name_and_need) }
                div.options {
                    @for (index, option) in samples.iter().enumerate() {
                        label {
                            input type="radio" name=(id) id=[(index == 0).then_some(&id)] value=(exact(option))
                                checked[*option == given.unwrap_or(begin)] aria-describedby=(help);
                            span { (label_of(option, descriptor)) }
                        }
                    }
                }
            },
            Some(DescriptorType::Int | DescriptorType::Float) => {
                (label)
                (number(&id, given.unwrap_or(begin), descriptor))
            }
            _ => {
                (label)
                textarea id=(id) name=(id) rows="3" placeholder=[samples.first()] aria-describedby=(help) {
                    // A browser drops a line break after the tag.
                    "\n" (exact(given.unwrap_or_default()))
                }
            }
        }
    }
}

fn number(id: &str, value: &str, descriptor: &Descriptor) -> Markup {
    let range = descriptor.num_config.clone().unwrap_or_default();
    let bound = |bound: &Option<Decimal>| bound.as_ref().map(|bound| amount(Some(bound)));
    let min = bound(&range.min);
    let max = bound(&range.max);
    let is_whole = descriptor.type_ == Some(DescriptorType::Int);
    let step = bound(&range.step).unwrap_or_else(|| if is_whole { "1" } else { "any" }.to_owned());
    html! {
        div.number {
            @if min.is_some() && max.is_some() {
                input type="range" min=[&min] max=[&max] step=(step.replace("any", "0.01")) value=(value)
                    aria-label={ "Slider of " (title_of(id.trim_start_matches("in."), Some(descriptor))) } hidden;
            }
            // `type="number"` would send an empty text for an invalid number, and the default would be used.
            input type="text" inputmode="decimal" id=(id) name=(id) value=(exact(value))
                aria-describedby={ (id) ".help" };
        }
    }
}

fn file(app: &App, name: &str, descriptor: &Descriptor, form: &Form) -> Markup {
    let types = descriptor.mime_type.as_ref().map(|types| types.join(","));
    let kept = form.file(name);
    let url = form.values.get(name).map_or("", String::as_str);
    html! {
        div.drop {
            div.preview {
                @if let Some(file) = kept {
                    (media(&mime_of(&file.name, Some(descriptor)), &format!("/uploads/{}", file.id), &file.name))
                } @else if !url.is_empty() && !form.errors.contains_key(name) {
                    (shown::file(app, url, Some(descriptor), name))
                }
            }
            p {
                span.chosen {
                    @if let Some(file) = kept { (file.name) ", " (size(file.size)) }
                    @else { "Drop a file here, or choose one" }
                }
            }
            input type="file" id={ "in." (name) } name={ "in." (name) } accept=[types]
                data-max-pixels=[descriptor.max_pixels]
                aria-describedby={ "in." (name) ".help" };
            @if let Some(file) = kept {
                input type="hidden" name={ "kept." (name) } value=(file.id);
                button.quiet.danger type="submit" name="remove" value=(name)
                    aria-label={ "Remove " (file.name) } { "Remove" }
            }
            details open[!url.is_empty()] {
                summary { "or give the URL of a file" }
                input type="url" name={ "url." (name) } value=(exact(url)) placeholder="https://…"
                    aria-label={ "URL of " (title_of(name, Some(descriptor))) };
            }
            // Examples load only on request: a model may name any host.
            @for example in descriptor.samples.iter().flatten().take(MAX_EXAMPLES) {
                button.quiet.example type="button" data-url=(example.as_str()) hidden {
                    "Example: " (name_of(example.as_str()))
                }
            }
        }
    }
}

/// Checks the form and starts the run. Nothing is sent while an input is invalid.
pub(crate) async fn run(app: &App, id: &str, request: Request) -> Result<Response> {
    let mut form = Form::read(app, request).await?;
    if form.more.contains_key("remove") {
        return show_with(app, id, &form).await;
    }
    let version = within(app.client.model(id).versioning()).await?;
    let declared = version.input_format.unwrap_or_default();
    let make = || {
        let run = app.client.model(id).run(form.inputs(&declared)).poll(app.poll.clone());
        match form.more.get("max_cost") {
            Some(max_cost) => run.max_cost(max_cost.as_str()),
            None => run,
        }
    };
    match make().check().await {
        Ok(inputs) if form.errors.is_empty() => {
            let run = make();
            let mut new = Run::new(Some(id.to_owned()), inputs, None);
            let names = form.files.iter().map(|(field, kept)| (field.clone(), kept.name.clone()));
            new.files = names.collect();
            let picture = form.files.iter().find(|(_, kept)| shown::is_picture(&kept.mime));
            let stored = |value| shown::picture(app, value, None).map(|url| app.link(url));
            let picture = picture.map(|(_, kept)| format!("/uploads/{}", kept.id));
            new.picture = picture.or_else(|| new.inputs.values().find_map(stored));
            new.inputs.extend(new.files.keys().map(|name| (name.clone(), Value::from("FILE_URL"))));
            if let Some(nonce) = form.more.get("form") {
                let digests: Vec<_> = form.files.iter().map(|(_, kept)| kept.digest).collect();
                new.form = app.hasher.hash_one((id, nonce, &form.values, &new.files, digests));
            }
            let run = app.runs.start(new, form.files, || run.events());
            let mut response = go_to("runs", run.id);
            // A script reads the address of the run, and cannot read that of a redirect.
            if form.more.contains_key("script") {
                *response.status_mut() = StatusCode::CREATED;
            }
            return Ok(response);
        }
        Ok(_) => {}
        Err(error) => form.refuse(error),
    }
    let page = show_with(app, id, &form).await?;
    Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
}
