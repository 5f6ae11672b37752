//! Files: folders with thumbnails, uploads, deletion, statistics.

use super::prelude::*;
use axum::extract::FromRequest;
use axum::response::Redirect;
use inferstore::types::{MimeCategory, StorageFile, UploadFolder};
use inferstore::{File, FileQuery};

use crate::failure::named;
use crate::files::name_of;
use crate::form::Form;
use crate::shown::{is_picture, media, save};

const PAGE: u32 = 24;

/// A larger picture is no thumbnail.
const MAX_THUMBNAIL: i64 = 8 * 1024 * 1024;

/// The address of a page of a folder.
fn place(folder: &str, number: u64, kind: Option<MimeCategory>) -> String {
    let kind = kind.as_ref().map_or("", MimeCategory::as_str);
    format!("/files/{}?page={number}&kind={kind}", segment(folder))
}

/// The page and the kind of files that a request names.
fn chosen(query: &Words) -> Result<(u64, Option<MimeCategory>)> {
    Ok((parsed::<u64>(query, "page")?.unwrap_or(1).max(1), parsed(query, "kind")?))
}

/// Fails for a folder that the console has no page for.
pub(crate) fn check_folder(folder: &str) -> Result<()> {
    let known = folder.parse::<UploadFolder>();
    known.map(drop).map_err(|_| Failure::not_found("The storage has no folder of this name."))
}

pub(crate) async fn list(app: &App, folder: &str, query: &Words) -> Result<Response> {
    let (number, kind) = chosen(query)?;
    let mut asked = FileQuery::default();
    (asked.category, asked.page_size) = (kind, Some(PAGE));
    let (files, statistics) = within(async {
        tokio::try_join!(app.client.folder(folder).page(asked, number), app.client.storage().statistics())
    })
    .await?;
    let pages = files.pages.unwrap_or_default();
    if files.records.is_empty() && (1..number).contains(&pages) {
        // The last file of the last page was deleted.
        return Ok(Redirect::to(&place(folder, pages, kind)).into_response());
    }
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
            ul.cards.files { @for file in &files.records { li.card { (card(app, file, &place(folder, number, kind))) } } }
        }
        (pager(pages, number, |one| place(folder, one, kind)))
    };
    Ok(page("Files", "/files", body))
}

/// A file, on the page of a folder at this address.
fn card(app: &App, file: &StorageFile, place: &str) -> Markup {
    let key = file.key.as_deref().unwrap_or(&file.id);
    let name = key.rsplit('/').next().unwrap_or(key);
    let mime = file.mime.as_deref().unwrap_or_default();
    let bytes = file.size.unwrap_or_default();
    let address = file.download_url.as_deref().map(|url| app.link_to(file, url));
    let is_small = bytes <= MAX_THUMBNAIL && is_picture(mime);
    html! {
        div.thumbnail { @if let Some(address) = address.as_deref().filter(|_| is_small) { (media(mime, address, "")) } @else { span.muted { (mime) } } }
        h2 title=(name) { (name) }
        p.muted { (size(bytes.unsigned_abs())) " · " (when(file.created_at.as_ref())) @if file.is_expired == Some(true) { " · expired" } }
        @if let Some(address) = &address {
            div.foot {
                (save(address, name))
                a.danger href={ (place.replacen('?', "/delete?", 1)) "&file=" (address.trim_start_matches("/view/")) } aria-label={ "Delete " (name) } { "Delete" }
            }
        }
    }
}

/// Uploads the files of a form, one after the other. A failure of one does not stop the others.
pub(crate) async fn upload(app: &App, folder: &str, request: Request) -> Result<Response> {
    let form = Form::read(app, request).await?;
    if !form.errors.is_empty() || form.files.is_empty() {
        let text = "The storage takes files of 1 byte to 100 MiB. Nothing was uploaded.";
        return Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "No such file can be stored", text));
    }
    let mut stored = Vec::new();
    let mut failed = Vec::new();
    for (_, kept) in &form.files {
        let file = File::path(&**kept.path).named(&kept.name);
        match app.client.folder(folder).upload(file).await {
            Ok(_) => stored.push(kept.name.as_str()),
            Err(error) => failed.push((kept.name.as_str(), Failure::from(named(error, &kept.name)))),
        }
    }
    app.forget_downloads();
    let Some((_, first)) = failed.first() else { return Ok(go_to("files", folder)) };
    let status = first.status;
    let body = html! {
        h1 { "Upload" }
        h2 { "Not stored" }
        @for (name, failure) in &failed { section { h3 { (name) } (failure) } }
        @if !stored.is_empty() {
            h2 { "Stored" }
            ul { @for name in &stored { li { (name) } } }
        }
        p { a.button href=(place(folder, 1, None)) { "Back to the files" } }
    };
    Ok((status, page("Upload", "/files", body)).into_response())
}

/// Asks before a file is deleted.
pub(crate) fn confirm(app: &App, folder: &str, query: &Words) -> Result<Response> {
    let (number, kind) = chosen(query)?;
    let id = word(query, "file");
    let url = app.linked(id)?;
    let body = html! {
        h1 { "Delete " (name_of(&url)) "?" }
        p { "Nothing can bring it back." }
        form.bar method="post" action={ "/files/" (segment(folder)) "/delete" } {
            input type="hidden" name="file" value=(id);
            input type="hidden" name="page" value=(number);
            input type="hidden" name="kind" value=(kind.as_ref().map_or("", MimeCategory::as_str));
            button.danger type="submit" { "Delete" }
            a.button href=(place(folder, number, kind)) { "Keep it" }
        }
    };
    Ok(page("Delete a file", "/files", body))
}

/// Deletes a file that a page has shown.
pub(crate) async fn delete(app: &App, folder: &str, request: Request) -> Result<Response> {
    let words = axum::Form::<Words>::from_request(request, app).await;
    let words = words.map_or_else(|_| Words::new(), |axum::Form(words)| words);
    let (number, kind) = chosen(&words)?;
    let url = app.linked(word(&words, "file"))?;
    let deleted = within(app.client.storage().delete(url)).await;
    // Also when the response was lost.
    app.forget_downloads();
    deleted?;
    Ok(Redirect::to(&place(folder, number, kind)).into_response())
}
