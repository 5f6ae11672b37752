//! Sources of uploads: a path, bytes in memory or a reader, and what is known of them before they are
//! sent.

use std::fmt;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use tempfile::TempPath;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use crate::files::mime;
use crate::transport::error::Result;
use crate::transport::file_error::{FileError, FileErrorKind};

/// The largest file that the storage accepts: 100 MiB.
pub(crate) const MAX_SIZE: u64 = 104_857_600;

/// How many bytes are examined to find the MIME type.
const SNIFF_LENGTH: usize = 8 * 1024;

/// How much is read at once.
pub(super) const CHUNK: usize = 64 * 1024;

/// A file to upload: a path, bytes in memory, or a reader. Paths convert into it.
///
/// ```
/// use inferstore::{File, Inputs};
///
/// let inputs = Inputs::new()
///     .file("input", "photo.jpg")
///     .file("mask_img", File::bytes("mask.png", vec![0_u8; 16]).with_mime("image/png"));
/// ```
///
/// Nothing is read before the file is used. A file that is empty or larger than 104,857,600 bytes
/// (100 MiB) is then refused before anything is sent. A clone is the same file; a reader is read once
/// for all clones.
#[derive(Clone)]
pub struct File {
    source: Source,
    name: Option<String>,
    mime: Option<String>,
}

/// Where the bytes come from.
#[derive(Clone)]
enum Source {
    Path(PathBuf),
    Bytes(Bytes),
    Reader(Arc<Spool>),
}

impl File {
    /// A file on this machine, stored under its own name.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self { source: Source::Path(path.into()), name: None, mime: None }
    }

    /// Bytes in memory.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { source: Source::Bytes(bytes.into()), name: Some(name.into()), mime: None }
    }

    /// The content of a reader. It is copied to a temporary file at first use, because its size must be
    /// known before the upload and a retry sends it again. The last clone deletes the temporary file.
    pub fn reader(name: impl Into<String>, reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let spool = Spool { reader: Mutex::new(Some(Box::new(reader))), spooled: OnceCell::new() };
        Self { source: Source::Reader(Arc::new(spool)), name: Some(name.into()), mime: None }
    }

    /// The file under another name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The file with this MIME type, whatever its content and its name indicate.
    #[must_use]
    pub fn with_mime(self, mime: impl Into<String>) -> Self {
        Self { mime: Some(mime.into()), ..self }
    }

    /// Reads the file once: its size, MIME type and content hash are known afterwards.
    pub(crate) async fn prepare(&self) -> Result<Prepared> {
        let label = self.label();
        let (source, digest) = match &self.source {
            Source::Path(path) => {
                let path = path.clone();
                let (path, digest) =
                    blocking(move || digest_path(&path)).await.map_err(|error| unreadable(&label, error))?;
                (Source::Path(path), digest)
            }
            Source::Bytes(bytes) if bytes.len() as u64 > MAX_SIZE => {
                (self.source.clone(), Digest { size: bytes.len() as u64, ..Digest::new() })
            }
            Source::Bytes(bytes) => {
                let bytes = bytes.clone();
                let digest = blocking(move || Digest::of(&bytes[..])).await;
                (self.source.clone(), digest.map_err(|error| unreadable(&label, error))?)
            }
            Source::Reader(spool) => {
                let spooled = spool.read().await.map_err(|error| unreadable(&label, error))?;
                (self.source.clone(), spooled.digest.clone())
            }
        };
        let invalid = |kind, message: String| Err(FileError::new(&label, kind, message).into());
        let Some(name) = self.stored_name() else {
            return invalid(FileErrorKind::InvalidName, "it has no name to be stored under".to_owned());
        };
        let size = digest.size;
        if size == 0 {
            return invalid(FileErrorKind::Empty, "it is empty".to_owned());
        }
        if size > MAX_SIZE {
            let message = format!("it has {size} bytes; the storage takes at most {MAX_SIZE} (100 MiB)");
            return invalid(FileErrorKind::TooLarge, message);
        }
        let chosen = match mime::choose(self.mime.as_deref(), &name, &digest.beginning) {
            Ok(chosen) => chosen,
            Err(mime) => {
                return invalid(FileErrorKind::InvalidMimeType, format!("{mime:?} is not a MIME type"));
            }
        };
        Ok(Prepared {
            label,
            name,
            size,
            mime: chosen.mime,
            overruled_extension: chosen.overruled_extension,
            content_id: digest.id(),
            source,
        })
    }

    /// The name of the file in errors.
    fn label(&self) -> String {
        match (&self.source, &self.name) {
            (Source::Path(path), _) => path.display().to_string(),
            (_, Some(name)) if !name.is_empty() => name.clone(),
            _ => "a file without a name".to_owned(),
        }
    }

    fn stored_name(&self) -> Option<String> {
        let name = match (&self.name, &self.source) {
            (Some(name), _) => Some(name.clone()),
            (None, Source::Path(path)) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
            (None, _) => None,
        };
        name.filter(|name| !name.trim().is_empty())
    }
}

/// Converts paths in all their forms.
macro_rules! from_paths {
    ($($path:ty),+) => {$(
        impl From<$path> for File {
            fn from(path: $path) -> Self {
                Self::path(path)
            }
        }
    )+};
}

from_paths!(&str, String, &String, PathBuf, &PathBuf, &Path);

