//! Stored files over HTTP: presign, list, count, delete.
//!
//! A key sees the storage of its own account. With `org_username`, a member uploads into an organization's storage.
//! Only the organization's key lists and counts these files; its key and the member's key can delete them.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use serde::{Deserialize, Serialize};

use super::{
    ApiJson, ApiPath, ApiQuery, Caller, Done, Failure, Success, Whole, beginning, page_size, place, present,
    whole,
};
use crate::accounts::{Account, AccountState, Scope};
use crate::lifecycle::app::App;
use crate::object_storage::{FOLDERS, MAX_FILE, MAX_KEY, StoredFile, Target, TargetsOf, Usage};

/// `Retry-After` in seconds for a caller with too many unused upload targets.
const UNUSED_RETRY: u64 = 60;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api-key/storage/upload/create-presigned-url", post(presign))
        .route("/api-key/storage/upload/statistics", get(statistics))
        .route("/api-key/storage/upload/{folder}", get(list))
        .route("/api-key/storage/store/url", delete(remove))
}

#[derive(Deserialize)]
struct PresignBody {
    folder: String,
    mime: String,
    name: String,
    size: Whole,
    #[serde(default, deserialize_with = "present")]
    org_username: Option<String>,
}

#[derive(Serialize)]
struct PresignedUpload {
    endpoint: String,
    download_url: String,
    fields: String,
}

async fn presign(Caller { app, account, .. }: Caller, body: ApiJson<PresignBody>) -> Done<PresignedUpload> {
    let PresignBody { folder, mime, name, size, org_username } = body.value;
    if !FOLDERS.contains(&folder.as_str()) {
        return Err(Failure::unprocessable(format!("folder must be one of {}", FOLDERS.join(", "))));
    }
    let size = u64::try_from(size.0)
        .ok()
        .filter(|size| (1..=MAX_FILE).contains(size))
        .ok_or_else(|| Failure::unprocessable(format!("size must lie between 1 and {MAX_FILE} bytes")))?;
    if !is_mime(&mime) {
        return Err(Failure::unprocessable("mime must be a MIME type such as image/png"));
    }
    let key = format!("{folder}/{name}");
    check_name(&name, &key)?;
    let (payer, owner) = (account.id, owner(&app, account, org_username).await?);
    let spendable = app.database.purses(payer).await?.spendable();
    if !spendable.is_positive() {
        let message = format!("insufficient balance: {spendable} can be spent, and storing files needs more");
        return Err(Failure::insufficient_balance(message));
    }
    let now = app.clock.now();
    let target = Target {
        id: app.objects.target_id(&app.random, now)?,
        owner: owner.id,
        payer,
        bucket: owner.bucket,
        folder,
        key,
        mime,
        size,
        expires_at: now.after(app.config.target_life),
        is_void: false,
    };
    if target.is_of_member() && app.database.is_of_another_payer(&target.bucket, &target.key, payer).await? {
        let message =
            "the organization has a file of this name that another account has uploaded; choose another name";
        return Err(Failure::new(StatusCode::CONFLICT, message));
    }
    let presigned = app.objects.presign(&target, app.config.target_life)?;
    let max_unused = app.config.limits.account_targets;
    if !app.database.add_target(&target, max_unused).await? {
        if let Some(message) = app.database.storage_use(payer).await?.refusal(size) {
            return Err(Failure::new(StatusCode::FORBIDDEN, message));
        }
        let message = format!(
            "{max_unused} upload targets of this account are unused; upload to them, or wait until they are forgotten, \
             an hour after they expire"
        );
        return Err(Failure::too_many(message, UNUSED_RETRY));
    }
    Ok(Success::data(PresignedUpload {
        endpoint: presigned.endpoint,
        download_url: app.objects.locations.url(&target.bucket, &target.key),
        fields: presigned.fields,
    }))
}

/// Returns the account that will own the file: the caller, or an organization whose member the caller is.
async fn owner(app: &App, account: Account, org_username: Option<String>) -> Result<Account, Failure> {
    let (Scope::Personal, Some(name)) = (account.scope, org_username) else { return Ok(account) };
    // The same message whether the organization does not exist or the caller is no member.
    let refused = || {
        let message = format!("you are not a member of an organization {:?}", beginning(&name));
        Failure::new(StatusCode::FORBIDDEN, message)
    };
    let organization = app.database.account(&name).await?.ok_or_else(refused)?;
    let is_member = organization.scope == Scope::Organization
        && app.database.is_member(organization.id, account.id).await?;
    if !is_member {
        return Err(refused());
    }
    if organization.state != AccountState::Active {
        let message =
            format!("the organization {:?} takes no files: it is suspended or closed", beginning(&name));
        return Err(Failure::new(StatusCode::FORBIDDEN, message));
    }
    Ok(organization)
}

fn check_name(name: &str, key: &str) -> Result<(), Failure> {
    let fault = if name.is_empty() {
        "name must not be empty".to_owned()
    } else if matches!(name, "." | "..") || name.contains('/') || name.chars().any(char::is_control) {
        "name must be a file name, without a slash and without control characters".to_owned()
    } else if key.len() > MAX_KEY {
        format!("name is too long: with its folder it may have {MAX_KEY} bytes, and it has {}", key.len())
    } else {
        return Ok(());
    };
    Err(Failure::unprocessable(fault))
}

