//! Blobs as objects of a bucket: `blobs/<name>`, and an empty marker `orphans/<name>.<day>` for a blob that no row
//! referred to on that day. A marked blob keeps its key until its deletion.

use std::collections::HashSet;
use std::io::{self, ErrorKind, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use axum::body::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::civil::Date;
use md5::{Digest, Md5};
use reqwest::{Body, Response};
use tempfile::NamedTempFile;
use tokio::fs::File;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio_util::io::ReaderStream;

use super::bucket::{Bucket, causes};
use super::{Blob, BlobWriter, Blobs, ByteStream, Listed, NAME_LENGTH, OpenBlob, Orphan, Pages, is_blob};
use crate::clock::{Clock, Moment};
use crate::config::S3Config;
use crate::hex::hex;
use crate::random::{Randomness, uuid_beginning};
use crate::{Error, Result};

pub(super) const BLOBS: &str = "blobs/";
const ORPHANS: &str = "orphans/";
const MARKER: &str = "id";

/// Minimum age of an orphan: other processes store blobs before their rows, and clocks differ.
const MIN_AGE: Duration = Duration::from_hours(1);
const MAX_REMOVALS: usize = 16;
const READ_CHUNK: usize = 64 * 1024;

#[derive(Clone)]
pub(in crate::object_storage) struct S3(Arc<Inner>);

struct Inner {
    bucket: Bucket,
    folder: PathBuf,
    random: Randomness,
    removals: Arc<Semaphore>,
}

impl S3 {
    pub(super) fn new(config: S3Config, folder: &Path, clock: Clock) -> Result<Self> {
        let bucket = Bucket::new(config, clock)?;
        let random = Randomness::new(None);
        let removals = Arc::new(Semaphore::new(MAX_REMOVALS));
        Ok(Self(Arc::new(Inner { bucket, folder: folder.to_owned(), random, removals })))
    }

    pub(super) fn bucket(&self) -> &Bucket {
        &self.0.bucket
    }

    pub(in crate::object_storage) fn direct(&self) -> Option<&Bucket> {
        Some(self.bucket()).filter(|bucket| bucket.config.is_direct)
    }

    pub(super) async fn marker(&self) -> Result<Option<String>> {
        let Some(response) = self.bucket().get(MARKER, None).await? else { return Ok(None) };
        let text = response.text().await.map_err(reqwest::Error::without_url);
        let text = text.map_err(|cause| Error::unavailable("reading the identifier of the bucket", cause))?;
        Ok(Some(text.trim().to_owned()))
    }

    pub(super) async fn set_marker(&self, id: &str) -> Result<()> {
        self.bucket().put_text(MARKER, id).await
    }

    pub(in crate::object_storage) fn uploads(&self, since: Moment, until: Moment) -> Pages<'_, Listed> {
        let (first, last) = (uuid_beginning(since), uuid_beginning(until));
        let shared = first.bytes().zip(last.bytes()).take_while(|(one, other)| one == other).count();
        self.bucket().list(BLOBS, first.get(..shared).unwrap_or_default(), &first)
    }
}

pub(super) fn blob_key(name: &str) -> String {
    format!("{BLOBS}{name}")
}

fn orphan_key(orphan: &Orphan) -> String {
    format!("{ORPHANS}{}.{}", orphan.name, orphan.day)
}

/// Returns the key of an orphan marker of an earlier version.
fn former_orphan_key(orphan: &Orphan) -> String {
    format!("{ORPHANS}{}/{}", orphan.day, orphan.name)
}

fn orphan(mark: &str) -> Option<Orphan> {
    let (name, day) = mark.split_once('.').or_else(|| mark.split_once('/').map(|(day, name)| (name, day)))?;
    is_blob(name).then_some(())?;
    Some(Orphan { name: name.to_owned(), day: day.parse().ok()? })
}

#[async_trait]
impl Blobs for S3 {
    fn remote(&self) -> Option<&S3> {
        Some(self)
    }

    fn begin(&self) -> Result<Box<dyn BlobWriter>> {
        let name = self.0.random.word(NAME_LENGTH)?;
        let file = File::from_std(tempfile::tempfile_in(&self.0.folder).map_err(cannot_write)?);
        Ok(Box::new(Incoming { store: self.clone(), name, size: 0, hash: Md5::new(), file }))
    }

