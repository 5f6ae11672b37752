//! The faults that wait for requests, and which of them a request meets.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::middleware::RequestInfo;
use super::{Controls, Fault};
use crate::{Error, Result};

/// A fault that was added and not cleared.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KeptFault {
    /// Names it.
    pub id: u64,
    /// The fault as it was added.
    pub fault: Fault,
    /// How many requests have met it.
    pub met: u64,
}

/// All faults.
pub(super) struct Faults {
    inner: Mutex<Inner>,
    seed: Option<u64>,
}

struct Inner {
    kept: Vec<KeptFault>,
    next: u64,
    random: fastrand::Rng,
}

impl Faults {
    pub(super) fn new(seed: Option<u64>) -> Self {
        Self { inner: Mutex::new(Inner { kept: Vec::new(), next: 1, random: random(seed) }), seed }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first fault that a request meets. Faults that have happened often enough meet nothing.
    pub(super) fn meet(&self, seen: &RequestInfo) -> Option<(u64, Fault)> {
        let Inner { kept, random, .. } = &mut *self.inner();
        let met = kept.iter_mut().find(|kept| {
            let is_left = kept.fault.times.is_none_or(|times| kept.met < times);
            // Nothing is drawn for requests that it cannot meet, so that these change no sequence.
            is_left && seen.matches(&kept.fault) && kept.fault.probability.is_none_or(|p| random.f64() < p)
        })?;
        met.met += 1;
        Some((met.id, met.fault.clone()))
    }

    /// No faults, and what is drawn begins anew.
    pub(super) fn reset(&self) {
        let mut inner = self.inner();
        inner.kept.clear();
        inner.random = random(self.seed);
    }
}

fn random(seed: Option<u64>) -> fastrand::Rng {
    seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed)
}

impl Controls {
    /// From now on, requests meet this fault. The first of several that fit is the one that happens.
    /// Returns its number.
    ///
    /// # Errors
    /// When it can be no fault: a status that does not exist, a probability above 1, or a path that no request has.
    pub fn add_fault(&self, fault: Fault) -> Result<u64> {
        if let Some(mistake) = fault.mistake() {
            return Err(Error::new("adding a fault", mistake));
        }
        let mut inner = self.tester.faults.inner();
        let id = inner.next;
        inner.next += 1;
        inner.kept.push(KeptFault { id, fault, met: 0 });
        Ok(id)
    }

    /// The faults in the order in which they were added, also those that have happened often enough.
    pub fn faults(&self) -> Vec<KeptFault> {
        self.tester.faults.inner().kept.clone()
    }

    /// Removes one fault; false when there is none with this number.
    pub fn clear_fault(&self, id: u64) -> bool {
        let kept = &mut self.tester.faults.inner().kept;
        let before = kept.len();
        kept.retain(|fault| fault.id != id);
        kept.len() < before
    }

    /// From now on the service behaves.
    pub fn clear_faults(&self) {
        self.tester.faults.inner().kept.clear();
    }
}
