//! Inputs of a task: from submitted JSON to a model's inputs. Fetched files are on disk: waiting tasks need no memory.

use std::io::{self, Seek, SeekFrom};

use inferstore_fetch::{Attempts, FetchError};
use inferstore_models::{Input, Inputs};
use serde_json::{Map, Value};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::Nodes;
use crate::catalog::{Format, Kind, sample_at};
use crate::models::Failed;
use crate::models::without_file;
use crate::object_storage::outlast_outage;
use crate::queue::Lease;
use crate::{Error, Result};

#[cfg(test)]
pub(super) const NEVER_RESPONDS: &str = "https://never-responds.example/";

#[cfg(test)]
pub(super) const RESPONDS_LATE: &str = "https://responds-late.example/";

#[cfg(test)]
pub(super) const FAILS_ONCE: &str = "https://fails-once.example/";

pub(super) struct TaskInputs(pub(super) Vec<(String, Source)>);

pub(super) enum Source {
    Value(Value),
    Stored { bucket: String, key: String },
    Sample(&'static [u8]),
    Remote(String),
    Fetched(File),
}

impl TaskInputs {
    pub(super) async fn read(nodes: &Nodes, lease: &Lease) -> Result<Self, Failed> {
        let submitted: Map<String, Value> = serde_json::from_str(&lease.input)
            .map_err(|cause| Error::new("reading the inputs of a task", cause))?;
        let declared = Format::kept(&lease.input_format)?;
        let mut inputs = Vec::new();
        for (name, value) in submitted.into_iter().filter(|(_, value)| !value.is_null()) {
            let source = match (declared.get(&name).map(|descriptor| descriptor.kind), value) {
                (Some(Kind::File), Value::String(url)) => {
                    let sample = nodes.objects.locations.paths(&url).find_map(sample_at);
                    match sample {
                        Some(sample) => Source::Sample(sample.bytes),
                        None => match outlast_outage(|| nodes.objects.locate(&url)).await? {
                            Some((bucket, key)) => Source::Stored { bucket, key },
                            None => Source::Remote(url),
                        },
                    }
                }
                (_, value) => Source::Value(value),
            };
            inputs.push((name, source));
        }
        Ok(Self(inputs))
    }

    pub(super) fn are_remote(&self) -> bool {
        self.0.iter().any(|(_, source)| matches!(source, Source::Remote(_)))
    }

    pub(super) async fn fetch(&mut self, nodes: &Nodes) -> Result<(), Failed> {
        for (name, source) in &mut self.0 {
            if let Source::Remote(url) = source {
                let mut attempts = Attempts::default();
                let fetched = loop {
                    match outlast_outage(|| fetch(nodes, url)).await? {
                        Ok(file) => break file,
                        Err(why) if attempts.may_go_on(&why).await => {}
                        Err(why) => return Err(Failed::input(format!("{name}: {why}"))),
                    }
                };
                *source = Source::Fetched(fetched);
            }
        }
        Ok(())
    }

    pub(super) async fn load(self, nodes: &Nodes) -> Result<Inputs, Failed> {
        let mut inputs = Vec::new();
        for (name, source) in self.0 {
            let input = match source {
                Source::Value(value) => without_file(&value),
                Source::Stored { bucket, key } => Input::File(stored(nodes, &name, &bucket, &key).await?),
                Source::Sample(bytes) => Input::File(bytes.to_vec()),
                Source::Fetched(file) => Input::File(fetched(file).await?),
                Source::Remote(_) => return Err(not_fetched()),
            };
            inputs.push((name, input));
        }
        Ok(inputs.into_iter().collect())
    }
}

pub(super) fn not_fetched() -> Failed {
    Error::new("reading an input", "it was not fetched").into()
}

pub(super) fn no_file(name: &str) -> Failed {
    Failed::input(format!("{name}: there is no file at this URL; upload it first, or again"))
}

/// Creates an unnamed file in the data folder, because `/tmp` may be in memory.
fn temporary_file(nodes: &Nodes) -> Result<File> {
    let file = tempfile::tempfile_in(nodes.background.folder.path());
    file.map(File::from_std).map_err(|cause| Error::keeping("creating a file for an input", cause))
}

/// Fetches a file from the internet, with SSRF protection. The inner error is the URL's, the outer the service's.
async fn fetch(nodes: &Nodes, url: &str) -> Result<Result<File, FetchError>> {
    let mut file = temporary_file(nodes)?;
    #[cfg(test)]
    if url == FAILS_ONCE {
        static FETCHES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        return Ok(match FETCHES.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => nodes.fetcher.fetch_to("http://localhost:1/", &mut file).await.map(|()| file),
            _ => Ok(file),
        });
    }
    #[cfg(test)]
    if url == NEVER_RESPONDS {
        std::future::pending::<()>().await;
    } else if url == RESPONDS_LATE {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        return Ok(Ok(file));
    }
    let fetched = nodes.fetcher.fetch_to(url, &mut file).await;
    match fetched.as_ref().err().and_then(FetchError::sink_failure) {
        Some(kind) => Err(Error::keeping("storing an input", io::Error::from(kind))),
        None => Ok(fetched.map(|()| file)),
    }
}

async fn fetched(file: File) -> Result<Vec<u8>> {
    let failed = |cause| Error::new("reading a fetched input", cause);
    let mut file = file.into_std().await;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut content = Vec::new();
    File::from_std(file).read_to_end(&mut content).await.map_err(failed)?;
    Ok(content)
}

async fn stored(nodes: &Nodes, name: &str, bucket: &str, key: &str) -> Result<Vec<u8>, Failed> {
    let read = || async {
        match nodes.objects.read(bucket, key).await? {
            Some(opened) => opened.bytes().await.map(Some),
            None => Ok(None),
        }
    };
    let bytes = outlast_outage(read).await?;
    bytes.ok_or_else(|| no_file(name))
}
