//! A reader can be read once, a file as often as need be: from the one to the other.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

use super::{BEGINNING, LARGEST, TemporaryFile};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// How much is hashed before others may go on.
const HASHED_AT_ONCE: usize = 1024 * 1024;

/// What a reader gives, once it was read.
pub(crate) struct Spool(Mutex<State>);

enum State {
    Unread(Box<dyn AsyncRead + Send + Unpin>),
    Read(Arc<Spooled>),
    /// What was read is lost, for this reason.
    Lost(String),
}

/// The temporary file, which goes with the last one that uses it.
#[derive(Debug)]
pub(crate) struct Spooled {
    file: TemporaryFile,
    size: u64,
    hash: u64,
    beginning: Bytes,
}

impl Spool {
    pub(super) fn new(reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self(Mutex::new(State::Unread(Box::new(reader))))
    }

    /// What the reader gave. Whoever comes first reads it; the others wait.
    pub(super) async fn spooled(&self) -> io::Result<Arc<Spooled>> {
        let mut state = self.0.lock().await;
        // Should this future be dropped half way, a part of the content is gone with it.
        match std::mem::replace(&mut *state, State::Lost("reading it was interrupted before".to_owned())) {
            State::Unread(reader) => match read(reader).await {
                Ok(spooled) => {
                    let spooled = Arc::new(spooled);
                    *state = State::Read(Arc::clone(&spooled));
                    Ok(spooled)
                }
                Err(error) => {
                    *state = State::Lost(error.to_string());
                    Err(error)
                }
            },
            State::Read(spooled) => {
                *state = State::Read(Arc::clone(&spooled));
                Ok(spooled)
            }
            State::Lost(reason) => {
                *state = State::Lost(reason.clone());
                Err(io::Error::other(reason))
            }
        }
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool").finish_non_exhaustive()
    }
}

impl Spooled {
    pub(crate) fn path(&self) -> &std::path::Path {
        self.file.path()
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn beginning(&self) -> &Bytes {
        &self.beginning
    }
}

async fn read(mut reader: Box<dyn AsyncRead + Send + Unpin>) -> io::Result<Spooled> {
    let (file, mut writer) = TemporaryFile::private().await?;
    let mut hasher = keyed_hasher();
    let mut beginning = BytesMut::new();
    let mut chunk = BytesMut::with_capacity(CHUNK);
    let mut size = 0;
    loop {
        chunk.clear();
        if reader.read_buf(&mut chunk).await? == 0 {
            break;
        }
        size += chunk.len() as u64;
        if size > LARGEST {
            // Not to the end: there may be none.
            return Err(io::Error::other(format!("it gives more than {LARGEST} bytes (100 MiB)")));
        }
        let missing = BEGINNING as usize - beginning.len();
        beginning.extend_from_slice(&chunk[..chunk.len().min(missing)]);
        hasher.write(&chunk);
        writer.write_all(&chunk).await?;
    }
    writer.flush().await?;
    Ok(Spooled { file, size, hash: hasher.finish(), beginning: beginning.freeze() })
}

/// The hash of a content. It takes its time, so others may go on in between.
pub(super) async fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = keyed_hasher();
    for part in bytes.chunks(HASHED_AT_ONCE) {
        hasher.write(part);
        tokio::task::yield_now().await;
    }
    hasher.finish()
}

/// With a key of this process, so that nobody can prepare two files that are taken for one.
fn keyed_hasher() -> impl Hasher {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).build_hasher()
}
