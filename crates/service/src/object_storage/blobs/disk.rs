//! Blobs as files in one folder: `incoming` for writes, `blobs` for readable and `orphans` for orphaned blobs.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use async_trait::async_trait;
use axum::body::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use jiff::civil::Date;
use md5::{Digest, Md5};
use parking_lot::Mutex;
use tempfile::TempPath;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking};

use super::{
    Blob, BlobWriter, Blobs, ByteStream, Listed, NAME_LENGTH, OpenBlob, Orphan, Pages, is_blob, is_of_blobs,
};
use crate::database::Durability;
use crate::folder::if_present;
use crate::hex::hex;
use crate::random::Randomness;
use crate::{Error, Result};

/// Number of bytes collected before a write: small in memory, but worth the switch to a blocking thread.
const WRITE_BATCH: usize = 64 * 1024;

/// Size of a read. The next chunk is read while the previous one is sent.
const READ_CHUNK: u64 = 512 * 1024;
/// Maximum number of reads with large chunks, two in memory per slow client; others use `SMALL_READ_CHUNK`.
const MAX_LARGE_READS: usize = 128;
const SMALL_READ_CHUNK: u64 = 64 * 1024;

const BLOBS: &str = "blobs";

#[derive(Clone)]
pub(in crate::object_storage) struct Disk(Arc<Folder>);

struct Folder {
    incoming: PathBuf,
    blobs: PathBuf,
    orphans: PathBuf,
    is_durable: bool,
    /// Randomness without a seed, so that names of blobs never repeat.
    random: Randomness,
    opened_at: SystemTime,
    sub_folders: Mutex<HashSet<String>>,
    large_reads: Arc<Semaphore>,
    has_warned: AtomicBool,
}

impl Disk {
    pub(in crate::object_storage) fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let mut disk = Folder {
            incoming: folder.join("incoming"),
            blobs: folder.join(BLOBS),
            orphans: folder.join("orphans"),
            is_durable: durability == Durability::Full,
            random: Randomness::new(None),
            opened_at: SystemTime::UNIX_EPOCH,
            sub_folders: Mutex::default(),
            large_reads: Arc::new(Semaphore::new(MAX_LARGE_READS)),
            has_warned: AtomicBool::new(false),
        };
        let prepared = disk.prepare(folder);
        disk.opened_at =
            prepared.map_err(|cause| Error::keeping(format!("opening {}", folder.display()), cause))?;
        Ok(Self(Arc::new(disk)))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Folder) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let folder = Arc::clone(&self.0);
        let done = spawn_blocking(move || work(&folder)).await;
        done.map_err(io::Error::from).and_then(|done| done).map_err(|cause| Error::keeping(action, cause))
    }

    fn pages<T: Send + 'static>(
        &self,
        parent: PathBuf,
        fits: fn(&str) -> bool,
        read: fn(&Folder, &str, &Path) -> io::Result<Vec<T>>,
    ) -> Pages<'_, T> {
        let action = "listing the folder of objects";
        let folders = self.blocking(action, move |folder| folder.entries(&parent, Kind::Folder, fits));
        let folders = stream::once(folders).map_ok(|folders| stream::iter(folders.into_iter().map(Ok)));
        let page = move |(name, path): (String, PathBuf)| {
            self.blocking(action, move |folder| {
                Ok(if_present(read(folder, &name, &path))?.unwrap_or_default())
            })
        };
        folders.try_flatten().and_then(page).boxed()
    }
}

#[async_trait]
impl Blobs for Disk {
    fn begin(&self) -> Result<Box<dyn BlobWriter>> {
        let name = self.0.random.word(NAME_LENGTH)?;
        let path = self.0.incoming.join(&name);
        let create = move || {
            let file = File::create_new(&path)?;
            Ok(Part { file, path: TempPath::try_from_path(path)?, hash: Md5::new() })
        };
        let writing = spawn_blocking(create);
        Ok(Box::new(Incoming { disk: self.clone(), name, size: 0, batch: Vec::new(), batched: 0, writing }))
    }

