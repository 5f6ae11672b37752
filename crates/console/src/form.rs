//! Forms: values and files from a browser, bounded, as the inputs of a run.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use axum::http::StatusCode;
use inferstore::types::{Descriptor, DescriptorType};
use inferstore::{Error, File, Inputs, Sample, Violation};
use serde_json::{Map, Value};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;

use crate::cache::Kept;
use crate::failure::{Failure, Result};
use crate::files::MAX_FILE;
use crate::state::{App, random_id};
use crate::text::{text_of, titled};

const MAX_FORM: usize = 1024 * 1024 * 1024;
const MAX_PARTS: usize = 500;

/// Limit of all texts of a form: unlike files, they are in memory.
const MAX_TEXTS: usize = 1024 * 1024;

#[derive(Default)]
pub(crate) struct Form {
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) more: BTreeMap<String, String>,
    /// Files with their input names. The last file of an input counts.
    pub(crate) files: Vec<(String, Kept)>,
    kept: Vec<(String, Kept)>,
    /// Bytes of all texts, including dropped ones.
    text_bytes: usize,
    /// True for a form that was sent, or has the inputs of a run: an input without a value has no default then.
    pub(crate) is_filled: bool,
    pub(crate) errors: BTreeMap<String, String>,
    pub(crate) failure: Option<Failure>,
}

fn broken(error: MultipartError) -> Failure {
    Failure::new(error.status(), "The form is broken, or larger than 1 GiB", error.body_text())
}

