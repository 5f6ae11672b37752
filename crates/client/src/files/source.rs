//! Files that go into the storage: from a path, from memory, or from a reader.

mod spool;
mod temporary;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::files::mime;
use crate::transport::error::{Error, FileError, Result};
use spool::Spool;

pub(crate) use spool::Spooled;
pub(crate) use temporary::TemporaryFile;

/// The largest file that the storage takes: 100 MiB.
pub(crate) const LARGEST: u64 = 104_857_600;

/// How much of a file is looked at to find out what it is.
const BEGINNING: u64 = 8 * 1024;

/// A file to be uploaded. A path turns into one by itself.
///
/// ```
/// use inferstore::{File, Inputs};
///
/// let inputs = Inputs::new()
///     .file("input", "photo.jpg")
///     .file("mask_img", File::bytes("mask.png", vec![0_u8; 16]).with_mime("image/png"));
/// ```
///
/// Nothing is read before it is used. A file of more than 104,857,600 bytes (100 MiB) or of none is
/// refused then, before anything is sent. A clone is the same file; a reader is read once for all of
/// them.
#[derive(Clone)]
pub struct File {
    source: Source,
    name: Option<String>,
    mime: Option<String>,
}

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

    /// A file in memory.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { source: Source::Bytes(bytes.into()), name: Some(name.into()), mime: None }
    }

    /// Whatever the reader gives. It is written to a temporary file when it is first used, because the
    /// size must be known before and the bytes may have to be sent again; the last clone takes the
    /// temporary file with it.
    pub fn reader(name: impl Into<String>, reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self { source: Source::Reader(Arc::new(Spool::new(reader))), name: Some(name.into()), mime: None }
    }

    /// The file under another name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The file with this MIME type, whatever its content and its name say.
    #[must_use]
    pub fn with_mime(self, mime: impl Into<String>) -> Self {
        Self { mime: Some(mime.into()), ..self }
    }

    /// Looks at the file: everything that has to be known before it is sent.
    pub(crate) async fn open(&self) -> Result<Opened> {
        let label = self.label();
        let (content, size, beginning) = match &self.source {
            Source::Path(path) => look_at(path).await.map_err(|error| unreadable(&label, error))?,
            Source::Bytes(bytes) => {
                let content = Content::Bytes { bytes: bytes.clone(), hash: spool::hash(bytes).await };
                let beginning = bytes.slice(..bytes.len().min(BEGINNING as usize));
                (content, bytes.len() as u64, beginning)
            }
            Source::Reader(spool) => {
                let spooled = spool.spooled().await.map_err(|error| unreadable(&label, error))?;
                let beginning = spooled.beginning().clone();
                (Content::Spooled(Arc::clone(&spooled)), spooled.size(), beginning)
            }
        };
        let name = self.stored_name().ok_or_else(|| trouble(&label, "it has no name to be stored under"))?;
        if size == 0 {
            return Err(trouble(&label, "it is empty, and the storage takes no empty files"));
        }
        if size > LARGEST {
            return Err(trouble(
                &label,
                format!("it has {size} bytes; the storage takes at most {LARGEST} (100 MiB)"),
            ));
        }
        let mime = mime::choose(self.mime.as_deref(), &name, &beginning).map_err(|mime| {
            trouble(&label, format!("{mime:?} is not a MIME type; one looks like image/png"))
        })?;
        let fingerprint = Fingerprint { content: content.fingerprint(size), mime: mime.clone() };
        Ok(Opened { label, name, size, mime, content, fingerprint })
    }

    /// How errors call it.
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