    async fn open(&self, name: &str) -> Result<Option<OpenBlob>> {
        let path = self.0.path(name);
        // `open` would also open a folder, and a link could lead elsewhere.
        let opened = self.blocking("opening an object", move |_| {
            let is_file = if_present(fs::symlink_metadata(&path))?.is_some_and(|about| about.is_file());
            if is_file { if_present(File::open(path)) } else { Ok(None) }
        });
        let large_reads = Arc::clone(&self.0.large_reads);
        Ok(opened.await?.map(|file| Box::new(|range| read(file, range, large_reads)) as OpenBlob))
    }

    async fn remove(&self, name: &str) {
        let path = self.0.path(name);
        let removed = self.blocking("removing a blob", move |_| if_present(fs::remove_file(&path))).await;
        if let Err(cause) = removed {
            tracing::warn!(%cause, "a blob could not be removed; the sweeper sets it aside later");
        }
    }

    fn opened_at(&self) -> SystemTime {
        self.0.opened_at
    }

    fn blobs(&self) -> Pages<'_, Listed> {
        self.pages(self.0.blobs.clone(), is_sub_folder, |folder, sub_folder, path| {
            let is_in_place = |name: &str| is_blob(name) && name.starts_with(sub_folder);
            let mut blobs = Vec::new();
            for (name, path) in folder.entries(path, Kind::File, is_in_place)? {
                // A file that was just deleted has no metadata.
                let Ok(about) = fs::metadata(&path) else { continue };
                let modified = Timestamp::try_from(about.modified()?).map_err(io::Error::other)?;
                blobs.push(Listed { name, size: about.len(), etag: String::new(), modified });
            }
            Ok(blobs)
        })
    }

    async fn set_aside(&self, name: &str, day: Date) -> Result<()> {
        let orphan = Orphan { name: name.to_owned(), day };
        let moved = self.blocking("setting a blob aside", move |folder| {
            fs::create_dir_all(folder.orphans_of(orphan.day))?;
            if_present(fs::rename(folder.path(&orphan.name), folder.orphan(&orphan))).map(drop)
        });
        moved.await
    }

    fn orphans(&self) -> Pages<'_, Orphan> {
        let is_day = |name: &str| day(name).is_some();
        self.pages(self.0.orphans.clone(), is_day, |folder, name, path| {
            let Some(day) = day(name) else { return Ok(Vec::new()) };
            let names = folder.entries(path, Kind::File, is_blob)?;
            Ok(names.into_iter().map(|(name, _)| Orphan { name, day }).collect())
        })
    }

    async fn bring_back(&self, orphan: &Orphan) -> Result<()> {
        let orphan = orphan.clone();
        let moved = self.blocking("bringing an orphan back", move |folder| {
            folder.ensure_sub_folder(&orphan.name)?;
            if_present(fs::rename(folder.orphan(&orphan), folder.path(&orphan.name)))?;
            folder.remove_day(orphan.day);
            Ok(())
        });
        moved.await
    }

    async fn copy_to(&self, names: Vec<String>, target: &Path) -> Result<u64> {
        let target = target.to_owned();
        let copied = self.blocking("copying the blobs", move |folder| {
            let blobs = target.join(BLOBS);
            fs::create_dir_all(&blobs)?;
            let mut folders = BTreeSet::from([target.clone(), blobs.clone()]);
            let mut missing = 0;
            for name in &names {
                let parent = blobs.join(sub_folder(name));
                let to = parent.join(name);
                fs::create_dir_all(&parent)?;
                folders.insert(parent);
                if link_or_copy(&folder.path(name), &to)?.is_none() {
                    missing += 1;
                }
            }
            folders.extend(target.parent().map(Path::to_owned));
            for changed in &folders {
                folder.sync(changed)?;
            }
            Ok(missing)
        });
        copied.await
    }

    async fn export(&self, name: &str, size: u64, file: &Path) -> Result<bool> {
        let (name, file) = (name.to_owned(), file.to_owned());
        let copied = self.blocking("exporting a blob", move |folder| {
            Ok(link_or_copy(&folder.path(&name), &file)? == Some(size))
        });
        copied.await
    }

    async fn import(&self, name: &str, file: &Path, _: u64, _: &[u8]) -> Result<()> {
        let (name, file) = (name.to_owned(), file.to_owned());
        let copied = self.blocking("importing a blob", move |folder| {
            let sub_folder = folder.ensure_sub_folder(&name)?;
            let blob = sub_folder.join(&name);
            link_or_copy(&file, &blob)?.ok_or(ErrorKind::NotFound)?;
            // A linked file may not have been synced by the program that put it there.
            folder.sync(&blob)?;
            folder.sync(&sub_folder)
        });
        copied.await
    }

    async fn remove_orphan(&self, orphan: &Orphan) -> Result<()> {
        let orphan = orphan.clone();
        let removed = self.blocking("removing an orphan", move |folder| {
            if_present(fs::remove_file(folder.orphan(&orphan)))?;
            folder.remove_day(orphan.day);
            Ok(())
        });
        removed.await
    }
}

