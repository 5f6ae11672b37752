//! Copies of blobs in an export: written from a folder or a bucket, and stored in another one.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use md5::Md5;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use super::{OpenedBlobs, is_of_blobs};
use crate::hex::hex;
use crate::{Error, Result};

const MAX_COPIES: usize = 16;
const READ_CHUNK: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlobCopy {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) sha256: String,
}

impl BlobCopy {
    fn path(folder: &Path, name: &str) -> PathBuf {
        folder.join(name.get(..2).unwrap_or(name)).join(name)
    }
}

impl OpenedBlobs {
    /// Copies blobs of these names and sizes into a folder, unless they are there, missing or of another size.
    pub(crate) async fn export(&self, blobs: Vec<(String, u64)>, folder: &Path) -> Result<Vec<BlobCopy>> {
        let copies = stream::iter(blobs).map(|(name, size)| async move {
            let file = BlobCopy::path(folder, &name);
            if !is_of_blobs(&name) || name.is_empty() {
                return Ok::<_, Error>(None);
            }
            let parent = file.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(|cause| Error::keeping("exporting a blob", cause))?;
            if !self.0.export(&name, size, &file).await? {
                tracing::warn!(name, "a blob is missing, or has another size than its file; it is left out");
                return Ok(None);
            }
            let sha256 = Checksums::of_blob(file).await?.sha256;
            Ok(Some(BlobCopy { name, size, sha256 }))
        });
        let copies: Vec<Option<BlobCopy>> = copies.buffered(MAX_COPIES).try_collect().await?;
        Ok(copies.into_iter().flatten().collect())
    }

    /// Stores the blobs of an export that are not there yet. Fails when a file is not the one that was exported.
    pub(crate) async fn import(&self, copies: Vec<BlobCopy>, folder: &Path) -> Result<()> {
        let mut stored = HashMap::new();
        let mut pages = self.0.blobs();
        while let Some(page) = pages.try_next().await? {
            stored.extend(page.into_iter().map(|blob| (blob.name, blob.size)));
        }
        let missing = copies.into_iter().filter(|copy| stored.get(&copy.name) != Some(&copy.size));
        let imports = stream::iter(missing.map(Ok)).try_for_each_concurrent(MAX_COPIES, |copy| async move {
            let file = BlobCopy::path(folder, &copy.name);
            let is_name = copy.name.len() > 1 && is_of_blobs(&copy.name);
            if !is_name {
                return Err(altered(&copy.name));
            }
            let found = Checksums::of_blob(file.clone()).await?;
            if (&found.sha256, found.size) != (&copy.sha256, copy.size) {
                return Err(altered(&copy.name));
            }
            self.0.import(&copy.name, &file, copy.size, &found.md5).await
        });
        imports.await
    }
}

fn altered(name: &str) -> Error {
    Error::new(
        "importing",
        format!("the file {name:?} is not the one that was exported; nothing was imported"),
    )
    .with_hint("export again: files of the export were changed")
}

pub(crate) struct Checksums {
    pub(crate) sha256: String,
    md5: Vec<u8>,
    size: u64,
}

impl Checksums {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let (mut sha256, mut md5, mut size) = (Sha256::new(), Md5::new(), 0);
        let mut chunk = vec![0; READ_CHUNK];
        loop {
            let length = file.read(&mut chunk)?;
            if length == 0 {
                let sha256 = hex(&sha256.finalize());
                return Ok(Self { sha256, md5: md5.finalize().to_vec(), size });
            }
            let read = chunk.get(..length).unwrap_or_default();
            sha256.update(read);
            md5.update(read);
            size += length as u64;
        }
    }

    async fn of_blob(path: PathBuf) -> Result<Self> {
        let doing = format!("reading {}", path.display());
        let read = spawn_blocking(move || Self::of(&path)).await;
        read.map_err(io::Error::from).and_then(|read| read).map_err(|cause| Error::new(doing, cause))
    }
}
