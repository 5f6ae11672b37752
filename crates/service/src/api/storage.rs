//! Stored files over HTTP. A key sees the storage of its own account. With `org_username`, a member uploads into an
//! organization's storage, whose key alone lists and counts these files; that key and the member's can delete them.

use crate::http::mime::is_mime;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use serde::{Deserialize, Serialize};

use super::Api;
use super::Caller;
use crate::accounts::{Account, AccountState, Scope};
use crate::files::{FOLDERS, MAX_FILE, MAX_KEY, StoredFile, Target, TargetsOf, Usage};
use crate::http::request::{ApiJson, ApiPath, ApiQuery, Whole, page_size, position, present, whole};
use crate::http::response::{Done, Failure, Success, beginning};
use crate::ledger::{Money, UNIT};
use crate::policies;

/// `Retry-After` in seconds for a caller with too many unused upload targets.
const UNUSED_RETRY: u64 = 60;

pub(crate) fn routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/api-key/storage/upload/create-presigned-url", post(presign))
        .route("/api-key/storage/upload/statistics", get(statistics))
        .route("/api-key/storage/upload/{folder}", get(list))
        .route("/api-key/storage/store/url", delete(remove))
        .route("/api-key/storage/price", get(price))
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

async fn presign(Caller { api, account, .. }: Caller, body: ApiJson<PresignBody>) -> Done<PresignedUpload> {
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
    let (payer, owner) = (account.id, owner(&api, account, org_username).await?);
    let spendable = api.database.purses(payer).await?.spendable();
    if !spendable.is_positive() {
        let message = format!("insufficient balance: {spendable} can be spent, and storing files needs more");
        return Err(Failure::insufficient_balance(message));
    }
    let now = api.clock.now();
    let target = Target {
        id: api.objects.target_id(now)?,
        owner: owner.id,
        payer,
        bucket: owner.bucket,
        folder,
        key,
        mime,
        size,
        expires_at: now.after(api.objects.target_life),
        is_void: false,
    };
    if target.is_of_member() && api.database.is_of_another_payer(&target.bucket, &target.key, payer).await? {
        let message =
            "the organization has a file of this name that another account has uploaded; choose another name";
        return Err(Failure::new(StatusCode::CONFLICT, message));
    }
    let presigned = api.objects.presign(&target)?;
    let max_unused = api.limits.account_targets;
    if !api.database.add_target(&target, max_unused).await? {
        if let Some(message) = api.database.storage_use(payer).await?.refusal(size) {
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
        download_url: api.objects.locations.url(&target.bucket, &target.key),
        fields: presigned.fields,
    }))
}

async fn owner(api: &Api, account: Account, org_username: Option<String>) -> Result<Account, Failure> {
    let (Scope::Personal, Some(name)) = (account.scope, org_username) else { return Ok(account) };
    let refused = || {
        let message = format!("you are not a member of an organization {:?}", beginning(&name));
        Failure::new(StatusCode::FORBIDDEN, message)
    };
    let organization = api.database.account(&name).await?.ok_or_else(refused)?;
    let is_member = organization.scope == Scope::Organization
        && api.database.is_member(organization.id, account.id).await?;
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
    Caller { api, account, .. }: Caller,
    ApiPath(folder): ApiPath,
    ApiQuery(query): ApiQuery<ListQuery>,
) -> Done<FilePage> {
    let page = position("page", query.page, 1)?;
    let size = page_size("pageSize", query.page_size, 10, api.limits.files_page)?;
    if query.category.as_deref().is_some_and(|category| !CATEGORIES.contains(&category)) {
        return Err(Failure::unprocessable(format!("type must be one of {}", CATEGORIES.join(", "))));
    }
    api.objects.reconcile(TargetsOf::Folder(account.id, &folder)).await?;
    let (files, total) =
        api.database.files(account.id, &folder, query.category.as_deref(), page, size).await?;
    let record = |file: StoredFile| FileRecord {
        download_url: api.objects.locations.url(&file.bucket, &file.key),
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

async fn statistics(Caller { api, account, .. }: Caller) -> Done<Usage> {
    api.objects.reconcile(TargetsOf::Owner(account.id)).await?;
    Ok(Success::data(api.database.usage(account.id).await?))
}

#[derive(Serialize)]
struct StoragePrice {
    per_gib_day: Money,
    unit: &'static str,
}

async fn price(Caller { api, .. }: Caller) -> Done<StoragePrice> {
    let per_gib_day = policies::storage_price_per_gib_day(&*api.database).await?;
    Ok(Success::data(StoragePrice { per_gib_day, unit: UNIT }))
}

#[derive(Deserialize)]
struct DeleteBody {
    url: String,
}

async fn remove(Caller { api, account, .. }: Caller, body: ApiJson<DeleteBody>) -> Done {
    let url = body.value.url;
    match api.objects.delete_file(Some(account.id), &url).await? {
        true => Ok(Success::done("deleted")),
        false => Err(Failure::not_found("file", &url)),
    }
}
