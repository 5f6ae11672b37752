//! State of a console: client, guard, files and runs.

use std::hash::RandomState;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use inferstore::types::TaskDetail;
use inferstore::{Client, PollInterval};
use tokio_util::sync::CancellationToken;

use crate::cache::{Bounded, Kept};
use crate::guard::Guard;
use crate::runs::Runs;

const MAX_KEPT: u64 = 2 * 1024 * 1024 * 1024;

const MAX_LINKS: u64 = 10_000;

const MAX_DETAILS: u64 = 500;

pub(crate) struct App {
    pub(crate) client: Client,
    pub(crate) poll: PollInterval,
    pub(crate) guard: Guard,
    pub(crate) runs: Arc<Runs>,
    pub(crate) kept: Bounded<Kept>,
    pub(crate) links: Bounded<String>,
    pub(crate) storage: OnceLock<String>,
    pub(crate) currency: OnceLock<String>,
    /// Ended tasks, which no longer change.
    pub(crate) details: Bounded<Arc<TaskDetail>>,
    pub(crate) hasher: RandomState,
    /// Cancelled when the console ends; ends event streams.
    pub(crate) ended: CancellationToken,
    pub(crate) folder: PathBuf,
}

impl App {
    pub(crate) fn new(client: Client, guard: Guard, poll: PollInterval, folder: PathBuf) -> Self {
        Self {
            client,
            poll,
            guard,
            runs: Arc::default(),
            kept: Bounded::new(MAX_KEPT),
            links: Bounded::new(MAX_LINKS),
            storage: OnceLock::new(),
            currency: OnceLock::new(),
            details: Bounded::new(MAX_DETAILS),
            hasher: RandomState::new(),
            ended: CancellationToken::new(),
            folder,
        }
    }
}

pub(crate) fn random_id() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
