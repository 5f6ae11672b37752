//! Sources of uploads: a path, bytes in memory or a reader, and what is known of them before they are
//! sent.

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
use crate::memory::{NameKey, hasher};
use crate::transport::error::Result;
use crate::transport::error::{FileError, FileErrorKind};

/// The largest file that the storage accepts: 100 MiB.
pub(crate) const MAX_SIZE: u64 = inferstore_api::limits::MAX_PRESIGN_REQUEST_SIZE;

/// How many bytes are examined to find the MIME type.
const SNIFF_LENGTH: usize = 8 * 1024;

/// The most bytes of the name of a file in the name that a run stores it under.
const MAX_STORED_NAME: usize = 100;

/// How much is read at once.
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
/// Nothing is read before the file is used. A file that is empty or larger than 104,857,600 bytes
/// (100 MiB) is then refused before anything is sent. A clone is the same file; a reader is read once
/// for all clones, and equal only to them.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    source: Source,
    name: String,
    pub(crate) mime: Option<String>,
    /// The pixels of a picture, once its header was read.
    pub(crate) pixels: Option<u64>,
}

/// Where the bytes come from.
#[derive(Clone, PartialEq)]
enum Source {
    Path(PathBuf),
    Bytes(Bytes),
    Reader(Spool),
}

impl File {
    /// A file on this machine, stored under its own name.
    pub fn path(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { source: Source::Path(path), name, mime: None, pixels: None }
    }

    /// Bytes in memory.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { source: Source::Bytes(bytes.into()), name: name.into(), mime: None, pixels: None }
    }

    /// The content of a reader. It is copied to a temporary file at first use, because its size must be
    /// known before the upload and a retry sends it again. The last clone deletes the temporary file.
    pub fn reader(name: impl Into<String>, reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let spool = Spool(spool(reader).map_err(Arc::new).boxed().shared());
        Self { source: Source::Reader(spool), name: name.into(), mime: None, pixels: None }
    }

    /// The file under another name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The file with this MIME type, whatever its content and its name indicate.
    #[must_use]
    pub fn with_mime(self, mime: impl Into<String>) -> Self {
        Self { mime: Some(mime.into()), ..self }
    }

    /// Reads the file once: its size, MIME type and content hash are known afterwards.
    pub(crate) async fn prepare(&self) -> Result<Prepared> {
        self.prepare_named(None).await
    }

    /// Reads the file once, and computes the hash for its stored name if there is a key.
    pub(crate) async fn prepare_named(&self, key: Option<NameKey>) -> Result<Prepared> {
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
            mime,
            source,
        })
    }
}

