//! Sources of uploads: a path, bytes in memory or a reader, and their properties before the upload.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, Shared, TryFutureExt};
use siphasher::sip128::{Hasher128, SipHasher13, SipHasher24};
use tempfile::TempPath;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;

use crate::files::mime;
use crate::memory::hasher;
use crate::transport::{FileError, FileErrorKind, Result};

pub(crate) const MAX_SIZE: u64 = inferstore_api::limits::MAX_PRESIGN_REQUEST_SIZE;

const SNIFF_LENGTH: usize = 8 * 1024;

/// Longest part of a file name in a stored name, in bytes.
const MAX_STORED_NAME: usize = 100;
/// Maximum length of an extension, with its dot.
const MAX_EXTENSION: usize = 12;

pub(super) const CHUNK: usize = 64 * 1024;

/// A file to upload: a path, bytes in memory, or a reader. Paths convert into it.
///
/// ```
/// use inferstore::{File, Inputs};
///
/// let inputs = Inputs::new()
///     .file("input", File::path("photo.jpg"))
///     .file("mask_img", File::bytes("mask.png", vec![0_u8; 16]).with_mime("image/png"));
/// ```
///
/// A file is read on use. An empty file, or one larger than 104,857,600 bytes (100 MiB), is then rejected before a
/// request is sent. A clone is the same file; a reader is read once for all clones, and equal only to them.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    source: Source,
    name: String,
    pub(crate) mime: Option<String>,
    /// Pixels of a picture, after its header was read.
    pub(crate) pixels: Option<u64>,
}

#[derive(Clone, PartialEq)]
enum Source {
    Path(PathBuf),
    Bytes(Bytes),
    Reader(Spool),
}

impl File {
    /// Makes a file from a path, stored under its own name.
    pub fn path(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self::new(name, Source::Path(path))
    }

    fn new(name: impl Into<String>, source: Source) -> Self {
        Self { source, name: name.into(), mime: None, pixels: None }
    }

    /// Makes a file from bytes in memory.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self::new(name, Source::Bytes(bytes.into()))
    }

    /// Makes a file from a reader. The content is copied to a temporary file at first use, because the size must be
    /// known before the upload, and a retry needs the content again. The last clone deletes that file.
    pub fn reader(name: impl Into<String>, reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self::new(name, Source::Reader(Spool(spool(reader).map_err(Arc::new).boxed().shared())))
    }

    /// Renames the file.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Sets the MIME type, regardless of content and name.
    #[must_use]
    pub fn with_mime(self, mime: impl Into<String>) -> Self {
        Self { mime: Some(mime.into()), ..self }
    }

    /// Reads the file once, for size, MIME type and content hash; with a key, also for the hash of the stored name.
    pub(crate) async fn prepare(&self, key: Option<SipHasher24>) -> Result<Prepared> {
        let label = match &self.source {
            Source::Path(path) => path.display().to_string(),
            _ => self.name.clone(),
        };
        let (source, digest) = self.source.read(key).await.map_err(|error| unreadable(&label, error))?;
        let invalid = |kind, message: &str| FileError::new(&label, kind, message);
        if self.name.trim().is_empty() {
            return Err(invalid(FileErrorKind::InvalidName, "it has no name to be stored under").into());
        }
        if digest.size == 0 {
            return Err(invalid(FileErrorKind::Empty, "it is empty").into());
        }
        if digest.size > MAX_SIZE {
            let message = format!("it is too large; the storage takes at most {MAX_SIZE} bytes (100 MiB)");
            return Err(invalid(FileErrorKind::TooLarge, &message).into());
        }
        let mime = mime::choose(self.mime.as_deref(), &self.name, &digest.beginning).map_err(|mime| {
            invalid(FileErrorKind::InvalidMimeType, &format!("{mime:?} is not a MIME type"))
        })?;
        Ok(Prepared {
            label,
            name: self.name.clone(),
            size: digest.size,
            pixels: digest.pixels,
            content_id: digest.id(),
            name_hash: digest.name_hash(&mime),
            overwrite: true,
            mime,
            source,
        })
    }
}

impl Source {
    /// Reads the content once. The path becomes absolute, because the working directory may change.
    async fn read(&self, key: Option<SipHasher24>) -> io::Result<(Self, Digest)> {
        match self.clone() {
            Self::Path(path) => {
                blocking(move || {
                    // Check before opening: opening a pipe blocks until another process writes to it.
                    let metadata = std::fs::metadata(&path)?;
                    if !metadata.is_file() {
                        return Err(io::Error::other("it is not a regular file"));
                    }
                    let path = path.canonicalize()?;
                    let digest = match metadata.len() {
                        ..=MAX_SIZE => Digest::of(std::fs::File::open(&path)?, key)?,
                        size => Digest { size, ..Digest::new() },
                    };
                    Ok((Self::Path(path), digest))
                })
                .await
            }
            Self::Bytes(bytes) => {
                let digest = blocking(move || Digest::of(io::Cursor::new(bytes), key)).await?;
                Ok((self.clone(), digest))
            }
            Self::Reader(spool) => {
                let path = spool.read().await?;
                let digest = blocking(move || Digest::of(std::fs::File::open(&*path)?, key)).await?;
                Ok((self.clone(), digest))
            }
        }
    }

