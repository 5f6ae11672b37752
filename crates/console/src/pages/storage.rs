//! Files: folders with thumbnails, newest first, uploads, deletion, statistics.

use super::prelude::*;
use std::ops::Range;

use axum::extract::FromRequest;
use axum::response::Redirect;
use inferstore::types::{StorageFile, UploadFolder};
use inferstore::{File, FileQuery};

use crate::failure::named;
use crate::files::original_name;
use crate::form::Form;
use crate::shown::{is_picture, save};

const PAGE: u64 = 24;

const MAX_THUMBNAIL: i64 = 32 * 1024 * 1024;

const CHOSEN: &str = "file.";

/// Maximum number of files that a search reads, newest first, and number per request.
const MAX_SEARCHED: u64 = 2_000;
const READ: u64 = 100;

fn place(folder: &str, number: u64, search: &str) -> String {
    format!("/files/{}?page={number}&search={}", segment(folder), segment(search))
}

fn chosen(query: &Words) -> Result<(u64, &str)> {
    Ok((parsed::<u64>(query, "page")?.unwrap_or(1).max(1), word(query, "search")))
}

pub(crate) fn check_folder(folder: &str) -> Result<()> {
    let known = folder.parse::<UploadFolder>();
    known.map(drop).map_err(|_| Failure::not_found("The storage has no folder of this name."))
}

/// Reads files by their positions in the service's order, oldest first. Returns the newest first.
async fn read(app: &App, folder: &str, places: Range<u64>) -> Result<Vec<StorageFile>> {
    let folder = app.client.folder(folder);
    let size = if places.end - places.start > PAGE { READ } else { PAGE };
    let mut query = FileQuery::default();
    query.page_size = Some(size as u32);
    let mut files = Vec::new();
    for page in places.start / size..places.end.div_ceil(size) {
        let records = within(folder.page(query.clone(), page + 1)).await?.records;
        let records = (page * size..).zip(records);
        files.extend(records.filter(|(place, _)| places.contains(place)).map(|(_, file)| file));
    }
    files.reverse();
    Ok(files)
}

/// Returns a page of the files whose names contain a text, newest first, and their number.
async fn find(app: &App, folder: &str, number: u64, search: &str) -> Result<(Vec<StorageFile>, u64)> {
    let total = within(app.client.folder(folder).page(FileQuery::default(), 1)).await?.total;
    let total = total.unwrap_or_default();
    let skipped = PAGE.saturating_mul(number - 1);
    if search.is_empty() {
        let end = total.saturating_sub(skipped);
        return Ok((read(app, folder, end.saturating_sub(PAGE)..end).await?, total));
    }
    let search = search.to_lowercase();
    let mut files = read(app, folder, total.saturating_sub(MAX_SEARCHED)..total).await?;
    files.retain(|file| original_name(key(file)).to_lowercase().contains(&search));
    let total = files.len() as u64;
    Ok((files.into_iter().skip(skipped as usize).take(PAGE as usize).collect(), total))
}

fn key(file: &StorageFile) -> &str {
    file.key.as_deref().unwrap_or(&file.id)
}

