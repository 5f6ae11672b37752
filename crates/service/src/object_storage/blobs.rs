//! Blobs: the bytes of objects, in files with random names. A blob is whole and synced before it has
//! its place, and nothing is read from anywhere else.
//!
//! Keys are not part of any path, so that every key works, `a` and `a/b` live side by side, and nobody
//! can name a file of the machine.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use md5::{Digest, Md5};
use s3s::Body;
use tokio::task::JoinHandle;

use crate::Error;
use crate::database::sqlite::Durability;
use crate::object_storage::s3_api::sign::hex;
use crate::random::Randomness;

/// What a chunk of a body is.
pub(super) type Bytes = axum::body::Bytes;

/// How much is gathered before it is written: few enough bytes to keep uploads small in memory, enough
/// to make the way to a thread that may block worth it.
const BATCH: usize = 64 * 1024;

/// How much of a blob is read at once.
const READ: usize = 64 * 1024;

/// The folder of blobs.
#[derive(Debug)]
pub(super) struct Blobs {
    incoming: PathBuf,
    blobs: PathBuf,
    is_durable: bool,
    /// Names of blobs never repeat, not even with the seed of a test.
    random: Randomness,
    /// When the folder was opened.
    opened: SystemTime,
}

impl Blobs {
    /// Opens the folder and clears away what earlier uploads left unfinished.
    pub(super) fn open(folder: &Path, durability: Durability) -> Result<Self, Error> {
        let mut blobs = Self {
            incoming: folder.join("incoming"),
            blobs: self::folder(folder),
            is_durable: durability == Durability::Full,
            random: Randomness::new(None),
            opened: SystemTime::UNIX_EPOCH,
        };
        let opened = blobs.prepare(folder);
        blobs.opened =
            opened.map_err(|cause| Error::keeping(format!("opening {}", folder.display()), cause))?;
        Ok(blobs)
    }

    /// Returns what the time is, by the clock that stamps the files here: it ticks more slowly than ours,
    /// and may be the one of another machine.
    fn prepare(&self, folder: &Path) -> io::Result<SystemTime> {
        fs::create_dir_all(&self.incoming)?;
        fs::create_dir_all(&self.blobs)?;
        // A folder can be lost with the power too.
        folder.parent().map_or(Ok(()), |parent| self.sync(parent))?;
        self.sync(folder)?;
        for entry in fs::read_dir(&self.incoming)? {
            fs::remove_file(entry?.path())?;
        }
        tempfile::tempfile_in(&self.incoming)?.metadata()?.modified()
    }

    /// When the folder was opened: what was last written before then was not written by this process.
    pub(super) const fn opened(&self) -> SystemTime {
        self.opened
    }

    /// Begins a blob.
    pub(super) fn begin(&self) -> Result<Incoming, Error> {
        let name = self.random.word(26)?;
        let path = self.incoming.join(&name);
        Ok(Incoming {
            name,
            leftover: Arc::new(Leftover { path }),
            size: 0,
            batch: Vec::new(),
            batched: 0,
            job: Job::Begin,
            is_durable: self.is_durable,
        })
    }

    /// Gives a whole blob its place, in such a way that it survives the loss of power.
    pub(super) fn keep(&self, whole: &Whole) -> Result<(), Error> {
        let keep = || {
            let place = self.place(&whole.name);
            if let Some(folder) = place.parent()
                && !folder.exists()
            {
                fs::create_dir_all(folder)?;
                self.sync(&self.blobs)?;
            }
            fs::rename(&whole.leftover.path, &place)?;
            place.parent().map_or(Ok(()), |folder| self.sync(folder))
        };
        let doing = || format!("giving an object its place below {}", self.blobs.display());
        keep().map_err(|cause: io::Error| Error::keeping(doing(), cause))
    }

    fn sync(&self, folder: &Path) -> io::Result<()> {
        if self.is_durable { File::open(folder)?.sync_all() } else { Ok(()) }
    }

    /// Where a blob has its place: in one of about a thousand folders, so that none grows too large.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        place_in(&self.blobs, name)
    }

    /// Removes a blob. One that is gone already is no failure; one that cannot be removed now is found
    /// by the sweep.
    pub(super) fn remove(&self, name: &str) {
        match fs::remove_file(self.place(name)) {
            Ok(()) => {}
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => tracing::warn!(%cause, "a blob could not be removed; it will be swept later"),
        }
    }

    /// The names of the blobs that were last written before then.
    pub(super) fn older_than(&self, then: SystemTime) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for folder in fs::read_dir(&self.blobs)? {
            for entry in fs::read_dir(folder?.path())? {
                let entry = entry?;
                if entry.metadata().and_then(|about| about.modified()).is_ok_and(|at| at < then) {
                    names.extend(entry.file_name().into_string());
                }
            }
        }
        Ok(names)
    }

    /// Opens a blob for reading; None when it is gone.
    pub(super) async fn read(&self, name: &str) -> Result<Option<tokio::fs::File>, Error> {
        match tokio::fs::File::open(self.place(name)).await {
            Ok(file) => Ok(Some(file)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::new("opening an object", cause)),
        }
    }
}

