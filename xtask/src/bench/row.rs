//! One row of the scoreboard: the same work done by ours and by something else, side by side.

use serde::{Deserialize, Serialize};

/// What a benchmark measured. Programs print it as JSON after `row: `.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    /// The part of the scoreboard that it belongs to.
    pub(super) group: String,
    /// The work.
    pub(super) what: String,
    /// What else did the same work, with its version.
    pub(super) against: String,
    /// Of the figures.
    pub(super) unit: String,
    pub(super) better: Better,
    /// One figure of a round; the other one of the same round is at the same place in `theirs`.
    pub(super) ours: Vec<f64>,
    pub(super) theirs: Vec<f64>,
    /// The least ratio that is good enough where being ahead is not the point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bar: Option<f64>,
    /// What a reader has to know; for a row that is behind, why, and what would change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    /// Measures this row again.
    pub(super) command: String,
}

/// Which figures are the good ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Better {
    Higher,
    Lower,
}

/// How many times as good ours is: above 1, ours is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Ratio {
    pub(super) median: f64,
    /// Of the worst round and of the best.
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Row {
    pub(super) fn ratio(&self) -> Ratio {
        let ratios = self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| match self.better {
            Better::Higher => ours / theirs,
            Better::Lower => theirs / ours,
        });
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        let end = |ratio: Option<&f64>| ratio.copied().unwrap_or(f64::NAN);
        Ratio { median: median(&ratios), least: end(ratios.first()), most: end(ratios.last()) }
    }

    pub(super) fn is_good(&self) -> bool {
        self.ratio().median >= self.bar.unwrap_or(1.0)
    }
}

/// The figure in the middle, as the one to show.
pub(super) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => f64::NAN,
        Some(upper) if sorted.len() % 2 == 1 => *upper,
        Some(upper) => f64::midpoint(sorted[middle - 1], *upper),
    }
}
