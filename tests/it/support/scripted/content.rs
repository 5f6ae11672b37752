//! Bytes that came in or go out, without keeping more of them in memory than a test wants.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Tells contents apart without keeping them (FNV-1a, 64 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(0xcbf2_9ce4_8422_2325).followed_by(bytes)
    }

    /// The fingerprint of what was there so far and these bytes behind it.
    pub(crate) fn followed_by(self, bytes: &[u8]) -> Self {
        let mut hash = self.0;
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self(hash)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// What came in: its length and fingerprint, and its first bytes as far as they were to be kept.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) length: u64,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) first: Vec<u8>,
    limit: usize,
}

impl Received {
    pub(super) fn keeping_first(limit: usize) -> Self {
        Self { length: 0, fingerprint: Fingerprint::of(b""), first: Vec::new(), limit }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(self.limit - self.first.len());
        self.first.extend_from_slice(&bytes[..kept]);
        self.length += bytes.len() as u64;
        self.fingerprint = self.fingerprint.followed_by(bytes);
    }

    /// Whether `first` is all of it.
    pub(super) fn is_kept(&self) -> bool {
        self.length == self.first.len() as u64
    }
}

/// What goes out.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Bytes(Arc<[u8]>),
    /// A part of the endless pattern 0, 1, 2, …, 250, 0, 1, …, made while it is sent.
    Pattern(Range<u64>),
}

impl Content {
    pub(crate) fn pattern(length: u64) -> Self {
        Self::Pattern(0..length)
    }

    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Pattern(range) => range.end - range.start,
        }
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.pieces().fold(Fingerprint::of(b""), |fingerprint, piece| fingerprint.followed_by(&piece.bytes()))
    }

    /// The same content in pieces that are small enough to hold.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Self> + Send + use<'_> {
        const LENGTH: u64 = 64 * 1024;
        let count = self.length().div_ceil(LENGTH);
        (0..count).map(move |index| self.part(index * LENGTH..self.length().min((index + 1) * LENGTH)))
    }

    pub(super) fn part(&self, range: Range<u64>) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes[index(range.start)..index(range.end)].into()),
            Self::Pattern(whole) => Self::Pattern(whole.start + range.start..whole.start + range.end),
        }
    }

    pub(super) fn first_half(&self) -> Self {
        self.part(0..self.length() / 2)
    }

    pub(super) fn bytes(&self) -> Arc<[u8]> {
        match self {
            Self::Bytes(bytes) => Arc::clone(bytes),
            Self::Pattern(range) => range.clone().map(|offset| (offset % 251) as u8).collect(),
        }
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().into())
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("what is in memory can be indexed")
}