/// The same source, name and MIME type. Readers are equal only to their clones.
impl PartialEq for File {
    fn eq(&self, other: &Self) -> bool {
        let is_same_source = match (&self.source, &other.source) {
            (Source::Path(one), Source::Path(other)) => one == other,
            (Source::Bytes(one), Source::Bytes(other)) => one == other,
            (Source::Reader(one), Source::Reader(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        is_same_source && self.name == other.name && self.mime == other.mime
    }
}

impl From<&str> for File {
    fn from(path: &str) -> Self {
        Self::path(path)
    }
}

impl From<String> for File {
    fn from(path: String) -> Self {
        Self::path(path)
    }
}

impl From<PathBuf> for File {
    fn from(path: PathBuf) -> Self {
        Self::path(path)
    }
}

impl From<&Path> for File {
    fn from(path: &Path) -> Self {
        Self::path(path)
    }
}

/// Where it comes from, and not what is in it.
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

/// A file that was looked at: it can be sent, as often as need be.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    label: String,
    name: String,
    size: u64,
    mime: String,
    content: Content,
    fingerprint: Fingerprint,
}

/// Where the bytes are.
#[derive(Clone)]
pub(crate) enum Content {
    /// In a file of the caller, which may change under our hands.
    Path { path: PathBuf, stamp: Stamp },
    /// In memory.
    Bytes { bytes: Bytes, hash: u64 },
    /// In a file of ours.
    Spooled(Arc<Spooled>),
}

impl Content {
    fn fingerprint(&self, size: u64) -> ContentFingerprint {
        match self {
            Self::Path { path, stamp } => ContentFingerprint::Path(path.clone(), *stamp),
            Self::Bytes { hash, .. } => ContentFingerprint::Hash { size, hash: *hash },
            Self::Spooled(spooled) => ContentFingerprint::Hash { size, hash: spooled.hash() },
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Path { .. } => "Path",
            Self::Bytes { .. } => "Bytes",
            Self::Spooled(_) => "Spooled",
        })
    }
}

/// By which a file is known to be the one that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    length: u64,
    /// Some file systems do not know.
    modified: Option<SystemTime>,
}

impl Stamp {
    pub(crate) async fn of(file: &tokio::fs::File) -> io::Result<Self> {
        let metadata = file.metadata().await?;
        Ok(Self { length: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// What tells one upload from another. Equal fingerprints: the same bytes, declared as the same type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint {
    content: ContentFingerprint,
    mime: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ContentFingerprint {
    Path(PathBuf, Stamp),
    Hash { size: u64, hash: u64 },
}

impl Opened {
    /// How errors call it.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// What it is to be stored as.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The same file, stored under a name that nothing else has: the service builds the object key from
    /// folder and name, and does not say what becomes of a file whose key is taken.
    pub(crate) fn under_a_name_of_its_own(mut self) -> Self {
        self.name = format!("{:016x}-{}", fastrand::u64(..), self.name);
        self
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn mime(&self) -> &str {
        &self.mime
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// By which the same content is known, so that it is sent once.
    pub(crate) fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }
}

async fn look_at(path: &Path) -> io::Result<(Content, u64, Bytes)> {
    // Before it is opened, because opening a pipe waits for whoever writes into it.
    if !tokio::fs::metadata(path).await?.is_file() {
        return Err(io::Error::other("it is not a regular file; give anything else as a reader"));
    }
    // Absolute, because the working folder may change before it is sent.
    let path = tokio::fs::canonicalize(path).await?;
    let file = tokio::fs::File::open(&path).await?;
    let stamp = Stamp::of(&file).await?;
    let mut beginning = Vec::new();
    file.take(BEGINNING).read_to_end(&mut beginning).await?;
    Ok((Content::Path { path, stamp }, stamp.length, beginning.into()))
}

/// An error about a file.
pub(crate) fn trouble(file: &str, problem: impl Into<String>) -> Error {
    Error::File(Box::new(FileError {
        field: None,
        file: file.to_owned(),
        problem: problem.into(),
        source: None,
    }))
}

/// An error about a file that something else stands behind.
pub(crate) fn trouble_from(
    file: &str,
    problem: impl Into<String>,
    source: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    let source = Some(source.into());
    Error::File(Box::new(FileError { field: None, file: file.to_owned(), problem: problem.into(), source }))
}

fn unreadable(file: &str, error: io::Error) -> Error {
    trouble_from(file, format!("it cannot be read: {error}"), error)
}

#[cfg(test)]
mod tests;
