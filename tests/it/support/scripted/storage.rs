//! The stored files and the targets of uploads, and what the API tells about them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answer::Answer;
use super::clock::Stamp;
use super::content::{Content, Fingerprint};
use super::object_storage::Upload;
use super::uri;

/// Stands in every signature and every policy, so that a test can look for leaked ones.
pub(crate) const PRESIGNED_SECRET: &str = "feedc0dea1b2";

/// Up to this size a form is expected, above it a `PUT`.
const MAX_FORM: u64 = 5_242_880;
const MAX_SIZE: u64 = 104_857_600;
const FOLDERS: [&str; 5] = ["avatars", "thumbnails", "covers", "samples", "documents"];

pub(super) struct Storage {
    origin: String,
    pub(super) files: Vec<StoredFile>,
    pub(super) targets: Vec<Target>,
    pub(super) uploads: Vec<Upload>,
    /// How many of the next targets are issued after their time.
    pub(super) expired_ahead: usize,
    /// How much of an uploaded file is kept.
    pub(super) kept: usize,
}

pub(super) struct StoredFile {
    pub(super) key: String,
    pub(super) mime: String,
    pub(super) size: u64,
    pub(super) fingerprint: Fingerprint,
    /// None when it was too much to keep.
    pub(super) content: Option<Content>,
    created_at: String,
    is_listed: bool,
}

/// What step 1 of an upload promised.
pub(super) struct Target {
    pub(super) key: String,
    pub(super) mime: String,
    pub(super) size: u64,
    pub(super) signature: String,
    /// What a form has to bring along; none for a `PUT`.
    pub(super) form: Option<BTreeMap<String, String>>,
    pub(super) is_expired: bool,
}

impl Storage {
    pub(super) fn new(origin: String) -> Self {
        Self {
            origin,
            files: Vec::new(),
            targets: Vec::new(),
            uploads: Vec::new(),
            expired_ahead: 0,
            kept: usize::MAX,
        }
    }

    pub(super) fn url(&self, key: &str) -> String {
        format!("{}/bucket/{}", self.origin, uri::encoded(key))
    }

    pub(super) fn presign(&mut self, body: &[u8], now: Stamp) -> Answer {
        let Ok(declared) = serde_json::from_slice::<Value>(body) else {
            return Answer::failure(400, "the body is not JSON");
        };
        let text = |name| declared[name].as_str().filter(|text: &&str| !text.is_empty());
        let (Some(folder), Some(mime), Some(name)) = (text("folder"), text("mime"), text("name")) else {
            return Answer::failure(400, "folder, mime and name are required");
        };
        if !FOLDERS.contains(&folder) {
            return Answer::failure(400, "there is no such folder");
        }
        let Some(size @ 1..=MAX_SIZE) = declared["size"].as_u64() else {
            return Answer::failure(400, "size must be from 1 to 104857600 bytes");
        };
        let target = self.new_target(format!("{folder}/{name}"), mime, size, now);
        let (endpoint, fields) = match &target.form {
            Some(form) => (format!("{}/bucket/", self.origin), json!(form)),
            None => (self.signed_url(&target), json!({"Content-Type": mime})),
        };
        let download_url = self.url(&target.key);
        self.targets.push(target);
        let fields = fields.to_string();
        Answer::success(&json!({"endpoint": endpoint, "download_url": download_url, "fields": fields}))
    }

    fn new_target(&mut self, key: String, mime: &str, size: u64, now: Stamp) -> Target {
        let number = self.targets.len();
        let signature = format!("{PRESIGNED_SECRET}{}", Fingerprint::of(&number.to_be_bytes()));
        let is_expired = self.expired_ahead > 0;
        self.expired_ahead = self.expired_ahead.saturating_sub(1);
        let form = (size <= MAX_FORM).then(|| {
            let fields = [
                ("key", key.as_str()),
                ("Content-Type", mime),
                ("policy", &format!("cG9saWN5{PRESIGNED_SECRET}{number}")),
                ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
                ("x-amz-credential", "SCRIPTED/us-east-1/s3/aws4_request"),
                ("x-amz-date", &now.iso()),
                ("x-amz-signature", &signature),
            ];
            fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
        });
        Target { key, mime: mime.to_owned(), size, signature, form, is_expired }
    }

