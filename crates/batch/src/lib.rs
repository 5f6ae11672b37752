//! Batches for the Inferstore client: a journal that survives a kill, and one wait for many tasks.
//!
#![doc = include_str!("../README.md")]
// A program cannot spawn a future that is not `Send`.
#![warn(clippy::future_not_send)]

mod history;
mod item;
mod journal;
mod step;
mod wait_all;

pub use item::{Batch, Error, Item, limit_pause, within_limits};
pub use journal::{ItemId, Journal, JournalError, JournalErrorKind};
pub use step::Step;
pub use wait_all::{WaitAll, wait_all};
