//! One row of the scoreboard: the same work done by ours and by something else, side by side.

use std::env;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// Set for a benchmark whose rows are gathered: it prints each as JSON too.
pub const ROWS_VARIABLE: &str = "INFERSTORE_BENCH_ROWS";

/// Stands before a row that is printed as JSON.
pub const ROW_MARK: &str = "row: ";

/// What was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The part of the scoreboard that it belongs to.
    pub group: String,
    /// The work.
    pub what: String,
    /// What else did the same work, with its version.
    pub against: String,
    /// Of the figures.
    pub unit: String,
    /// Which figures are the good ones.
    pub better: Better,
    /// One figure of a round; the other one of the same round is at the same place in `theirs`. Both are
    /// empty when the row could not be measured, and the note says why.
    pub ours: Vec<f64>,
    /// What the other one took.
    pub theirs: Vec<f64>,
    /// The least ratio that is good enough where being ahead is not the point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bar: Option<f64>,
    /// What a reader has to know; for a row that is behind, why, and what would change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Measures this row again.
    pub command: String,
}

/// Which figures are the good ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Such as calls per second.
    Higher,
    /// Such as seconds.
    Lower,
}

/// How many times as good ours is: above 1, ours is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// Of all rounds.
    pub median: f64,
    /// Of the worst round.
    pub least: f64,
    /// Of the best round.
    pub most: f64,
}

impl Row {
    /// How the two compare, over all rounds.
    pub fn ratio(&self) -> Ratio {
        let ratios = self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| match self.better {
            Better::Higher => ours / theirs,
            Better::Lower => theirs / ours,
        });
        let ratios: Vec<f64> = ratios.collect();
        let (least, most) =
            (ratios.iter().copied().reduce(f64::min), ratios.iter().copied().reduce(f64::max));
        Ratio { median: median(&ratios), least: least.unwrap_or(f64::NAN), most: most.unwrap_or(f64::NAN) }
    }

    /// Whether there is a figure of both.
    pub fn is_measured(&self) -> bool {
        !self.ours.is_empty() && !self.theirs.is_empty()
    }

    /// Whether the other one is better by more than the bar allows.
    pub fn is_behind(&self) -> bool {
        self.is_measured() && self.ratio().median < self.bar.unwrap_or(1.0)
    }

    /// How it went, in a word or two.
    pub fn verdict(&self) -> &'static str {
        match self.ratio().median {
            _ if !self.is_measured() => "not measured",
            _ if self.is_behind() => "behind",
            ratio if ratio < 1.0 => "meets its bar",
            _ => "ahead",
        }
    }

    /// Prints the row: a line for people, and one for the program that gathers rows.
    #[expect(clippy::print_stdout, reason = "a benchmark prints")]
    pub fn print(&self) {
        println!("{self}");
        if env::var_os(ROWS_VARIABLE).is_some()
            && let Ok(json) = serde_json::to_string(self)
        {
            println!("{ROW_MARK}{json}");
        }
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, against, unit, .. } = self;
        let verdict = self.verdict();
        if !self.is_measured() {
            return write!(f, "{what}: {verdict}; {}", self.note.as_deref().unwrap_or_default());
        }
        let (ours, theirs) = (figure(median(&self.ours)), figure(median(&self.theirs)));
        let Ratio { median, least, most } = self.ratio();
        write!(
            f,
            "{what}: {ours} {unit}; {theirs} {unit} {against}; ratio {median:.2} ({least:.2} to {most:.2}), {verdict}"
        )
    }
}

/// The figure in the middle, as the one to show.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => f64::NAN,
        Some(upper) if sorted.len() % 2 == 1 => *upper,
        Some(upper) => f64::midpoint(sorted[middle - 1], *upper),
    }
}

/// A figure with three digits that count, or all of a large one, in groups of three.
pub fn figure(figure: f64) -> String {
    let size = figure.abs();
    if size < 0.01 {
        return format!("{figure:.4}");
    } else if size < 10.0 {
        return format!("{figure:.2}");
    } else if size < 100.0 {
        return format!("{figure:.1}");
    }
    let digits = format!("{figure:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(better: Better, ours: &[f64], theirs: &[f64], bar: Option<f64>) -> Row {
        let word = || "word".to_owned();
        let (ours, theirs) = (ours.to_vec(), theirs.to_vec());
        let (group, what, against, unit, command) = (word(), word(), word(), word(), word());
        Row { group, what, against, unit, better, ours, theirs, bar, note: None, command }
    }

    #[test]
    fn a_ratio_above_one_means_ahead_whichever_figures_are_the_good_ones() {
        assert_eq!(row(Better::Higher, &[30.0], &[10.0], None).ratio().median, 3.0);
        assert_eq!(row(Better::Lower, &[10.0], &[30.0], None).ratio().median, 3.0);
    }

    #[test]
    fn rounds_are_compared_with_themselves_so_that_a_busy_minute_hurts_both() {
        let ratio = row(Better::Lower, &[1.0, 10.0, 2.0], &[2.0, 20.0, 2.0], None).ratio();
        assert_eq!((ratio.least, ratio.median, ratio.most), (1.0, 2.0, 2.0));
    }

    #[test]
    fn a_verdict_says_behind_unless_there_is_a_bar_that_is_met() {
        assert_eq!(row(Better::Higher, &[1.0], &[1.0], None).verdict(), "ahead");
        assert_eq!(row(Better::Higher, &[0.9], &[1.0], None).verdict(), "behind");
        assert_eq!(row(Better::Higher, &[0.9], &[1.0], Some(0.8)).verdict(), "meets its bar");
        assert_eq!(row(Better::Higher, &[], &[], Some(0.8)).verdict(), "not measured");
    }

    #[test]
    fn figures_are_as_long_as_they_have_to_be() {
        let shown = [0.00123, 0.5, 12.34, 123.4, 1_234.0, 1_234_567.0, -1_234.0].map(figure);
        assert_eq!(shown, ["0.0012", "0.50", "12.3", "123", "1,234", "1,234,567", "-1,234"]);
    }
}
