//! Rounds in which both sides do the same work, so that a busy moment of the machine hurts both.

use std::time::{Duration, Instant};

/// Measures both once in each round, and takes turns in who is first. Returns the figures of both.
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

/// How long the work takes, in a unit of so many seconds: the median of so many times.
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
