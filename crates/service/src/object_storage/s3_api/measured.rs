//! The body of a form, read piece by piece and no further than allowed. The parser of forms keeps what it
//! cannot make sense of yet, as much as comes; so a stranger could fill the memory with a body that never
//! has a field.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, BodyDataStream};
use futures_util::{Stream, StreamExt};

use crate::object_storage::blobs::Bytes;

/// A body with a bound. Clones read on where the others have stopped.
#[derive(Clone)]
pub(crate) struct Measured(Arc<Mutex<State>>);

struct State {
    body: BodyDataStream,
    /// How much more may be read.
    left: u64,
    /// Whether whoever reads has had its piece, and is to look at it before it gets another.
    is_turn_over: bool,
}

/// Why a body is not read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Whoever sent it hung up.
    Short,
    /// There is more of it than was allowed.
    TooLarge,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the body was cut off",
            Self::TooLarge => "the body is larger than allowed",
        })
    }
}

impl std::error::Error for Unread {}

impl Measured {
    /// Of this body, so many bytes may be read for now.
    pub(crate) fn new(body: Body, allowed: u64) -> Self {
        let body = body.into_data_stream();
        Self(Arc::new(Mutex::new(State { body, left: allowed, is_turn_over: false })))
    }

    /// Allows so many further bytes.
    pub(crate) fn allow(&self, bytes: u64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.left = state.left.saturating_add(bytes);
    }
}

impl Stream for Measured {
    type Item = Result<Bytes, Unread>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.is_turn_over) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Poll::Ready(piece) = state.body.poll_next_unpin(cx) else { return Poll::Pending };
        state.is_turn_over = piece.is_some();
        Poll::Ready(piece.map(|piece| {
            let piece = piece.map_err(|_| Unread::Short)?;
            state.left = state.left.checked_sub(piece.len() as u64).ok_or(Unread::TooLarge)?;
            Ok(piece)
        }))
    }
}
