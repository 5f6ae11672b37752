//! Forms: what a browser sent, with files in temporary files of limited size, and as inputs of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use inferstore::types::{Descriptor, DescriptorType};
use inferstore::{Error, File, Inputs};
use multer::{Field, Multipart};
use serde_json::{Map, Value};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;

use crate::failure::{Failure, Result};
use crate::files::{FileName, MAX_FILE, Upload};
use crate::state::{App, random_id};

/// The limits of a whole form, of its parts, and of a text.
const MAX_FORM: u64 = 1024 * 1024 * 1024;
const MAX_PARTS: usize = 500;
const MAX_TEXT: usize = 1024 * 1024;

/// The field of the inputs of a model that declares none: a JSON object.
pub(crate) const RAW: &str = "raw";

/// What a browser sent.
#[derive(Default)]
pub(crate) struct Form {
    pub(crate) texts: BTreeMap<String, String>,
    /// Files with the names of their fields.
    pub(crate) files: Vec<(String, Upload)>,
    /// The fields whose file is larger than the storage takes.
    pub(crate) too_large: Vec<String>,
    received: u64,
}

/// Reads a form with files.
pub(crate) async fn read(app: &App, request: Request) -> Result<Form> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(broken)?;
    let mut parts = Multipart::new(request.into_body().into_data_stream(), boundary);
    let mut form = Form::default();
    let mut count = 0;
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        count += 1;
        if count > MAX_PARTS {
            return Err(too_large());
        }
        form.take(app, part).await?;
    }
    Ok(form)
}

fn broken(error: multer::Error) -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, "The form is broken", error.to_string())
}

fn too_large() -> Failure {
    let text = "A form takes 1 GiB, 500 fields, and 1 MiB of text in a field.";
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "The form is too large", text)
}

impl Form {
    async fn take(&mut self, app: &App, mut part: Field<'_>) -> Result<()> {
        let field = part.name().unwrap_or_default().to_owned();
        let Some(name) = part.file_name().map(base_name) else {
            let mut text = Vec::new();
            while let Some(chunk) = part.chunk().await.map_err(broken)? {
                text.extend_from_slice(&chunk);
                if text.len() > MAX_TEXT {
                    return Err(too_large());
                }
            }
            self.texts.insert(field, String::from_utf8_lossy(&text).into_owned());
            return Ok(());
        };
        let (file, path) = NamedTempFile::new_in(app.folder.path())?.into_parts();
        let mut file = tokio::fs::File::from_std(file);
        let mut size = 0;
        // A file that is too large is read to its end, because a browser shows no response before that.
        while let Some(chunk) = part.chunk().await.map_err(broken)? {
            size += chunk.len() as u64;
            self.received += chunk.len() as u64;
            if self.received > MAX_FORM {
                return Err(too_large());
            }
            if size <= MAX_FILE {
                file.write_all(&chunk).await?;
            }
        }
        file.flush().await?;
        if size > MAX_FILE {
            self.too_large.push(field);
        } else if !name.is_empty() {
            let file = FileName { id: random_id()?, name, size };
            let upload = Upload { file, path: Arc::new(path) };
            app.uploads.insert(upload.file.id.clone(), upload.clone(), size);
            self.files.push((field, upload));
        }
        Ok(())
    }
}

/// The name without folders, which some browsers send.
fn base_name(name: &str) -> String {
    name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}

/// What was filled in for a run, and what is wrong with it.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) files: BTreeMap<String, Upload>,
    pub(crate) errors: BTreeMap<String, String>,
    pub(crate) failure: Option<Failure>,
}

impl Given {
    /// From a form: `in.NAME` is a value or a file, `kept.NAME` a file that was sent before, `url.NAME` the URL
    /// of a file.
    pub(crate) fn from_form(app: &App, form: Form) -> Self {
        let mut given = Self::default();
        for field in form.too_large {
            let name = field.trim_start_matches("in.").to_owned();
            given.errors.insert(name, "the storage takes files of at most 100 MiB".to_owned());
        }
        for (field, text) in form.texts {
            if let Some(name) = field.strip_prefix("kept.")
                && let Some(upload) = app.uploads.get(&text)
            {
                given.files.insert(name.to_owned(), upload);
            } else if let Some(name) = field.strip_prefix("in.").or_else(|| field.strip_prefix("url."))
                && !text.trim().is_empty()
            {
                given.values.insert(name.to_owned(), text);
            }
        }
        for (field, upload) in form.files {
            given.files.insert(field.trim_start_matches("in.").to_owned(), upload);
        }
        given
    }

    /// From the inputs of a task, to run it again.
    pub(crate) fn from_task(inputs: &Map<String, Value>) -> Self {
        let values = inputs.iter().map(|(name, value)| (name.clone(), text_of(value)));
        Self { values: values.collect(), ..Self::default() }
    }

    /// The inputs of the run. Numbers are given as they were typed: the client reads them.
    pub(crate) fn inputs(&self, declared: &BTreeMap<String, Descriptor>) -> Result<Inputs, Error> {
        let mut inputs = Inputs::new();
        if declared.is_empty() {
            let raw = self.values.get(RAW).map_or("{}", String::as_str);
            let raw = serde_json::from_str::<Map<String, Value>>(raw);
            inputs =
                raw.map_err(|error| Error::InvalidArgument(format!("not a JSON object: {error}")))?.into();
        }
        for (name, descriptor) in declared {
            if let Some(upload) = self.files.get(name) {
                inputs = inputs.file(name, File::path(&**upload.path).named(&upload.file.name));
            } else if let Some(text) = self.values.get(name) {
                let parsed = match descriptor.type_ {
                    Some(DescriptorType::Other(_)) | None => serde_json::from_str(text).ok(),
                    _ => None,
                };
                inputs = inputs.set(name, parsed.unwrap_or_else(|| Value::from(text.as_str())));
            }
        }
        Ok(inputs)
    }

    /// Puts an error of the client beside the inputs that it is about.
    pub(crate) fn refuse(&mut self, error: &Error) {
        match error {
            Error::Inputs(invalid) => {
                for violation in &invalid.violations {
                    let message = violation.message.strip_prefix(&format!("{}: ", violation.field));
                    let message = message.unwrap_or(&violation.message).to_owned();
                    self.errors.insert(violation.field.clone(), message);
                }
            }
            Error::File(file) if file.field.is_some() => {
                let field = file.field.clone().unwrap_or_default();
                self.errors.insert(field, file.message.clone());
            }
            _ => self.failure = Some(Failure::of(error)),
        }
    }
}

/// A value as a person writes it.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
