//! Files: folders with thumbnails, uploads, deletion, statistics.

use super::prelude::*;
use axum::extract::FromRequest;
use inferstore::types::{MimeCategory, StorageFile, UploadFolder};
use inferstore::{File, FileQuery};

use crate::form::Form;
use crate::shown::{is_picture, media, save};

const PAGE: u32 = 24;

/// A larger picture is no thumbnail.
const MAX_THUMBNAIL: i64 = 8 * 1024 * 1024;

pub(crate) async fn list(app: &App, folder: &str, query: &Words) -> Result<Response> {
    let number = word(query, "page").parse().unwrap_or(1).max(1);
    let kind = word(query, "kind").parse::<MimeCategory>().ok();
    let mut asked = FileQuery::default();
    (asked.category, asked.page_size) = (kind, Some(PAGE));
    let (files, statistics) = within(async {
        tokio::try_join!(app.client.folder(folder).page(asked, number), app.client.storage().statistics())
    })
    .await?;
    let pages = files.pages.unwrap_or_default();
    let body = html! {
        div.heading {
            h1 { "Files" }
            p.muted { (statistics.total_files.unwrap_or_default()) " stored, " (size(statistics.total_size.unwrap_or_default().unsigned_abs())) " in all. Storage is billed." }
        }
        nav.tabs aria-label="Folders" {
            @for one in UploadFolder::ALL {
                a href={ "/files/" (one.as_str()) } aria-current=[(one.as_str() == folder).then_some("page")] { (titled(one.as_str())) }
            }
        }
        form.card.drop method="post" action={ "/files/" (segment(folder)) } enctype="multipart/form-data" {
            div.preview {}
            p { label for="files" { span.chosen { "Drop files here, or choose them" } } }
            input type="file" id="files" name="files" multiple required;
            button.primary type="submit" { "Upload" }
        }
        form.bar method="get" {
            (choice("kind", "All kinds", MimeCategory::ALL.iter().map(MimeCategory::as_str), word(query, "kind")))
            button type="submit" { "Filter" }
        }
        @if files.records.is_empty() {
            div.empty { h2 { "No files here" } p { "Files among the inputs of a run are stored under Samples." } }
        } @else {
            ul.cards.files { @for file in &files.records { li.card { (card(app, folder, file)) } } }
        }
        (pager(pages, number, |one| format!("?page={one}&kind={}", kind.map_or("", |kind| kind.as_str()))))
    };
    Ok(page("Files", "/files", body))
}

fn card(app: &App, folder: &str, file: &StorageFile) -> Markup {
    let key = file.key.as_deref().unwrap_or(&file.id);
    let name = key.rsplit('/').next().unwrap_or(key);
    let mime = file.mime.as_deref().unwrap_or_default();
    let bytes = file.size.unwrap_or_default();
    let url = file.download_url.as_deref();
    let is_small = bytes <= MAX_THUMBNAIL && is_picture(mime);
    html! {
        div.thumbnail { @if let Some(url) = url.filter(|_| is_small) { (media(mime, &app.link(url), "")) } @else { span.muted { (mime) } } }
        h2 title=(name) { (name) }
        p.muted { (size(bytes.unsigned_abs())) " · " (when(file.created_at.as_ref())) @if file.is_expired == Some(true) { " · expired" } }
        @if let Some(url) = url {
            div.foot {
                (save(app, url, name))
                form method="post" action={ "/files/" (segment(folder)) "/delete" } {
                    input type="hidden" name="file" value=(app.link(url).trim_start_matches("/view/"));
                    button.quiet.danger type="submit" aria-label={ "Delete " (name) } { "Delete" }
                }
            }
        }
    }
}

/// Uploads the files of a form, one after the other.
pub(crate) async fn upload(app: &App, folder: &str, request: Request) -> Result<Response> {
    let form = Form::read(app, request).await?;
    if !form.errors.is_empty() || form.files.is_empty() {
        let text = "The storage takes files of 1 byte to 100 MiB. Nothing was uploaded.";
        return Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "No such file can be stored", text));
    }
    for (_, kept) in &form.files {
        let file = File::path(&**kept.path).named(&kept.name);
        app.client.folder(folder).upload(file).await?;
    }
    Ok(go_to("files", folder))
}

/// Deletes a file that a page has shown.
pub(crate) async fn delete(app: &App, folder: &str, request: Request) -> Result<Response> {
    let words = axum::Form::<Words>::from_request(request, app).await;
    let words = words.map_or_else(|_| Words::new(), |axum::Form(words)| words);
    let url = app.linked(word(&words, "file"))?;
    within(app.client.storage().delete(url)).await?;
    Ok(go_to("files", folder))
}