    async fn open(&self, name: &str) -> Result<Option<OpenBlob>> {
        let key = blob_key(name);
        let is_there = self.bucket().has(&key).await?;
        let store = self.clone();
        let open = |range| stream::once(read(store, key, range)).try_flatten().boxed();
        Ok(is_there.then(|| Box::new(open) as OpenBlob))
    }

    async fn remove(&self, name: &str) {
        // The deletion runs in the background: the row is gone already, and the store may be slow or unreachable.
        let Ok(permit) = Arc::clone(&self.0.removals).acquire_owned().await else { return };
        let (store, key) = (self.clone(), blob_key(name));
        tokio::spawn(async move {
            if let Err(cause) = store.bucket().delete(&key).await {
                tracing::warn!(%cause, "a blob could not be removed; the sweeper finds it later");
            }
            drop(permit);
        });
    }

    fn opened_at(&self) -> SystemTime {
        // Other processes may have written before this process started.
        SystemTime::now().checked_sub(MIN_AGE).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn blobs(&self) -> Pages<'_, Listed> {
        let are_blobs = |mut page: Vec<Listed>| {
            page.retain(|blob| is_blob(&blob.name));
            page
        };
        self.bucket().list(BLOBS, "", "").map_ok(are_blobs).boxed()
    }

    async fn marked(&self, names: &[String]) -> Result<HashSet<String>> {
        let (Some(first), Some(last)) = (names.iter().min(), names.iter().max()) else {
            return Ok(HashSet::new());
        };
        let mut marked = HashSet::new();
        let mut pages = self.bucket().list(ORPHANS, "", first);
        while let Some(page) = pages.try_next().await? {
            let is_last = page.last().is_none_or(|mark| mark.name > format!("{last}/"));
            let found = page.iter().filter_map(|mark| orphan(&mark.name)).map(|orphan| orphan.name);
            marked.extend(found.filter(|name| names.contains(name)));
            if is_last {
                break;
            }
        }
        Ok(marked)
    }

    async fn set_aside(&self, name: &str, day: Date) -> Result<()> {
        self.bucket().put_text(&orphan_key(&Orphan { name: name.to_owned(), day }), "").await
    }

    fn orphans(&self) -> Pages<'_, Orphan> {
        let marks = self.bucket().list(ORPHANS, "", "");
        marks.map_ok(|page| page.iter().filter_map(|mark| orphan(&mark.name)).collect()).boxed()
    }

    async fn bring_back(&self, orphan: &Orphan) -> Result<()> {
        self.bucket().delete(&orphan_key(orphan)).await?;
        self.bucket().delete(&former_orphan_key(orphan)).await
    }

    async fn copy_to(&self, names: Vec<String>, _: &Path) -> Result<u64> {
        Ok(names.len() as u64)
    }

    async fn export(&self, name: &str, size: u64, file: &Path) -> Result<bool> {
        if tokio::fs::metadata(file).await.is_ok_and(|about| about.len() == size) {
            return Ok(true);
        }
        let response = match size {
            0 => None,
            _ => self.bucket().get(&blob_key(name), None).await?,
        };
        if size > 0 && response.as_ref().and_then(Response::content_length) != Some(size) {
            return Ok(false);
        }
        let copy = NamedTempFile::new_in(file.parent().unwrap_or(file)).map_err(cannot_write)?;
        let (copy, path) = copy.into_parts();
        let mut copy = File::from_std(copy);
        let mut chunks = stream::iter(response).flat_map(Response::bytes_stream);
        let lost = |cause: reqwest::Error| Error::unavailable("exporting a blob", causes(cause));
        while let Some(chunk) = chunks.try_next().await.map_err(lost)? {
            copy.write_all(&chunk).await.map_err(cannot_write)?;
        }
        copy.sync_all().await.map_err(cannot_write)?;
        path.persist(file).map_err(|cause| cannot_write(cause.error))?;
        Ok(true)
    }

    async fn import(&self, name: &str, file: &Path, size: u64, md5: &[u8]) -> Result<()> {
        let file = std::fs::File::open(file).map_err(|cause| Error::keeping("importing a blob", cause))?;
        let body = || Body::wrap_stream(stream::once(from_start(file.try_clone())).try_flatten());
        self.bucket().put(&blob_key(name), size, md5, body).await
    }

    async fn remove_orphan(&self, orphan: &Orphan) -> Result<()> {
        // The marker is deleted last: a blob without a marker would become an orphan of today.
        self.bucket().delete(&blob_key(&orphan.name)).await?;
        self.bring_back(orphan).await
    }
}