/// The folder of the blobs of an object store.
pub(super) fn folder(objects: &Path) -> PathBuf {
    objects.join("blobs")
}

/// Where a blob has its place in a folder of blobs.
pub(super) fn place_in(blobs: &Path, name: &str) -> PathBuf {
    blobs.join(name.get(..2).unwrap_or(name)).join(name)
}

/// A part of a blob as a body.
pub(super) async fn stream(mut file: tokio::fs::File, from: u64, length: u64) -> io::Result<Body> {
    use tokio::io::{AsyncReadExt, AsyncSeekExt};
    if from > 0 {
        file.seek(io::SeekFrom::Start(from)).await?;
    }
    let reader = tokio_util::io::ReaderStream::with_capacity(file.take(length), READ);
    Ok(s3s::dto::StreamingBlob::wrap(reader).into())
}

/// A blob on its way in. Dropping it leaves nothing behind.
pub(super) struct Incoming {
    name: String,
    leftover: Arc<Leftover>,
    size: u64,
    batch: Vec<Bytes>,
    batched: usize,
    job: Job,
    is_durable: bool,
}

/// The file that is written and hashed on a thread that may block, one batch after the other, while the
/// next batch is gathered.
enum Job {
    Begin,
    Writing(JoinHandle<io::Result<(File, Md5)>>),
}

/// A blob that is whole and synced, and has no place yet. Dropping it removes the file.
pub(super) struct Whole {
    pub(super) name: String,
    pub(super) size: u64,
    /// MD5 in hex.
    pub(super) etag: String,
    leftover: Arc<Leftover>,
}

/// A file in the folder of what comes in, removed when nobody needs it any more. Whoever writes it needs it:
/// an upload may end before its first batch has come to a thread, which would make the file afterwards.
struct Leftover {
    path: PathBuf,
}

impl Drop for Leftover {
    fn drop(&mut self) {
        // It is gone already when the blob got its place.
        let _ = fs::remove_file(&self.path);
    }
}

impl Incoming {
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    pub(super) async fn write(&mut self, chunk: Bytes) -> Result<(), Error> {
        self.size += chunk.len() as u64;
        self.batched += chunk.len();
        self.batch.push(chunk);
        if self.batched >= BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let before = std::mem::replace(&mut self.job, Job::Begin).end(&self.leftover).await?;
        let (batch, leftover) = (std::mem::take(&mut self.batch), Arc::clone(&self.leftover));
        self.batched = 0;
        self.job = Job::Writing(tokio::task::spawn_blocking(move || {
            let (mut file, mut hash) = match before {
                Some(before) => before,
                None => (File::create_new(&leftover.path)?, Md5::new()),
            };
            for chunk in batch {
                hash.update(&chunk);
                file.write_all(&chunk)?;
            }
            Ok((file, hash))
        }));
        Ok(())
    }

    /// Ends the blob: everything is written, and synced where that is wanted.
    pub(super) async fn finish(mut self) -> Result<Whole, Error> {
        self.flush().await?;
        let (job, is_durable) = (std::mem::replace(&mut self.job, Job::Begin), self.is_durable);
        let Some((file, hash)) = job.end(&self.leftover).await? else {
            return Err(Error::new("writing an object", "it was never begun"));
        };
        let synced = tokio::task::spawn_blocking(move || if is_durable { file.sync_all() } else { Ok(()) });
        let failed = |cause| self.leftover.failed(cause);
        synced.await.map_err(io::Error::from).and_then(|synced| synced).map_err(failed)?;
        let etag = hex(&hash.finalize());
        Ok(Whole { name: self.name, size: self.size, etag, leftover: self.leftover })
    }
}

impl Job {
    async fn end(self, file: &Leftover) -> Result<Option<(File, Md5)>, Error> {
        match self {
            Self::Begin => Ok(None),
            Self::Writing(job) => {
                let written = job.await.map_err(io::Error::from).and_then(|written| written);
                written.map(Some).map_err(|cause| file.failed(cause))
            }
        }
    }
}

impl Leftover {
    fn failed(&self, cause: io::Error) -> Error {
        let folder = self.path.parent().unwrap_or(&self.path);
        Error::keeping(format!("writing an object to {}", folder.display()), cause)
    }
}
