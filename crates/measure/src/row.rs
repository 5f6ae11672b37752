//! One row of the scoreboard: our figures beside those of an alternative that does the same work.

use std::env;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// Environment variable that makes a benchmark print its rows as JSON too.
pub const ROWS_VARIABLE: &str = "INFERSTORE_BENCH_ROWS";

/// Prefix of a row printed as JSON.
pub const ROW_MARK: &str = "row: ";

/// One comparison of a benchmark.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Section of the scoreboard.
    pub group: String,
    /// Work that both sides did.
    pub what: String,
    /// Name and version of the alternative.
    pub against: String,
    /// Unit of the figures.
    pub unit: String,
    /// Direction in which figures are better.
    pub better: Better,
    /// Our figure of each round. Both lists are empty if the row could not be measured; the note has the reason.
    pub ours: Vec<f64>,
    /// The alternative's figure of each round.
    pub theirs: Vec<f64>,
    /// Smallest acceptable ratio, for a row whose goal is not to be ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// Note for the reader; if the row is behind: the reason and the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Command that measures this row again.
    pub command: String,
}

/// Direction in which figures are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better, such as calls per second.
    Higher,
    /// Less is better, such as seconds.
    Lower,
}

/// Our advantage as a factor: above 1, ours is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// Median of all rounds.
    pub median: f64,
    /// Worst round.
    pub least: f64,
    /// Best round.
    pub most: f64,
}

impl Row {
    /// Returns the ratio of both sides over all rounds.
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

    /// Returns true if both sides have figures.
    pub fn is_measured(&self) -> bool {
        !self.ours.is_empty() && !self.theirs.is_empty()
    }

    /// Returns true if the median ratio is below the minimum.
    pub fn is_behind(&self) -> bool {
        self.is_measured() && self.ratio().median < self.minimum.unwrap_or(1.0)
    }

    /// Returns the result in a word or two.
    pub fn verdict(&self) -> &'static str {
        match self.ratio().median {
            _ if !self.is_measured() => "not measured",
            _ if self.is_behind() => "behind",
            ratio if ratio < 1.0 => "meets its minimum",
            _ => "ahead",
        }
    }

    /// Prints the row for people, and as JSON if `ROWS_VARIABLE` is set.
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

/// Returns the median of the figures.
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

/// Formats a figure with three significant digits; a large one in full, in groups of three digits.
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

    fn row(better: Better, ours: &[f64], theirs: &[f64], minimum: Option<f64>) -> Row {
        let word = || "word".to_owned();
        let (ours, theirs) = (ours.to_vec(), theirs.to_vec());
        let (group, what, against, unit, command) = (word(), word(), word(), word(), word());
        Row { group, what, against, unit, better, ours, theirs, minimum, note: None, command }
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
        assert_eq!(row(Better::Higher, &[0.9], &[1.0], Some(0.8)).verdict(), "meets its minimum");
        assert_eq!(row(Better::Higher, &[], &[], Some(0.8)).verdict(), "not measured");
    }

    #[test]
    fn figures_are_as_long_as_they_have_to_be() {
        let shown = [0.00123, 0.5, 12.34, 123.4, 1_234.0, 1_234_567.0, -1_234.0].map(figure);
        assert_eq!(shown, ["0.0012", "0.50", "12.3", "123", "1,234", "1,234,567", "-1,234"]);
    }
}