impl Form {
    /// Reads a form: `in.NAME` is a value or a file, `kept.NAME` a file of an earlier request, `url.NAME` the
    /// URL of a file. `remove` names the input whose file is removed.
    pub(crate) async fn read(app: &App, mut request: Request) -> Result<Self> {
        DefaultBodyLimit::max(MAX_FORM).apply(&mut request);
        let mut parts = Multipart::from_request(request, app).await.map_err(|error| {
            let text = "It was not sent as multipart/form-data.";
            let failure = Failure::new(error.status(), "The form is broken", text);
            failure.with_hint("open the page again, and send its form")
        })?;
        let mut form = Self { is_filled: true, ..Self::default() };
        for _ in 0..=MAX_PARTS {
            match parts.next_field().await.map_err(broken)? {
                Some(part) => form.take(app, part).await?,
                None => {
                    form.choose_files();
                    return Ok(form);
                }
            }
        }
        let text = "It takes 500 files and fields. Nothing was stored.";
        Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "The form is too large", text))
    }

    pub(crate) fn from_task(inputs: &Map<String, Value>) -> Self {
        let values = inputs.iter().map(|(name, value)| (name.clone(), text_of(value)));
        Self { values: values.collect(), is_filled: true, ..Self::default() }
    }

    /// Chooses one source for every file: the new file, else the URL, else the kept file. A new file with a URL is
    /// refused at first: which of them is meant is unknown.
    fn choose_files(&mut self) {
        for (name, _) in &self.files {
            if self.values.remove(name).is_some() {
                let text = "a file and a URL were given: Run uses the file, unless you remove it";
                self.errors.insert(name.clone(), text.to_owned());
            }
        }
        let kept = std::mem::take(&mut self.kept).into_iter();
        let kept = kept.filter(|(name, _)| !self.values.contains_key(name) && self.file(name).is_none());
        self.files.extend(kept.collect::<Vec<_>>());
        if let Some(removed) = self.more.get("remove") {
            self.files.retain(|(name, _)| name != removed);
        }
    }

    async fn take(&mut self, app: &App, mut part: Field<'_>) -> Result<()> {
        let field = part.name().unwrap_or_default().to_owned();
        let (kind, name) = field.split_once('.').unwrap_or(("", &field));
        let name = name.to_owned();
        // Some browsers send a path, and all write a quotation mark as %22.
        let file_name = part.file_name().and_then(|name| name.rsplit(['/', '\\']).next());
        let file_name = file_name.map(|name| name.replace("%22", "\""));
        let Some(file_name) = file_name else {
            let mut text = Vec::new();
            while let Some(chunk) = part.chunk().await.map_err(broken)? {
                self.text_bytes += chunk.len();
                if self.text_bytes <= MAX_TEXTS {
                    text.extend(chunk);
                }
            }
            if self.text_bytes > MAX_TEXTS {
                self.errors.insert(name, "the texts of a form have at most 1 MiB together".to_owned());
                return Ok(());
            }
            // A browser sends every line break as CRLF.
            let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
            if kind.is_empty() {
                self.more.insert(name, text);
            } else if let Some(kept) = app.kept.get(&text).filter(|_| kind == "kept") {
                self.kept.push((name, kept));
            } else if kind != "kept" && !text.trim().is_empty() {
                self.values.insert(name, text);
            }
            return Ok(());
        };
        let (file, path) = NamedTempFile::new_in(&app.folder)?.into_parts();
        let mut file = tokio::fs::File::from_std(file);
        let mut size = 0;
        let mut digest = app.hasher.build_hasher();
        // Read a too large file to its end: a browser shows no response before that.
        while let Some(chunk) = part.chunk().await.map_err(broken)? {
            size += chunk.len() as u64;
            if size <= MAX_FILE {
                digest.write(&chunk);
                file.write_all(&chunk).await?;
            }
        }
        file.flush().await?;
        if size > MAX_FILE {
            self.errors.insert(name, "the storage takes files of at most 100 MiB".to_owned());
        } else if !file_name.is_empty() {
            let mime = mime_guess::from_path(&file_name).first_or_octet_stream().to_string();
            let id = random_id()?;
            let path = Arc::new(path);
            let digest = digest.finish();
            let kept = Kept { id, name: file_name, size, digest, mime, path, expires: None };
            app.store(&kept);
            self.files.push((name, kept));
        }
        Ok(())
    }

    pub(crate) fn file(&self, name: &str) -> Option<&Kept> {
        self.files.iter().rfind(|(own, _)| own == name).map(|(_, kept)| kept)
    }

    /// Returns the inputs of the run. Numbers stay as typed; the client parses them.
    pub(crate) fn inputs(&self, declared: &BTreeMap<String, Descriptor>) -> Inputs {
        let mut inputs = Inputs::new();
        for (name, descriptor) in declared {
            if let Some(kept) = self.file(name) {
                inputs = inputs.file(name, File::path(&**kept.path).named(&kept.name));
            } else if let Some(text) = self.values.get(name) {
                let parsed = match descriptor.type_ {
                    Some(DescriptorType::Other(_)) | None => serde_json::from_str(text).ok(),
                    _ => None,
                };
                inputs = inputs.set(name, parsed.unwrap_or_else(|| Value::from(text.as_str())));
            }
        }
        inputs
    }

    pub(crate) fn refuse(&mut self, error: Error) {
        match error {
            Error::Inputs(invalid) => {
                for Violation { field, message, .. } in invalid.violations {
                    let message = message.trim_start_matches(&format!("{field}: ")).to_owned();
                    self.errors.entry(field).or_insert(message);
                }
            }
            Error::File(file) if file.field.is_some() => {
                self.errors.insert(file.field.unwrap_or_default(), file.message);
            }
            error => self.failure = Some(error.into()),
        }
    }
}

pub(crate) fn title_of(name: &str, descriptor: Option<&Descriptor>) -> String {
    let title = descriptor.and_then(|descriptor| descriptor.title.clone());
    title.filter(|title| !title.trim().is_empty()).unwrap_or_else(|| titled(name))
}

pub(crate) fn label_of(word: &str, descriptor: &Descriptor) -> String {
    let label = descriptor.labels.as_ref().and_then(|labels| labels.get(word));
    label.cloned().unwrap_or_else(|| titled(word))
}

/// Returns the initial value of a number or an option in the form. Samples of files and texts are only examples.
pub(crate) fn begin_of(descriptor: &Descriptor) -> &str {
    let sample = descriptor.samples.iter().flatten().next();
    descriptor.default.as_ref().or(sample).map(Sample::as_str).unwrap_or_default()
}