impl Folder {
    /// Prepares the folders. Returns the time of the file system's clock, which may be coarse or another machine's.
    fn prepare(&self, folder: &Path) -> io::Result<SystemTime> {
        for part in [&self.incoming, &self.blobs, &self.orphans] {
            fs::create_dir_all(part)?;
        }
        for (_, path) in self.entries(&self.incoming, Kind::File, is_blob)? {
            if_present(fs::remove_file(path))?;
        }
        let known = self.entries(&self.blobs, Kind::Folder, is_sub_folder)?.into_iter().map(|(name, _)| name);
        self.sub_folders.lock().extend(known);
        self.sync(&self.blobs)?;
        self.sync(folder)?;
        // The data folder may be new as well. Its parent may belong to another user, so a failed sync is ignored.
        let folder = std::path::absolute(folder)?;
        for ancestor in folder.ancestors().skip(1).take(2) {
            let _ = self.sync(ancestor);
        }
        tempfile::tempfile_in(&self.incoming)?.metadata()?.modified()
    }

    /// Returns the entries of this type with matching names; ignores those of other programs, and logs the first.
    fn entries(
        &self,
        folder: &Path,
        kind: Kind,
        fits: impl Fn(&str) -> bool,
    ) -> io::Result<Vec<(String, PathBuf)>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let is_of_kind = entry.file_type().is_ok_and(|it| it.is_dir() == (kind == Kind::Folder));
            match entry.file_name().into_string() {
                Ok(name) if is_of_kind && fits(&name) => entries.push((name, path)),
                _ if self.has_warned.swap(true, Ordering::Relaxed) => {}
                _ => {
                    tracing::warn!(path = %path.display(), "foreign files in the folder of objects are ignored");
                }
            }
        }
        Ok(entries)
    }

    /// Returns the path of a blob, in one of 1,024 folders, so that no folder grows too large.
    fn path(&self, name: &str) -> PathBuf {
        self.blobs.join(sub_folder(name)).join(name)
    }

    fn orphans_of(&self, day: Date) -> PathBuf {
        self.orphans.join(day.to_string())
    }

    fn orphan(&self, orphan: &Orphan) -> PathBuf {
        self.orphans_of(orphan.day).join(&orphan.name)
    }

    fn remove_day(&self, day: Date) {
        let _ = fs::remove_dir(self.orphans_of(day));
    }

    /// Creates the folder of a blob, and syncs it before its first use, even for concurrent blobs.
    fn ensure_sub_folder(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.blobs.join(sub_folder(name));
        let mut synced = self.sub_folders.lock();
        if !synced.contains(sub_folder(name)) || !path.exists() {
            fs::create_dir_all(&path)?;
            self.sync(&self.blobs)?;
            synced.insert(sub_folder(name).to_owned());
        }
        Ok(path)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        if self.is_durable { File::open(path)?.sync_all() } else { Ok(()) }
    }

    fn commit(&self, part: Part, name: &str) -> io::Result<Md5> {
        if self.is_durable {
            part.file.sync_all()?;
        }
        let sub_folder = self.ensure_sub_folder(name)?;
        part.path.persist(sub_folder.join(name))?;
        self.sync(&sub_folder)?;
        Ok(part.hash)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
}

fn day(name: &str) -> Option<Date> {
    name.parse().ok().filter(|day: &Date| day.to_string() == name)
}

fn sub_folder(name: &str) -> &str {
    name.get(..2).unwrap_or(name)
}

fn is_sub_folder(name: &str) -> bool {
    name.len() == 2 && is_of_blobs(name)
}

