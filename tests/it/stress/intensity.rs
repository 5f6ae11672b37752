//! Intensity of stress tests: number of repetitions, and the random seed.

use std::env;

/// Environment variable of the seed of a hard run; `cargo xtask stress` sets it.
const SEED: &str = "INFERSTORE_STRESS_SEED";

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

    pub(crate) fn times<Number>(self, little: Number, much: Number) -> Number {
        if self.hard { much } else { little }
    }

    pub(crate) fn random(self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }
}

#[expect(clippy::print_stdout, reason = "cargo shows it when it is asked for")]
pub(crate) fn tell(what: &str) {
    println!("tried: {what}");
}
