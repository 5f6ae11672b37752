//! Files among the inputs of a run: uploaded concurrently, the same content once, and replaced by
//! their URLs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use inferstore_api::types::UploadFolder;

use crate::files::mime;
use crate::files::source::Prepared;
use crate::files::upload::upload;
use crate::inputs::Input;
use crate::memory::{UPLOAD_TTL, UploadKey};
use crate::run::RunEvent;
use crate::transport::Core;
use crate::transport::deadline::Deadline;
use crate::transport::error::{Error, Result};
use crate::transport::events::Sink;

/// A file among the inputs, ready to be uploaded.
pub(crate) struct InputFile {
    pub(crate) field: String,
    prepared: Prepared,
}

impl InputFile {
    /// The MIME type, if it is known.
    pub(crate) fn known_mime(&self) -> Option<&str> {
        Some(self.prepared.mime.as_str()).filter(|mime| mime::is_known(mime))
    }
}

/// Prepares all files among the inputs, so that a missing one fails the run before anything is sent.
pub(crate) async fn prepare(fields: &BTreeMap<String, Input>) -> Result<Vec<InputFile>> {
    let mut files = Vec::new();
    for (field, input) in fields {
        if let Input::File(file) = input {
            let prepared = file.prepare().await.map_err(|error| error.in_field(field))?;
            files.push(InputFile { field: field.clone(), prepared: prepared.with_unique_name() });
        }
    }
    Ok(files)
}

/// The uploads of one run.
pub(crate) struct InputUploads<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) folder: UploadFolder,
    pub(crate) org_username: Option<String>,
    /// Whether the uploads of other runs are reused, and these by them.
    pub(crate) is_shared: bool,
    pub(crate) deadline: Deadline,
    pub(crate) sink: Sink<RunEvent>,
}

impl InputUploads<'_> {
    /// The URL for each field, once all files are stored.
    pub(crate) async fn urls(&self, files: Vec<InputFile>) -> Result<BTreeMap<String, String>> {
        let mut contents: HashMap<UploadKey, Vec<InputFile>> = HashMap::new();
        for file in files {
            contents.entry(self.key(&file)).or_default().push(file);
        }
        let uploads = contents.into_iter().map(|(key, same)| async move {
            let Some(first) = same.first() else { return Ok(Vec::new()) };
            let url = self.url(key, first).await?;
            Ok::<_, Error>(same.into_iter().map(|file| (file.field, url.clone())).collect())
        });
        let concurrency = self.core.max_concurrent_uploads.max(1);
        let urls: Vec<Vec<_>> = stream::iter(uploads).buffer_unordered(concurrency).try_collect().await?;
        Ok(urls.into_iter().flatten().collect())
    }

    fn key(&self, file: &InputFile) -> UploadKey {
        UploadKey {
            folder: self.folder,
            organization: self.org_username.clone(),
            mime: file.prepared.mime.clone(),
            content: file.prepared.content_id,
        }
    }

    /// The URL of the content, perhaps of an earlier run.
    async fn url(&self, key: UploadKey, file: &InputFile) -> Result<String> {
        let cache = &self.core.memory.uploads;
        if self.is_shared
            && let Some(url) = cache.get(&key, UPLOAD_TTL)
        {
            return Ok(url);
        }
        let field = file.field.clone();
        let events = Arc::clone(&self.sink);
        let sink = Arc::new(move |event| events(RunEvent::Upload { field: field.clone(), event }));
        let upload =
            upload(self.core, self.folder, &file.prepared, self.org_username.clone(), self.deadline, sink);
        let url = upload.await.map_err(|error| error.in_field(&file.field))?.download_url;
        if self.is_shared {
            cache.insert(key, url.clone());
        }
        Ok(url)
    }
}