impl Source {
    /// Reads the content once. The path is absolute afterwards, because the working folder may change.
    async fn read(&self, key: Option<NameKey>) -> io::Result<(Self, Digest)> {
        match self {
            Self::Path(path) => {
                let path = path.clone();
                blocking(move || {
                    // Before it is opened, because opening a pipe blocks until another process writes to it.
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
                let bytes = bytes.clone();
                blocking(move || {
                    let digest = Digest::of(io::Cursor::new(&bytes), key)?;
                    Ok((Self::Bytes(bytes), digest))
                })
                .await
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

/// Shows where the bytes come from, and not the bytes.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{path:?}"),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Reader(_) => f.write_str("a reader"),
        }
    }
}

/// A file that was read once: everything that must be known before it is sent.
#[derive(Clone)]
pub(crate) struct Prepared {
    /// The name of the file in errors.
    pub(crate) label: String,
    /// The name that it is stored under.
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) mime: String,
    /// Width times height of a picture, by its header.
    pub(crate) pixels: Option<u64>,
    /// Identifies the content: a 128-bit hash with keys of this process, so that no two contents can be
    /// prepared that share one.
    pub(crate) content_id: u128,
    /// The hash of the content and the MIME type with the key of names, if one was given.
    name_hash: Option<u128>,
    source: Source,
}

impl Prepared {
    /// The same file under an unguessable name: the URL of an input is its only access control, and the
    /// service does not define what happens to an existing file of the same name.
    pub(crate) fn with_unique_name(self) -> Self {
        Self { name: format!("{}-{}", random_hex(), storable(&self.name)), name_hash: None, ..self }
    }

    /// The same file under a name that the same content has in every process with this API key, and that nobody can guess
    /// without the key. A file without that hash gets a unique name.
    pub(crate) fn with_content_name(self) -> Self {
        match self.name_hash {
            Some(hash) => Self { name: format!("{hash:032x}-{}", storable(&self.name)), ..self },
            None => self.with_unique_name(),
        }
    }

    /// Returns whether the name is derived from the content, so that a stored file of this name has the content.
    pub(crate) fn is_named_by_content(&self) -> bool {
        self.name_hash.is_some()
    }

    /// A reader over the content, from its beginning.
    pub(super) async fn open(&self) -> Result<Box<dyn AsyncRead + Send + Unpin>, FileError> {
        self.source.open().await.map_err(|error| unreadable(&self.label, error))
    }
}

/// The name without control characters, and with its end alone if it is long: nobody chose it for the storage.
fn storable(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    let start = (name.len().saturating_sub(MAX_STORED_NAME)..).find(|at| name.is_char_boundary(*at));
    name[start.unwrap_or_default()..].to_owned()
}

/// The size, the hash and the first bytes of a content, computed chunk by chunk.
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

    /// Returns the hash of the content with its size and MIME type, if there was a key.
    fn name_hash(&self, mime: &str) -> Option<u128> {
        let mut hasher = self.name_hasher?;
        hasher.write(&self.size.to_le_bytes());
        hasher.write(mime.as_bytes());
        Some(hasher.finish128().as_u128())
    }

    /// Stops when the size is known to be too large: a file may grow meanwhile.
    fn of(mut reader: impl Read + Seek, key: Option<NameKey>) -> io::Result<Self> {
        let mut digest = Self { name_hasher: key.map(NameKey::hasher), ..Self::new() };
        let mut chunk = vec![0; CHUNK];
        while digest.size <= MAX_SIZE {
            match reader.read(&mut chunk)? {
                0 => break,
                length => digest.update(&chunk[..length]),
            }
        }
        reader.rewind()?;
        // The formats that models read; a header that cannot be read is left to the model.
        let size = imagesize::reader_size(BufReader::new(reader)).ok();
        digest.pixels = size.map(|size| size.width as u64 * size.height as u64);
        Ok(digest)
    }
}

/// The content of a reader, which is read when it is first waited for. A waiter that is dropped leaves the
/// rest to the next one.
#[derive(Clone)]
struct Spool(Shared<BoxFuture<'static, Result<Arc<TempPath>, Arc<io::Error>>>>);

impl PartialEq for Spool {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Spool {
    /// The temporary file with the content.
    async fn read(&self) -> io::Result<Arc<TempPath>> {
        self.0.clone().await.map_err(|error| io::Error::new(error.kind(), error))
    }
}

async fn spool(reader: impl AsyncRead + Unpin) -> io::Result<Arc<TempPath>> {
    let temporary = blocking(|| tempfile::Builder::new().prefix("inferstore-").tempfile()).await?;
    let (file, path) = temporary.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    // A reader may be endless; one byte more than fits shows that it is too large.
    tokio::io::copy(&mut reader.take(MAX_SIZE + 1), &mut file).await?;
    file.flush().await?;
    Ok(Arc::new(path))
}

pub(super) fn unreadable(file: &str, error: io::Error) -> FileError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => FileErrorKind::NotFound,
        _ => FileErrorKind::Unreadable,
    };
    FileError::new(file, kind, "it cannot be read").with_source(error)
}

/// Runs blocking file operations on the threads of the runtime that are meant for them. A canceled
/// caller drops the result, and a temporary file with it.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

/// 128 random bits.
fn random_hex() -> String {
    let draw = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", draw(), draw())
}

#[cfg(test)]
mod tests;
