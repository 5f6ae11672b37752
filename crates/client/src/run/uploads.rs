//! Files among the inputs of a run: uploaded side by side, the same content once, and replaced by
//! their URLs. What was uploaded once is not uploaded again for a second attempt.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use inferstore_api::types::UploadFolder;

use crate::client::Client;
use crate::files::mime;
use crate::files::source::{Fingerprint, Opened};
use crate::files::upload::{self, UploadOptions};
use crate::inputs::Input;
use crate::run::event::{OnEvent, RunEvent};
use crate::run::run::RunOptions;
use crate::transport::deadline::Deadline;
use crate::transport::error::{Error, Result};

/// How many uploads are remembered.
const REMEMBERED: usize = 1_000;

/// What one content was uploaded as. The folder and the organization decide who can see it.
type Key = (UploadFolder, Option<String>, Fingerprint);

/// The files that this client has uploaded for runs, with their URLs.
#[derive(Debug, Default)]
pub(crate) struct UploadedFiles(Mutex<HashMap<Key, String>>);

impl UploadedFiles {
    fn get(&self, key: &Key) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: Key, url: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            // An upload that is forgotten is made again; which one does not matter.
            known.clear();
        }
        known.insert(key, url);
    }

    /// Forgets uploads that a run failed with: perhaps the files are no longer there.
    pub(crate) fn forget(&self, urls: &[String]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, url| !urls.contains(url));
    }
}

/// A file among the inputs, opened.
pub(crate) struct InputFile {
    pub(crate) field: String,
    opened: Opened,
}

impl InputFile {
    /// The MIME type, if anybody can tell.
    pub(crate) fn known_mime(&self) -> Option<&str> {
        Some(self.opened.mime()).filter(|mime| mime::is_known(mime))
    }
}

/// Opens all files among the inputs, so that a missing one is told before anything is sent.
pub(crate) async fn open(fields: &BTreeMap<String, Input>) -> Result<Vec<InputFile>> {
    let mut files = Vec::new();
    for (field, input) in fields {
        if let Input::File(file) = input {
            let opened = file.open().await.map_err(|error| named(error, field))?;
            files.push(InputFile { field: field.clone(), opened: opened.under_a_name_of_its_own() });
        }
    }
    Ok(files)
}

/// The uploads of one run.
pub(crate) struct Uploads<'a> {
    client: &'a Client,
    options: &'a RunOptions,
    deadline: Deadline,
    /// Shared by the uploads that go side by side.
    on_event: Mutex<OnEvent<'a>>,
}

impl<'a> Uploads<'a> {
    pub(crate) fn new(
        client: &'a Client,
        options: &'a RunOptions,
        deadline: Deadline,
        on_event: OnEvent<'a>,
    ) -> Self {
        Self { client, options, deadline, on_event: Mutex::new(on_event) }
    }

    /// The URL for each field, once all files are stored.
    pub(crate) async fn urls(&self, files: Vec<InputFile>) -> Result<BTreeMap<String, String>> {
        let mut contents: HashMap<Fingerprint, Vec<InputFile>> = HashMap::new();
        for file in files {
            contents.entry(file.opened.fingerprint().clone()).or_default().push(file);
        }
        let uploads = contents.into_values().map(|same| async move {
            let Some(one) = same.first() else { return Ok(Vec::new()) };
            let url = self.url(one).await.map_err(|error| named(error, &one.field))?;
            Ok::<_, Error>(same.into_iter().map(|file| (file.field, url.clone())).collect())
        });
        let side_by_side = self.client.inner.settings.max_concurrent_uploads.max(1);
        let urls: Vec<Vec<_>> = stream::iter(uploads).buffer_unordered(side_by_side).try_collect().await?;
        Ok(urls.into_iter().flatten().collect())
    }

    /// Where the content of the file is stored, perhaps since an earlier run.
    async fn url(&self, file: &InputFile) -> Result<String> {
        let (client, options) = (&self.client.inner, self.options);
        let (folder, organization) = (options.upload_folder, options.org_username.clone());
        let key = (folder, organization.clone(), file.opened.fingerprint().clone());
        if let Some(url) = client.uploaded.get(&key) {
            return Ok(url);
        }
        let options = UploadOptions { org_username: organization, ..UploadOptions::default() };
        let mut on_upload = |event| {
            let mut on_event = self.on_event.lock().unwrap_or_else(PoisonError::into_inner);
            on_event(RunEvent::Upload { field: file.field.clone(), event });
        };
        let upload = upload::upload(client, folder, &file.opened, &options, self.deadline, &mut on_upload);
        let url = upload.await?.download_url;
        client.uploaded.put(key, url.clone());
        Ok(url)
    }
}

/// The error with the name of the field that the file was given for.
fn named(error: Error, field: &str) -> Error {
    match error {
        Error::File(mut file) => {
            file.field = Some(field.to_owned());
            Error::File(file)
        }
        other => other,
    }
}