    fn signed_url(&self, target: &Target) -> String {
        let (url, signature) = (self.url(&target.key), &target.signature);
        format!(
            "{url}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=SCRIPTED&X-Amz-Expires=3600\
             &X-Amz-SignedHeaders=content-length%3Bcontent-type%3Bhost&X-Amz-Signature={signature}"
        )
    }

    /// Stores a file in place of one with the same key.
    pub(super) fn put(
        &mut self,
        key: &str,
        mime: &str,
        (size, fingerprint): (u64, Fingerprint),
        content: Option<Content>,
        now: Stamp,
    ) {
        self.files.retain(|file| file.key != key);
        self.files.push(StoredFile {
            key: key.to_owned(),
            mime: mime.to_owned(),
            size,
            fingerprint,
            content,
            created_at: now.iso(),
            is_listed: true,
        });
    }

    /// Stores a file that can be downloaded but was never uploaded. Returns its URL.
    pub(super) fn put_unlisted(&mut self, key: &str, mime: &str, content: impl Into<Content>) -> String {
        let content = content.into();
        self.files.push(StoredFile {
            key: key.to_owned(),
            mime: mime.to_owned(),
            size: content.length(),
            fingerprint: content.fingerprint(),
            content: Some(content),
            created_at: String::new(),
            is_listed: false,
        });
        self.url(key)
    }

    fn listed(&self) -> impl Iterator<Item = &StoredFile> {
        self.files.iter().filter(|file| file.is_listed)
    }

    pub(super) fn page(&self, folder: &str, query: &str) -> Answer {
        let number = |name| uri::query_value(query, name).map(|text| text.parse::<usize>().unwrap_or(0));
        let page = number("page").unwrap_or(1);
        let page_size = number("pageSize").or_else(|| number("page_size")).unwrap_or(10);
        if page == 0 || page_size == 0 {
            return Answer::failure(400, "page and pageSize must be at least 1");
        }
        let category = uri::query_value(query, "type").map(|category| format!("{category}/"));
        let files: Vec<&StoredFile> = self
            .listed()
            .filter(|file| file.folder() == folder)
            .filter(|file| category.as_ref().is_none_or(|category| file.mime.starts_with(category)))
            .collect();
        let shown = files.iter().skip((page - 1) * page_size).take(page_size);
        let shown: Vec<Value> = shown.map(|file| self.record(file)).collect();
        let (total, total_pages) = (files.len(), files.len().div_ceil(page_size));
        Answer::success(&json!({"files": shown, "total": total, "total_pages": total_pages}))
    }

    fn record(&self, file: &StoredFile) -> Value {
        json!({
            "id": format!("file-{}", Fingerprint::of(file.key.as_bytes())),
            "download_url": self.url(&file.key),
            "folder": file.folder(),
            "key": file.key,
            "mime": file.mime,
            "size": file.size,
            "status": true,
            "is_expired": false,
            "created_at": file.created_at,
        })
    }

    pub(super) fn statistics(&self) -> Answer {
        let size: u64 = self.listed().map(|file| file.size).sum();
        Answer::success(&json!({"total_files": self.listed().count(), "total_size": size}))
    }

    pub(super) fn delete(&mut self, body: &[u8]) -> Answer {
        let named: Value = serde_json::from_slice(body).unwrap_or_default();
        let found = self.files.iter().position(|file| named["url"] == self.url(&file.key));
        let Some(index) = found else { return Answer::failure(404, "there is no such file") };
        self.files.remove(index);
        Answer::done("file deleted")
    }
}

impl StoredFile {
    fn folder(&self) -> &str {
        self.key.split('/').next().unwrap_or_default()
    }
}
