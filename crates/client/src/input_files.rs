//! Files among the inputs of a run: uploaded side by side, the same content once, and replaced by
//! their URLs. What was uploaded once is not uploaded again for a second attempt.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use inferstore_api::types::UploadFolder;

use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::event::{OnEvent, RunEvent};
use crate::file::{Fingerprint, Opened};
use crate::inputs::Input;
use crate::mime;
use crate::run::RunOptions;
use crate::upload::{self, UploadOptions};

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
        Some(self.opened.mime()).filter(|mime| mime::is_telling(mime))
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

/// Uploads the files and returns the URL for each field.
pub(crate) async fn upload(
    client: &Client,
    options: &RunOptions,
    deadline: Deadline,
    files: Vec<InputFile>,
    on_event: OnEvent<'_>,
) -> Result<BTreeMap<String, String>> {
    let mut contents: HashMap<Fingerprint, Vec<InputFile>> = HashMap::new();
    for file in files {
        contents.entry(file.opened.fingerprint().clone()).or_default().push(file);
    }
    let on_event = &Mutex::new(on_event);
    let uploads = contents.into_iter().map(|(fingerprint, files)| async move {
        let key = (options.upload_folder, options.org_username.clone(), fingerprint);
        let url = match (client.inner.uploaded.get(&key), files.first()) {
            (Some(url), _) => url,
            (None, Some(first)) => {
                let url = upload_one(client, options, deadline, first, on_event).await?;
                client.inner.uploaded.put(key, url.clone());
                url
            }
            (None, None) => return Ok(Vec::new()),
        };
        Ok::<_, Error>(files.into_iter().map(|file| (file.field, url.clone())).collect())
    });
    let side_by_side = client.inner.settings.parallel_uploads.max(1);
    let urls: Vec<Vec<_>> = stream::iter(uploads).buffer_unordered(side_by_side).try_collect().await?;
    Ok(urls.into_iter().flatten().collect())
}

async fn upload_one(
    client: &Client,
    options: &RunOptions,
    deadline: Deadline,
    file: &InputFile,
    on_event: &Mutex<OnEvent<'_>>,
) -> Result<String> {
    let upload_options =
        UploadOptions { org_username: options.org_username.clone(), ..UploadOptions::default() };
    let mut on_upload = |event| {
        let mut on_event = on_event.lock().unwrap_or_else(PoisonError::into_inner);
        on_event(RunEvent::Upload { field: file.field.clone(), event });
    };
    let uploaded = upload::upload(
        &client.inner,
        options.upload_folder,
        &file.opened,
        &upload_options,
        deadline,
        &mut on_upload,
    )
    .await
    .map_err(|error| named(error, &file.field))?;
    Ok(uploaded.download_url)
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