    async fn open(&self) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        Ok(match self {
            Self::Path(path) => Box::new(tokio::fs::File::open(path).await?),
            Self::Bytes(bytes) => Box::new(io::Cursor::new(bytes.clone())),
            Self::Reader(spool) => Box::new(tokio::fs::File::open(&*spool.read().await?).await?),
        })
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{path:?}"),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Reader(_) => f.write_str("a reader"),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) label: String,
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) mime: String,
    pub(crate) pixels: Option<u64>,
    /// Identity of the content: a 128-bit hash keyed per process, so that nobody can construct a collision.
    pub(crate) content_id: u128,
    /// Keyed hash of content and MIME type, if a key was given: a stored file named by the hash has this content.
    pub(super) name_hash: Option<u128>,
    pub(super) overwrite: bool,
    source: Source,
}

impl Prepared {
    /// Gives the file an unguessable name: the URL of an input is its only access control, and the service does not
    /// define the effect of a name that exists. Reused content has the same name in every process with this API key.
    pub(crate) fn with_stored_name(self, is_reused: bool) -> Self {
        let name_hash = self.name_hash.filter(|_| is_reused);
        let prefix = name_hash.map_or_else(random_hex, |hash| format!("{hash:032x}"));
        Self { name: format!("{prefix}-{}", storable(&self.name)), name_hash, ..self }
    }

    pub(super) async fn open(&self) -> Result<Box<dyn AsyncRead + Send + Unpin>, FileError> {
        self.source.open().await.map_err(|error| unreadable(&self.label, error))
    }
}

/// Returns the name without control characters and slashes, and only the beginning and the extension of a long one.
fn storable(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_control() || c == '/' { '_' } else { c }).collect();
    let extension = name.rfind('.').filter(|at| name.len() - at <= MAX_EXTENSION).unwrap_or(name.len());
    let room = MAX_STORED_NAME - (name.len() - extension);
    let end = (0..=room.min(extension)).rfind(|at| name.is_char_boundary(*at)).unwrap_or_default();
    format!("{}{}", &name[..end], &name[extension..])
}

pub(super) struct Digest {
    pub(super) size: u64,
    hasher: SipHasher13,
    name_hasher: Option<SipHasher24>,
    beginning: Vec<u8>,
    pixels: Option<u64>,
}

impl Digest {
    pub(super) fn new() -> Self {
        Self { size: 0, hasher: hasher(), name_hasher: None, beginning: Vec::new(), pixels: None }
    }

    pub(super) fn update(&mut self, chunk: &[u8]) {
        let missing = SNIFF_LENGTH.saturating_sub(self.beginning.len());
        self.beginning.extend_from_slice(&chunk[..chunk.len().min(missing)]);
        self.size += chunk.len() as u64;
        self.hasher.write(chunk);
        if let Some(hasher) = &mut self.name_hasher {
            hasher.write(chunk);
        }
    }

    pub(super) fn id(&self) -> u128 {
        self.hasher.finish128().as_u128()
    }

    fn name_hash(&self, mime: &str) -> Option<u128> {
        let mut hasher = self.name_hasher?;
        hasher.write(&self.size.to_le_bytes());
        hasher.write(mime.as_bytes());
        Some(hasher.finish128().as_u128())
    }

    /// Digests a reader. Stops when the content is too large: a file may be growing.
    fn of(mut reader: impl Read + Seek, key: Option<SipHasher24>) -> io::Result<Self> {
        let mut digest = Self { name_hasher: key, ..Self::new() };
        let mut chunk = vec![0; CHUNK];
        while digest.size <= MAX_SIZE {
            match reader.read(&mut chunk)? {
                0 => break,
                length => digest.update(&chunk[..length]),
            }
        }
        reader.rewind()?;
        // A model decides about an unreadable header.
        let size = imagesize::reader_size(BufReader::new(reader)).ok();
        digest.pixels = size.map(|size| size.width as u64 * size.height as u64);
        Ok(digest)
    }
}

/// Spooled content of a reader. The first waiter reads; if it is dropped, the next waiter continues.
#[derive(Clone)]
struct Spool(Shared<BoxFuture<'static, Result<Arc<TempPath>, Arc<io::Error>>>>);

impl PartialEq for Spool {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Spool {
    async fn read(&self) -> io::Result<Arc<TempPath>> {
        self.0.clone().await.map_err(|error| io::Error::new(error.kind(), error))
    }
}

async fn spool(reader: impl AsyncRead + Unpin) -> io::Result<Arc<TempPath>> {
    let temporary = blocking(|| tempfile::Builder::new().prefix("inferstore-").tempfile()).await?;
    let (file, path) = temporary.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    // A reader may be endless; one byte above the limit shows that the content is too large.
    tokio::io::copy(&mut reader.take(MAX_SIZE + 1), &mut file).await?;
    file.flush().await?;
    Ok(Arc::new(path))
}

pub(super) fn unreadable(file: &str, error: io::Error) -> FileError {
    let (kind, problem) = match error.kind() {
        io::ErrorKind::NotFound => (FileErrorKind::NotFound, "it cannot be read"),
        // Only the copy of a reader is written.
        io::ErrorKind::StorageFull => (FileErrorKind::Unwritable, "its temporary copy cannot be written"),
        _ => (FileErrorKind::Unreadable, "it cannot be read"),
    };
    FileError::new(file, kind, problem).with_source(error)
}

/// Runs file operations on Tokio's blocking threads. A canceled caller drops the result, including a temporary file.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

pub(crate) fn random_hex() -> String {
    let draw = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", draw(), draw())
}

#[cfg(test)]
mod tests;
