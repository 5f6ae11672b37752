//! Which fault the next request meets.

use super::fault::{Fault, Repeated};
use super::route::Route;

#[derive(Default)]
pub(super) struct FaultQueue {
    /// In the order in which they were told.
    queued: Vec<(Route, Repeated)>,
    rates: Vec<Rate>,
}

/// Faults that happen now and then.
pub(super) struct Rate {
    pub(super) route: Route,
    pub(super) probability: f64,
    pub(super) faults: Vec<Fault>,
    pub(super) random: Random,
}

impl FaultQueue {
    pub(super) fn add(&mut self, route: Route, repeated: Repeated) {
        if repeated.left != Some(0) {
            self.queued.push((route, repeated));
        }
    }

    pub(super) fn add_rate(&mut self, rate: Rate) {
        self.rates.push(rate);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// How many faults that were to happen a number of times have not happened yet.
    pub(super) fn left(&self) -> usize {
        self.queued.iter().filter_map(|(_, repeated)| repeated.left).sum()
    }

    /// The fault for a request: one told of exactly this operation, or of any, or one by chance.
    pub(super) fn take(&mut self, requested: Route) -> Option<Fault> {
        let exact = self.queued.iter().position(|(route, _)| *route == requested);
        let found = exact.or_else(|| self.queued.iter().position(|(route, _)| route.covers(requested)));
        match found {
            Some(index) => Some(self.take_queued(index)),
            // Every rate draws, so that one does not shift the sequence of another.
            None => self
                .rates
                .iter_mut()
                .filter(|rate| rate.route.covers(requested))
                .filter_map(Rate::draw)
                .fold(None, |first, fault| first.or(Some(fault))),
        }
    }

    /// Whether a new connection is to be closed before anything is sent on it.
    pub(super) fn take_at_accept(&mut self) -> bool {
        let first = self.queued.iter().position(|(route, _)| *route == Route::Any);
        let closes = |index: &usize| matches!(self.queued[*index].1.fault, Fault::CloseBeforeReading);
        let found = first.filter(closes);
        found.map(|index| self.take_queued(index)).is_some()
    }

    fn take_queued(&mut self, index: usize) -> Fault {
        let repeated = &mut self.queued[index].1;
        let fault = repeated.fault.clone();
        repeated.left = repeated.left.map(|left| left - 1);
        if repeated.left == Some(0) {
            self.queued.remove(index);
        }
        fault
    }
}

impl Rate {
    fn draw(&mut self) -> Option<Fault> {
        let (happens, which) = (self.random.fraction(), self.random.fraction());
        let which = (which * self.faults.len() as f64) as usize;
        self.faults.get(which).filter(|_| happens < self.probability).cloned()
    }
}

/// The same numbers for the same seed (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    /// At least 0, and less than 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}