pub(crate) async fn list(app: &App, folder: &str, query: &Words) -> Result<Response> {
    let (number, search) = chosen(query)?;
    let (found, statistics) =
        tokio::join!(find(app, folder, number, search), within(app.client.storage_statistics()));
    let ((files, total), statistics) = (found?, statistics?);
    let pages = total.div_ceil(PAGE);
    if files.is_empty() && (1..number).contains(&pages) {
        // The last file of the last page was deleted.
        return Ok(Redirect::to(&place(folder, pages, search)).into_response());
    }
    let done = ["stored", "deleted"].map(|word| (word, parsed::<u64>(query, word)));
    let body = html! {
        @for (word, count) in done {
            @if let Some(count) = count? { p.notice role="status" { (count) @if count == 1 { " file was " } @else { " files were " } (word) "." } }
        }
        div.heading {
            h1 { "Files" }
            p.muted { (statistics.total_files.unwrap_or_default()) " stored, " (size(statistics.total_size.unwrap_or_default().unsigned_abs())) " in all. Storage is billed." }
        }
        nav.tabs aria-label="Folders" {
            @for one in UploadFolder::ALL { a href={ "/files/" (one.as_str()) } aria-current=[(one.as_str() == folder).then_some("page")] { (titled(one.as_str())) } }
        }
        form.card.drop method="post" action={ "/files/" (segment(folder)) } enctype="multipart/form-data" {
            div.preview {}
            p { label for="files" { span.chosen { "Drop files here, or choose them" } } }
            input type="file" id="files" name="files" multiple required;
            button.primary type="submit" { "Upload" }
        }
        form.bar method="get" {
            input type="search" name="search" value=(search) aria-label="Part of a name" placeholder="Part of a name";
            button type="submit" { "Filter" }
        }
        @if !search.is_empty() { p.muted { (total) " of the " (MAX_SEARCHED) " latest files of this folder" } }
        @if files.is_empty() {
            div.empty { h2 { @if search.is_empty() { "No files here" } @else { "No file matches" } } p { "Files among the inputs of a run are stored under Samples." } }
        } @else {
            form method="post" action={ "/files/" (segment(folder)) "/delete" } {
                input type="hidden" name="page" value=(number);
                input type="hidden" name="search" value=(search);
                ul.cards.files { @for file in &files { li.card { (card(app, file)) } } }
                details { summary { "Delete the selected files" } p { "Nothing can bring back a deleted file. " button.danger type="submit" { "Delete" } } }
            }
        }
        (pager(pages, number, |one| place(folder, one, search)))
    };
    Ok(page("Files", "/files", body))
}

fn card(app: &App, file: &StorageFile) -> Markup {
    let name = original_name(key(file));
    let mime = file.mime.as_deref().unwrap_or_default();
    let bytes = file.size.unwrap_or_default();
    let address = file.download_url.as_deref().map(|url| app.link_to(file, url));
    let is_shown = bytes <= MAX_THUMBNAIL && is_picture(mime);
    html! {
        div.thumbnail {
            @if let Some(address) = address.as_deref().filter(|_| is_shown) { img src={ (address) "?small" } alt="" loading="lazy"; } @else { span.muted { (mime) } }
        }
        h2 title=(key(file)) { (name) }
        p.muted { (size(bytes.unsigned_abs())) " · " (when(file.created_at.as_ref())) @if file.is_expired == Some(true) { " · expired" } }
        @if let Some(address) = &address {
            @let id = address.trim_start_matches("/view/");
            div.foot {
                label { input type="checkbox" name={ (CHOSEN) (id) } aria-label={ "Select " (name) }; " Select" }
                @if is_picture(mime) { a href={ "/?use=" (id) } aria-label={ "Use " (name) " in a run" } { "Use" } }
                (save(address, &name))
            }
        }
    }
}

/// Uploads the files of a form one after the other, even if some fail.
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
    let Some((_, first)) = failed.first() else {
        return Ok(Redirect::to(&format!("{}&stored={}", place(folder, 1, ""), stored.len())).into_response());
    };
    let status = first.status;
    let body = html! {
        h1 { "Upload" }
        h2 { "Not stored" }
        @for (name, failure) in &failed { section { h3 { (name) } (failure) } }
        @if !stored.is_empty() { h2 { "Stored" } p { (stored.join(", ")) } }
        p { a.button href=(place(folder, 1, "")) { "Back to the files" } }
    };
    Ok((status, page("Error: upload", "/files", body)).into_response())
}

pub(crate) async fn sent_words(app: &App, request: Request) -> Words {
    let words = axum::Form::<Words>::from_request(request, app).await;
    words.map_or_else(|_| Words::new(), |axum::Form(words)| words)
}

pub(crate) async fn delete(app: &App, folder: &str, request: Request) -> Result<Response> {
    let words = sent_words(app, request).await;
    let (number, search) = chosen(&words)?;
    let ids = words.keys().filter_map(|word| word.strip_prefix(CHOSEN));
    let files: Vec<_> = ids.map(|id| app.linked(id)).collect::<Result<_>>()?;
    for url in &files {
        let deleted = within(app.client.delete_file(url)).await;
        // Also after a lost response.
        app.forget_downloads();
        deleted?;
    }
    Ok(Redirect::to(&format!("{}&deleted={}", place(folder, number, search), files.len())).into_response())
}