/// Returns true for a MIME type, with or without parameters, that headers and forms transmit unchanged. A comma is
/// allowed in quotes only: browsers split the value at commas and take the last type.
pub(crate) fn is_mime(text: &str) -> bool {
    let token = |text: &str| {
        let special = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || special(byte))
    };
    let (essence, mut parameters) = text.split_at(text.find(';').unwrap_or(text.len()));
    let is_type = essence.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype));
    while let Some(parameter) = parameters.strip_prefix(';') {
        let parameter = parameter.strip_prefix(' ').unwrap_or(parameter);
        let Some((name, value)) = parameter.split_once('=') else { return false };
        let (is_value, rest) = match quoted_length(value) {
            Some(length) => (true, &value[length..]),
            None => {
                let (value, rest) = value.split_at(value.find(';').unwrap_or(value.len()));
                (token(value), rest)
            }
        };
        if !token(name) || !is_value {
            return false;
        }
        parameters = rest;
    }
    // Signing a header folds white space, so only single spaces are allowed.
    text.len() <= 255 && is_type && parameters.is_empty() && !text.contains("  ")
}

/// Returns the length of the quoted string of printable ASCII at the start of a text; None if there is none.
fn quoted_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.strip_prefix('"')?.find(|letter: char| {
        let is_end = !is_escaped && letter == '"' || !(' '..='~').contains(&letter);
        is_escaped = !is_escaped && letter == '\\';
        is_end
    })?;
    text[1 + end..].starts_with('"').then_some(end + 2)
}

const CATEGORIES: [&str; 5] = ["image", "audio", "video", "application", "text"];

#[derive(Deserialize)]
struct ListQuery {
    #[serde(default, deserialize_with = "whole")]
    page: Option<Whole>,
    #[serde(default, deserialize_with = "whole", rename = "pageSize", alias = "page_size")]
    page_size: Option<Whole>,
    #[serde(rename = "type")]
    category: Option<String>,
}

#[derive(Serialize)]
struct FileRecord {
    #[serde(flatten)]
    file: StoredFile,
    download_url: String,
    /// Always true: the listing contains complete files only.
    status: bool,
    /// Always false: files do not expire.
    is_expired: bool,
}

#[derive(Serialize)]
struct FilePage {
    files: Vec<FileRecord>,
    total: u64,
    total_pages: u64,
}

async fn list(
    Caller { app, account, .. }: Caller,
    ApiPath(folder): ApiPath,
    ApiQuery(query): ApiQuery<ListQuery>,
) -> Done<FilePage> {
    let page = place("page", query.page, 1)?;
    let size = page_size("pageSize", query.page_size, 10, app.config.limits.files_page)?;
    if query.category.as_deref().is_some_and(|category| !CATEGORIES.contains(&category)) {
        return Err(Failure::unprocessable(format!("type must be one of {}", CATEGORIES.join(", "))));
    }
    app.objects.reconcile(&app, TargetsOf::Folder(account.id, &folder)).await?;
    let (files, total) =
        app.database.files(account.id, &folder, query.category.as_deref(), page, size).await?;
    let record = |file: StoredFile| FileRecord {
        download_url: app.objects.locations.url(&file.bucket, &file.key),
        file,
        status: true,
        is_expired: false,
    };
    Ok(Success::data(FilePage {
        files: files.into_iter().map(record).collect(),
        total,
        total_pages: total.div_ceil(u64::from(size)),
    }))
}

async fn statistics(Caller { app, account, .. }: Caller) -> Done<Usage> {
    app.objects.reconcile(&app, TargetsOf::Owner(account.id)).await?;
    Ok(Success::data(app.database.usage(account.id).await?))
}

#[derive(Deserialize)]
struct DeleteBody {
    url: String,
}

async fn remove(Caller { app, account, .. }: Caller, body: ApiJson<DeleteBody>) -> Done {
    let url = body.value.url;
    match app.objects.delete_file(&app, Some(account.id), &url).await? {
        true => Ok(Success::done("deleted")),
        false => Err(Failure::not_found("file", &url)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_mime_type_are_refused() {
        for mime in [
            "image/png",
            "text/plain; charset=utf-8",
            "text/plain;charset=utf-8",
            "a/b;c=\"d e\"",
            "video/mp4; codecs=\"avc1.42E01E, mp4a.40.2\"; x=y",
            "a/b;c=\"d;e\"",
            "image/png; a=\"b\\\"c\"",
        ] {
            assert!(is_mime(mime), "{mime}");
        }
        for text in [
            "",
            "image",
            "image/",
            "/png",
            "image/*/x",
            "a b/c",
            "a/b;",
            "a/b;c",
            "a/b;c=",
            "a/b;  c=d",
            "a/b\n",
            "a/ü",
            "a/b;c=\"ü\"",
            "a/b;c=\"d",
            "a/b;c=\"d\"e",
            // Browsers take the last type of a list.
            "image/png, text/html",
            "image/png;a=b, text/html",
            "image/png;a=b,text/html",
            "image/png;a=\"b\", text/html",
            "image/png;a=\"b\\\", text/html",
            "image/png;a=\"b\\\\\", text/html",
        ] {
            assert!(!is_mime(text), "{text}");
        }
    }
}