/// Shows where the bytes come from, and not the bytes.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("File");
        match &self.source {
            Source::Path(path) => shown.field("path", path),
            Source::Bytes(bytes) => shown.field("bytes", &bytes.len()),
            Source::Reader(_) => shown.field("reader", &format_args!("…")),
        };
        shown.field("name", &self.name).field("mime", &self.mime).finish()
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
    /// The MIME type of the extension, where the content disagrees and was believed.
    pub(crate) overruled_extension: Option<String>,
    /// Identifies the content: a 128-bit hash with keys of this process, so that no two contents can be
    /// prepared that share one.
    pub(crate) content_id: u128,
    source: Source,
}

impl Prepared {
    /// The same file under an unguessable name: the URL of an input is its only access control, and the
    /// service does not define what happens to an existing file of the same name.
    pub(crate) fn with_unique_name(self) -> Self {
        Self { name: format!("{}-{}", random_hex(), self.name), ..self }
    }

    /// A reader over the content, from its beginning.
    pub(super) async fn open(&self) -> Result<Box<dyn AsyncRead + Send + Unpin>, FileError> {
        let opened = match &self.source {
            Source::Bytes(bytes) => return Ok(Box::new(io::Cursor::new(bytes.clone()))),
            Source::Path(path) => tokio::fs::File::open(path).await,
            Source::Reader(spool) => match spool.read().await {
                Ok(spooled) => tokio::fs::File::open(&spooled.path).await,
                Err(error) => Err(error),
            },
        };
        match opened {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => Err(unreadable(&self.label, error)),
        }
    }
}

/// The size, the hash and the first bytes of a content, computed chunk by chunk.
#[derive(Clone)]
pub(super) struct Digest {
    pub(super) size: u64,
    hashers: [DefaultHasher; 2],
    beginning: Vec<u8>,
}

impl Digest {
    pub(super) fn new() -> Self {
        static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
        let [first, second] = &*KEYS;
        Self { size: 0, hashers: [first.build_hasher(), second.build_hasher()], beginning: Vec::new() }
    }

    pub(super) fn update(&mut self, chunk: &[u8]) {
        let missing = SNIFF_LENGTH.saturating_sub(self.beginning.len());
        self.beginning.extend_from_slice(&chunk[..chunk.len().min(missing)]);
        self.size += chunk.len() as u64;
        for hasher in &mut self.hashers {
            hasher.write(chunk);
        }
    }

    pub(super) fn id(&self) -> u128 {
        self.hashers.iter().fold(0, |id, hasher| id << 64 | u128::from(hasher.finish()))
    }

    /// Reads at most one chunk more than the storage accepts.
    fn of(mut reader: impl Read) -> io::Result<Self> {
        let mut digest = Self::new();
        let mut chunk = vec![0; CHUNK];
        while digest.size <= MAX_SIZE {
            match reader.read(&mut chunk)? {
                0 => break,
                length => digest.update(&chunk[..length]),
            }
        }
        Ok(digest)
    }
}

/// The absolute path, because the working folder may change before the upload, and the digest.
fn digest_path(path: &Path) -> io::Result<(PathBuf, Digest)> {
    // Before it is opened, because opening a pipe blocks until another process writes to it.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        let message = "it is not a regular file; use File::reader for anything else";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let path = path.canonicalize()?;
    if metadata.len() > MAX_SIZE {
        return Ok((path, Digest { size: metadata.len(), ..Digest::new() }));
    }
    let digest = Digest::of(std::fs::File::open(&path)?)?;
    Ok((path, digest))
}

/// A reader, and the temporary file with its content once it was read.
struct Spool {
    reader: Mutex<Option<Box<dyn AsyncRead + Send + Unpin>>>,
    spooled: OnceCell<Result<Spooled, (io::ErrorKind, String)>>,
}

struct Spooled {
    path: TempPath,
    digest: Digest,
}

impl Spool {
    /// The content. The first caller reads it, concurrent callers wait for that.
    async fn read(&self) -> io::Result<&Spooled> {
        let spooled = self.spooled.get_or_init(|| async {
            let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
            // A canceled read took the reader, and a part of the content with it.
            let reader = reader.ok_or_else(|| io::Error::other("reading it was interrupted before"));
            let spooled = match reader {
                Ok(reader) => spool(reader).await,
                Err(error) => Err(error),
            };
            spooled.map_err(|error| (error.kind(), error.to_string()))
        });
        spooled.await.as_ref().map_err(|(kind, message)| io::Error::new(*kind, message.clone()))
    }
}

async fn spool(mut reader: Box<dyn AsyncRead + Send + Unpin>) -> io::Result<Spooled> {
    let temporary = blocking(|| tempfile::Builder::new().prefix("inferstore-").tempfile()).await?;
    let (file, path) = temporary.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let mut digest = Digest::new();
    let mut chunk = BytesMut::with_capacity(CHUNK);
    while reader.read_buf(&mut chunk).await? > 0 {
        digest.update(&chunk);
        if digest.size > MAX_SIZE {
            // The reader may be endless.
            let message = format!("it has more than {MAX_SIZE} bytes (100 MiB)");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        file.write_all(&chunk).await?;
        chunk.clear();
    }
    file.flush().await?;
    Ok(Spooled { path, digest })
}

/// An error of reading a source. The messages of this module stand for themselves.
pub(super) fn unreadable(file: &str, error: io::Error) -> FileError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => FileErrorKind::NotFound,
        io::ErrorKind::FileTooLarge => {
            return FileError::new(file, FileErrorKind::TooLarge, error.to_string());
        }
        io::ErrorKind::InvalidInput => {
            return FileError::new(file, FileErrorKind::Unreadable, error.to_string());
        }
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
pub(super) fn random_hex() -> String {
    let draw = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", draw(), draw())
}

#[cfg(test)]
mod tests;