/// Links a file, or copies it as a whole where links fail; an equal file may exist. Returns the size; None for no file.
fn link_or_copy(from: &Path, to: &Path) -> io::Result<Option<u64>> {
    let named =
        |cause: io::Error| io::Error::new(cause.kind(), format!("the blob {}: {cause}", from.display()));
    let Some(about) = if_present(fs::symlink_metadata(from))? else { return Ok(None) };
    if !about.is_file() {
        return Err(named(io::Error::other("it is no file")));
    }
    let size = about.len();
    if if_present(fs::metadata(to))?.is_some_and(|about| about.len() == size)
        || fs::hard_link(from, to).is_ok()
    {
        return Ok(Some(size));
    }
    let mut copy = tempfile::NamedTempFile::new_in(to.parent().unwrap_or(to))?;
    io::copy(&mut File::open(from).map_err(named)?, &mut copy).map_err(named)?;
    copy.as_file().sync_all()?;
    copy.persist(to)?;
    Ok(Some(size))
}

fn read(mut file: File, range: Range<u64>, large_reads: Arc<Semaphore>) -> ByteStream {
    let length = range.end.saturating_sub(range.start);
    let permit = large_reads.try_acquire_owned().ok().filter(|_| length > SMALL_READ_CHUNK);
    let chunk = if permit.is_some() { READ_CHUNK } else { SMALL_READ_CHUNK };
    let first = spawn_blocking(move || {
        file.seek(SeekFrom::Start(range.start))?;
        read_chunk(file, chunk.min(length))
    });
    let reader = Reader { next: Some(first), remaining: length, chunk, _permit: permit };
    stream::unfold(reader, Reader::next).boxed()
}

/// Reads one chunk ahead of the chunk that is being sent.
struct Reader {
    next: Option<JoinHandle<io::Result<(File, Bytes)>>>,
    remaining: u64,
    chunk: u64,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Reader {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if self.remaining == 0 {
            return None;
        }
        let read = self.next.take()?.await.map_err(io::Error::from).and_then(|read| read);
        let (file, bytes) = match read {
            Ok(read) => read,
            Err(cause) => return Some((Err(cause), self)),
        };
        self.remaining = self.remaining.saturating_sub(bytes.len() as u64);
        let next = self.chunk.min(self.remaining);
        self.next = (next > 0).then(|| spawn_blocking(move || read_chunk(file, next)));
        Some((Ok(bytes), self))
    }
}

fn read_chunk(mut file: File, length: u64) -> io::Result<(File, Bytes)> {
    let mut chunk = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    let read = Read::by_ref(&mut file).take(length).read_to_end(&mut chunk)?;
    if (read as u64) < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok((file, chunk.into()))
}

/// A blob that is being written: a blocking thread writes one batch after another, while the next batch is collected.
struct Incoming {
    disk: Disk,
    name: String,
    size: u64,
    batch: Vec<Bytes>,
    batched: usize,
    writing: JoinHandle<io::Result<Part>>,
}

/// A file in `incoming`, deleted on drop unless committed. Owned by its writer, which may outlive the upload.
struct Part {
    file: File,
    path: TempPath,
    hash: Md5,
}

impl Incoming {
    async fn flush(&mut self) -> Result<()> {
        let mut part = self.written().await?;
        let batch = std::mem::take(&mut self.batch);
        self.batched = 0;
        self.writing = spawn_blocking(move || {
            for chunk in batch {
                part.hash.update(&chunk);
                part.file.write_all(&chunk)?;
            }
            Ok(part)
        });
        Ok(())
    }

    async fn written(&mut self) -> Result<Part> {
        let written = (&mut self.writing).await.map_err(io::Error::from).and_then(|written| written);
        written.map_err(|cause| Error::keeping(self.action(), cause))
    }

    fn action(&self) -> String {
        format!("writing an object to {}", self.disk.0.incoming.display())
    }
}

#[async_trait]
impl BlobWriter for Incoming {
    fn size(&self) -> u64 {
        self.size
    }

    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.size += chunk.len() as u64;
        self.batched += chunk.len();
        self.batch.push(chunk);
        if self.batched >= WRITE_BATCH { self.flush().await } else { Ok(()) }
    }

    async fn commit(mut self: Box<Self>) -> Result<Blob> {
        self.flush().await?;
        let part = self.written().await?;
        let name = self.name.clone();
        let hash = self.disk.blocking("storing an object", move |folder| folder.commit(part, &name)).await?;
        Ok(Blob { name: self.name, size: self.size, etag: hex(&hash.finalize()) })
    }
}
