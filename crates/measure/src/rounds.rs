//! Alternating rounds: both sides do the same work in each, so that a busy moment of the machine affects both.

use std::time::{Duration, Instant};

/// Measures both sides once per round, in alternating order, and returns the figures of both.
pub fn side_by_side(
    rounds: usize,
    mut ours: impl FnMut() -> f64,
    mut theirs: impl FnMut() -> f64,
) -> (Vec<f64>, Vec<f64>) {
    let pairs = (0..rounds).map(|round| {
        if round % 2 == 0 {
            let mine = ours();
            (mine, theirs())
        } else {
            let other = theirs();
            (ours(), other)
        }
    });
    pairs.unzip()
}

/// Returns the median time of the work over `times` runs, in a unit of `unit` seconds.
pub fn times(times: usize, unit: f64, mut work: impl FnMut()) -> f64 {
    let mut taken: Vec<Duration> = Vec::with_capacity(times);
    for _ in 0..times {
        let begun = Instant::now();
        work();
        taken.push(begun.elapsed());
    }
    taken.sort();
    taken.get(times / 2).map_or(f64::NAN, Duration::as_secs_f64) / unit
}
