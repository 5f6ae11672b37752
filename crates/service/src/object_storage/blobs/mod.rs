//! Blobs: the bytes of objects under random names, behind a trait that a folder of files and a bucket implement.
//! A blob is whole and synced before it can be read.
//!
//! Keys of objects are no part of the name, so that every key works, `a` and `a/b` exist side by side, and
//! no key names a file of the machine.

mod bucket;
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
pub(super) use pairing::check_bucket;
pub(crate) use pairing::{OpenedBlobs, are_in_bucket, open};
pub(super) use s3::S3;

use crate::Result;

/// The bytes of a blob, chunk by chunk.
pub(crate) type ByteStream = BoxStream<'static, io::Result<Bytes>>;

/// A listing of any length, page by page: 1,000 objects of a bucket, or one of the 1,024 folders of blobs.
pub(super) type Pages<'a, T> = BoxStream<'a, Result<Vec<T>>>;

/// The length of the name of a blob that is drawn here.
const NAME_LENGTH: usize = 26;

/// Whether a name is that of a blob: one that was drawn here, or the identifier of a target.
fn is_blob(name: &str) -> bool {
    name.len() >= NAME_LENGTH && is_of_blobs(name)
}

/// Whether a name has only characters that names of blobs have.
fn is_of_blobs(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Keeps blobs.
#[async_trait]
pub(super) trait Blobs: Send + Sync {
    /// The remote store that keeps the blobs, where uploads may have gone straight to; None for a folder.
    fn remote(&self) -> Option<&S3> {
        None
    }
    /// Begins a blob.
    fn begin(&self) -> Result<Box<dyn BlobWriter>>;
    /// Opens a blob, which can then be read to its end even when it is removed meanwhile; None when there is
    /// none with this name.
    async fn open(&self, name: &str) -> Result<Option<OpenBlob>>;
    /// Removes a blob. A failure is logged, because the sweeper finds the blob again.
    async fn remove(&self, name: &str);
    /// A moment, by the clock that stamps the blobs, before which no upload was begun that is still in progress.
    fn opened_at(&self) -> SystemTime;
    /// Lists the blobs.
    fn blobs(&self) -> Pages<'_, Listed>;
    /// Returns those of a page of names that are set aside already, where that leaves a blob in the listing.
    async fn marked(&self, _: &[String]) -> Result<HashSet<String>> {
        Ok(HashSet::new())
    }
    /// Moves a blob out of the way, to the orphans of this day.
    async fn set_aside(&self, name: &str, day: Date) -> Result<()>;
    /// Lists the orphans.
    fn orphans(&self) -> Pages<'_, Orphan>;
    /// Moves an orphan back to where it is read.
    async fn bring_back(&self, orphan: &Orphan) -> Result<()>;
    /// Writes copies of blobs into the folder of another object store, as links where that is possible. Returns
    /// how many are missing.
    async fn copy_to(&self, names: Vec<String>, folder: &Path) -> Result<u64>;
    async fn remove_orphan(&self, orphan: &Orphan) -> Result<()>;
}

/// A blob that is being written. Dropping it leaves nothing behind.
#[async_trait]
pub(super) trait BlobWriter: Send {
    /// How many bytes were written.
    fn size(&self) -> u64;
    async fn write(&mut self, chunk: Bytes) -> Result<()>;
    /// Makes the blob readable, in such a way that it survives the loss of power.
    async fn commit(self: Box<Self>) -> Result<Blob>;
}

/// A blob that can be read: a range of it.
pub(crate) type OpenBlob = Box<dyn FnOnce(Range<u64>) -> ByteStream + Send + Sync>;

/// What is known of a committed blob.
#[derive(Debug, Clone)]
pub(super) struct Blob {
    pub(super) name: String,
    pub(super) size: u64,
    /// MD5 of the bytes in hex, as S3 has it.
    pub(super) etag: String,
}

/// A blob of a listing.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) size: u64,
    /// As a remote store has it; empty in a folder.
    pub(super) etag: String,
    /// Moment of the upload by the clock of the store.
    pub(super) modified: Timestamp,
}

/// A blob that no object referred to when it was set aside.
#[derive(Debug, Clone)]
pub(super) struct Orphan {
    pub(super) name: String,
    /// When it was set aside.
    pub(super) day: Date,
}
