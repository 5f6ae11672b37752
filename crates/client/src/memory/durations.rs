//! How long tasks of each model took lately.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use inferstore_api::types::ModelId;

use super::lock;

/// How many models are remembered.
const MAX_MODELS: usize = 1_000;

/// How many durations of a model count.
const MAX_SAMPLES: usize = 20;

/// How long tasks of each model took lately, newest last.
#[derive(Debug, Default)]
pub(crate) struct Durations(Mutex<HashMap<ModelId, VecDeque<Duration>>>);

impl Durations {
    pub(crate) fn insert(&self, model: &ModelId, duration: Duration) {
        let mut durations = lock(&self.0);
        if durations.len() >= MAX_MODELS && !durations.contains_key(model) {
            durations.clear();
        }
        let samples = durations.entry(model.clone()).or_default();
        samples.push_back(duration);
        if samples.len() > MAX_SAMPLES {
            samples.pop_front();
        }
    }

    /// The remembered durations of a model, shortest first.
    pub(crate) fn of(&self, model: &ModelId) -> Vec<Duration> {
        let durations = lock(&self.0);
        let mut samples: Vec<_> = durations.get(model).into_iter().flatten().copied().collect();
        samples.sort_unstable();
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_durations_of_a_model_are_remembered_in_order_of_length() {
        let durations = Durations::default();
        let model = ModelId::from("m");
        for seconds in (1..=25).rev() {
            durations.insert(&model, Duration::from_secs(seconds));
        }
        let expected: Vec<_> = (1..=20).map(Duration::from_secs).collect();
        assert_eq!(durations.of(&model), expected);
        assert!(durations.of(&ModelId::from("n")).is_empty());
    }
}
