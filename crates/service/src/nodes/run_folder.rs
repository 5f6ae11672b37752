//! Folder of a run, for its input and output files: no file is in the service's memory before its run begins.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::Path;

use inferstore_models::Output;
use serde_json::{Value, json};
use tokio::fs::File;
use tokio::io::{AsyncBufRead, AsyncSeekExt, AsyncWriteExt, BufReader};
use tokio_util::io::StreamReader;

use super::Nodes;
use super::inputs::{Source, TaskInputs, no_file, not_fetched};
use crate::catalog::{Format, Kind};
use crate::models::Failed;
use crate::object_storage::outlast_outage;
use crate::queue::Lease;
use crate::{Error, Result};

const MAX_OUTPUT: u64 = 512 << 20;
const TYPES: &[(&str, &str)] =
    &[("png", "image/png"), ("jpg", "image/jpeg"), ("webp", "image/webp"), ("gif", "image/gif")];

const COPY_BUFFER: usize = 1 << 20;

pub(super) type Outputs = Vec<(String, Output)>;

#[derive(Default)]
pub(super) struct LaidOut {
    pub(super) values: BTreeMap<String, Value>,
    pub(super) files: BTreeSet<String>,
    pub(super) bytes: u64,
}

pub(super) async fn lay_out(nodes: &Nodes, inputs: TaskInputs, folder: &Path) -> Result<LaidOut, Failed> {
    let mut laid_out = LaidOut::default();
    for (number, (name, source)) in inputs.0.into_iter().enumerate() {
        let path = folder.join(format!("input-{number}"));
        let (value, size) = match source {
            Source::Value(value) => (value, None),
            Source::Stored { bucket, key } => {
                let copied = outlast_outage(|| stored(nodes, &bucket, &key, &path)).await?;
                (json!(path), Some(copied.ok_or_else(|| no_file(&name))?))
            }
            Source::Sample(bytes) => (json!(path), Some(copy(&path, bytes).await?)),
            Source::Fetched(file) => (json!(path), Some(outlast_outage(|| fetched(&file, &path)).await?)),
            Source::Remote(_) => return Err(not_fetched()),
        };
        if let Some(size) = size {
            laid_out.bytes += size;
            laid_out.files.insert(name.clone());
        }
        laid_out.values.insert(name, value);
    }
    Ok(laid_out)
}

async fn stored(nodes: &Nodes, bucket: &str, key: &str, path: &Path) -> Result<Option<u64>> {
    let Some(opened) = nodes.objects.read(bucket, key).await? else { return Ok(None) };
    let size = opened.object.size;
    copy(path, StreamReader::new(opened.read(0..size))).await.map(Some)
}

async fn fetched(file: &File, path: &Path) -> Result<u64> {
    let mut file = file.try_clone().await.map_err(cannot_copy)?;
    file.rewind().await.map_err(cannot_copy)?;
    copy(path, BufReader::with_capacity(COPY_BUFFER, file)).await
}

async fn copy(path: &Path, mut from: impl AsyncBufRead + Unpin) -> Result<u64> {
    let mut file = File::create(path).await.map_err(cannot_copy)?;
    let copied = tokio::io::copy_buf(&mut from, &mut file).await.map_err(cannot_copy)?;
    file.flush().await.map_err(cannot_copy)?;
    Ok(copied)
}

fn cannot_copy(cause: io::Error) -> Error {
    let doing = "copying an input of a run";
    match cause.kind() {
        ErrorKind::ConnectionReset => Error::unavailable(doing, cause),
        _ => Error::keeping(doing, cause),
    }
}

/// Reads the outputs of a run. A malicious picture may control the worker, so links and other paths are refused.
pub(super) async fn collect(
    lease: &Lease,
    folder: &Path,
    values: BTreeMap<String, Value>,
) -> Result<Outputs, Failed> {
    let declared = Format::kept(&lease.output_format)?;
    let mut outputs = Outputs::new();
    for (name, value) in values {
        let Value::String(text) = value else {
            return Err(Failed::model(format!("the output {name} is no text")));
        };
        let is_file = declared.get(&name).is_some_and(|descriptor| descriptor.kind == Kind::File);
        let output = if is_file { file(folder, &text).await? } else { Output::Text(text) };
        outputs.push((name, output));
    }
    Ok(outputs)
}

async fn file(folder: &Path, name: &str) -> Result<Output, Failed> {
    let no_file = || Failed::model("an output of the model is not a file of its run");
    let is_plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let (stem, extension) = name.rsplit_once('.').ok_or_else(no_file)?;
    let (extension, mime) = TYPES.iter().find(|(known, _)| *known == extension).ok_or_else(no_file)?;
    let path = folder.join(name);
    let about = tokio::fs::symlink_metadata(&path).await.map_err(|_| no_file())?;
    if !is_plain(stem) || !about.is_file() || about.len() > MAX_OUTPUT {
        return Err(no_file());
    }
    let bytes = tokio::fs::read(&path).await.map_err(|cause| Error::new("reading an output", cause))?;
    Ok(Output::File { bytes, mime, extension })
}
