//! Blobs: the bytes of objects under random names, in a folder or a bucket, complete and synced before they are
//! readable. Names are independent of keys: every key works, `a` and `a/b` can coexist, and no key determines a path.

mod bucket;
mod copies;
mod cors;
mod direct;
mod disk;
mod pairing;
mod s3;

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::SystemTime;

use async_trait::async_trait;
use axum::body::Bytes;
use futures_util::stream::BoxStream;
use jiff::Timestamp;
use jiff::civil::Date;

pub(super) use bucket::Bucket;
pub(crate) use copies::{BlobCopy, Checksums};
pub(super) use pairing::check_bucket;
pub(crate) use pairing::{Destination, IN_BUCKET, OpenedBlobs, SETTING, are_in_bucket, open};
pub(super) use s3::S3;

use crate::Result;

pub(crate) type ByteStream = BoxStream<'static, io::Result<Bytes>>;

/// Listing of any length, page by page: 1,000 objects of a bucket, or one of the 1,024 folders of blobs.
pub(super) type Pages<'a, T> = BoxStream<'a, Result<Vec<T>>>;

const NAME_LENGTH: usize = 26;

fn is_blob(name: &str) -> bool {
    name.len() >= NAME_LENGTH && is_of_blobs(name)
}

fn is_of_blobs(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[async_trait]
pub(super) trait Blobs: Send + Sync {
    /// Returns the remote store of the blobs, which may have received uploads directly; None for a folder.
    fn remote(&self) -> Option<&S3> {
        None
    }
    fn begin(&self) -> Result<Box<dyn BlobWriter>>;
    /// Opens a blob, which stays readable to its end even if deleted meanwhile; None if there is no such blob.
    async fn open(&self, name: &str) -> Result<Option<OpenBlob>>;
    /// Deletes a blob. A failure is logged, because the sweeper finds the blob again.
    async fn remove(&self, name: &str);
    /// Returns a time, by the clock that stamps the blobs, before which no upload in progress began.
    fn opened_at(&self) -> SystemTime;
    fn blobs(&self) -> Pages<'_, Listed>;
    /// Returns those of a page of names that are marked as orphans, if marked blobs stay in the listing.
    async fn marked(&self, _: &[String]) -> Result<HashSet<String>> {
        Ok(HashSet::new())
    }
    async fn set_aside(&self, name: &str, day: Date) -> Result<()>;
    fn orphans(&self) -> Pages<'_, Orphan>;
    async fn bring_back(&self, orphan: &Orphan) -> Result<()>;
    async fn copy_to(&self, names: Vec<String>, folder: &Path) -> Result<u64>;
    async fn remove_orphan(&self, orphan: &Orphan) -> Result<()>;
    /// Copies a blob into a file, as a link where that is possible. Returns whether there is one of this size.
    async fn export(&self, name: &str, size: u64, file: &Path) -> Result<bool>;
    async fn import(&self, name: &str, file: &Path, size: u64, md5: &[u8]) -> Result<()>;
}

/// A blob that is being written. Dropping the writer leaves no file behind.
#[async_trait]
pub(super) trait BlobWriter: Send {
    fn size(&self) -> u64;
    async fn write(&mut self, chunk: Bytes) -> Result<()>;
    /// Makes the blob readable and durable, so that it survives a power failure.
    async fn commit(self: Box<Self>) -> Result<Blob>;
}

pub(crate) type OpenBlob = Box<dyn FnOnce(Range<u64>) -> ByteStream + Send + Sync>;

#[derive(Debug, Clone)]
pub(super) struct Blob {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) etag: String,
}

#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) size: u64,
    /// ETag of a remote store; empty in a folder.
    pub(super) etag: String,
    pub(super) modified: Timestamp,
}

/// A blob that no row referred to at the sweep of `day`.
#[derive(Debug, Clone)]
pub(super) struct Orphan {
    pub(super) name: String,
    pub(super) day: Date,
}
