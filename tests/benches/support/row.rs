//! Prints what a benchmark measured, for `cargo xtask bench` to gather.

use serde_json::{Value, json};

/// Which figures are the good ones.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Better {
    Lower,
}

/// The same work done by ours and by something else, side by side.
pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) what: &'static str,
    /// What else did the same work, with its version.
    pub(crate) against: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    /// Ours and theirs, a pair for each round.
    pub(crate) rounds: Vec<(f64, f64)>,
    /// The least ratio that is good enough where being ahead is not the point.
    pub(crate) bar: Option<f64>,
    /// What a reader has to know.
    pub(crate) note: Option<&'static str>,
    /// Measures this row again.
    pub(crate) command: &'static str,
}

impl Row {
    #[expect(clippy::print_stdout, reason = "a benchmark prints")]
    pub(crate) fn print(self) {
        let (ours, theirs): (Vec<f64>, Vec<f64>) = self.rounds.into_iter().unzip();
        let mut row = json!({
            "group": self.group, "what": self.what, "against": self.against, "unit": self.unit,
            "better": match self.better { Better::Lower => "lower" },
            "ours": ours, "theirs": theirs, "command": self.command,
        });
        let extra = [("bar", self.bar.map(Value::from)), ("note", self.note.map(Value::from))];
        for (name, value) in extra {
            if let Some(value) = value {
                row[name] = value;
            }
        }
        println!("row: {row}");
    }
}
