//! Active faults, and the choice of the fault for a request.

use parking_lot::Mutex;
use serde::Serialize;

use super::middleware::RequestInfo;
use super::{Controls, Fault};
use crate::{Error, Result};

/// A fault that was added and not cleared.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KeptFault {
    /// Number that identifies the fault.
    pub id: u64,
    /// The fault as added.
    pub fault: Fault,
    /// Number of requests that the fault was applied to.
    pub met: u64,
}

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

    pub(super) fn meet(&self, seen: &RequestInfo) -> Option<(u64, Fault)> {
        let Inner { kept, random, .. } = &mut *self.inner.lock();
        let met = kept.iter_mut().find(|kept| {
            let is_left = kept.fault.times.is_none_or(|times| kept.met < times);
            // Requests that the fault does not match consume no random number, so that they do not change the sequence.
            is_left && seen.matches(&kept.fault) && kept.fault.probability.is_none_or(|p| random.f64() < p)
        })?;
        met.met += 1;
        Some((met.id, met.fault.clone()))
    }

    pub(super) fn reset(&self) {
        let mut inner = self.inner.lock();
        inner.kept.clear();
        inner.random = random(self.seed);
    }
}

fn random(seed: Option<u64>) -> fastrand::Rng {
    seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed)
}

impl Controls {
    /// Adds a fault and returns its number. If several faults match a request, the first applies. Fails if the fault is
    /// invalid: a status that does not exist, a probability above 1, or a path that no request has.
    pub fn add_fault(&self, fault: Fault) -> Result<u64> {
        if let Some(mistake) = fault.mistake() {
            return Err(Error::new("adding a fault", mistake));
        }
        let mut inner = self.tester.faults.inner.lock();
        let id = inner.next;
        inner.next += 1;
        inner.kept.push(KeptFault { id, fault, met: 0 });
        Ok(id)
    }

    /// Returns the faults in the order of their addition, with those whose `times` are used up.
    pub fn faults(&self) -> Vec<KeptFault> {
        self.tester.faults.inner.lock().kept.clone()
    }

    /// Clears one fault; false if there is none with this number.
    pub fn clear_fault(&self, id: u64) -> bool {
        let kept = &mut self.tester.faults.inner.lock().kept;
        let before = kept.len();
        kept.retain(|fault| fault.id != id);
        kept.len() < before
    }

    /// Clears all faults.
    pub fn clear_faults(&self) {
        self.tester.faults.inner.lock().kept.clear();
    }
}