async fn read(store: S3, key: String, range: Range<u64>) -> io::Result<ByteStream> {
    if range.is_empty() {
        return Ok(stream::empty().boxed());
    }
    let length = range.end - range.start;
    let response = store.bucket().get(&key, Some(range)).await.map_err(lost)?;
    let response = response.ok_or_else(|| lost("the object was replaced or deleted meanwhile"))?;
    if response.content_length() != Some(length) {
        return Err(lost("the object store sent another part of the object"));
    }
    Ok(response.bytes_stream().map_err(|cause| lost(cause.without_url())).boxed())
}

/// Returns an error for an interrupted read, which `OpenObject::bytes` reports as retryable.
fn lost(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::ConnectionReset, cause)
}

/// A blob that is being written to an unnamed temporary file, because the store needs the size before the first byte.
struct Incoming {
    store: S3,
    name: String,
    size: u64,
    hash: Md5,
    file: File,
}

fn cannot_write(cause: io::Error) -> Error {
    Error::keeping("writing an object to a temporary file", cause)
}

#[async_trait]
impl BlobWriter for Incoming {
    fn size(&self) -> u64 {
        self.size
    }

    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.size += chunk.len() as u64;
        self.hash.update(&chunk);
        self.file.write_all(&chunk).await.map_err(cannot_write)
    }

    async fn commit(mut self: Box<Self>) -> Result<Blob> {
        self.file.flush().await.map_err(cannot_write)?;
        let file = self.file.into_std().await;
        let body = || Body::wrap_stream(stream::once(from_start(file.try_clone())).try_flatten());
        let md5 = self.hash.finalize();
        self.store.bucket().put(&blob_key(&self.name), self.size, &md5, body).await?;
        // An encrypting store has a different ETag for the same bytes, so the ETag is the MD5.
        Ok(Blob { name: self.name, size: self.size, etag: hex(&md5) })
    }
}

async fn from_start(file: io::Result<std::fs::File>) -> io::Result<ReaderStream<File>> {
    let mut file = File::from_std(file?);
    file.seek(SeekFrom::Start(0)).await?;
    Ok(ReaderStream::with_capacity(file, READ_CHUNK))
}

#[cfg(test)]
mod tests {
    use inferstore_wire::{Reaction, Server};

    use super::*;
    use crate::object_storage::remote_tests::TestResult;

    #[tokio::test]
    async fn a_blob_of_any_size_is_sent_whole_with_its_length_and_its_hash() -> TestResult {
        let server = Server::start(|_| Reaction::status(200));
        let url = format!("s3://bucket?endpoint={}", server.origin());
        let folder = tempfile::tempdir()?;
        let store = S3::new(S3Config::new(&url, "key", "secret")?, folder.path(), Clock::default())?;
        for chunks in [vec![], vec![5], vec![300 << 10, 1, 1 << 20]] {
            let mut incoming = store.begin()?;
            let mut whole = Vec::new();
            for (number, size) in (1..).zip(chunks) {
                let chunk = vec![number; size];
                whole.extend_from_slice(&chunk);
                incoming.write(chunk.into()).await?;
            }
            let blob = incoming.commit().await?;
            let put = server.requests().pop().ok_or("nothing was sent")?;
            let length = whole.len().to_string();
            assert_eq!((blob.size, put.header("content-length")), (whole.len() as u64, Some(&*length)));
            assert_eq!(blob.etag, hex(&Md5::digest(&whole)));
            let has_hash = put.header("content-md5").is_some_and(|md5| md5.len() == 24);
            assert!(has_hash && put.body == whole, "{length} bytes");
        }
        Ok(())
    }
}
