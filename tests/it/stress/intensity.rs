//! How hard to try. A test asks here how often it tries what, and where its random numbers begin.

use std::env;

/// Holds the seed when much is to be tried; `cargo xtask stress` sets it.
const SEED: &str = "INFERSTORE_STRESS_SEED";

/// How hard this run tries.
#[derive(Clone, Copy)]
pub(crate) struct Intensity {
    seed: u64,
    hard: bool,
}

impl Intensity {
    pub(crate) fn of_this_run() -> Self {
        let Ok(text) = env::var(SEED) else { return Self { seed: 1, hard: false } };
        let seed = text.parse().unwrap_or_else(|_| panic!("{SEED} is no number: {text:?}"));
        Self { seed, hard: true }
    }

    /// How often something is tried: a little in every run of the tests, much when asked for.
    pub(crate) fn times<Number>(self, little: Number, much: Number) -> Number {
        if self.hard { much } else { little }
    }

    /// Random numbers that the seed decides.
    pub(crate) fn random(self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }
}

/// Says what was tried, in the figures that `cargo xtask stress` gathers.
#[expect(clippy::print_stdout, reason = "cargo shows it when it is asked for")]
pub(crate) fn tell(what: &str) {
    println!("tried: {what}");
}
