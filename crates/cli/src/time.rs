//! Times for people: how long ago something was.

use std::time::{Duration, SystemTime};

use inferstore::Timestamp;

use crate::table::Cell;

/// The time of a list: how long ago on a terminal, the stamp of the service elsewhere.
pub(crate) fn age(stamp: Option<&Timestamp>) -> Cell {
    let Some(stamp) = stamp else { return Cell::default() };
    let cell = Cell::from(stamp.as_str());
    match stamp.to_system_time().and_then(|time| SystemTime::now().duration_since(time).ok()) {
        Some(age) => cell.on_terminal(ago(age)),
        // A clock that is behind the service, or a stamp that cannot be read.
        None => cell,
    }
}

/// The time of one record: the stamp, and on a terminal how long ago that is.
pub(crate) fn stamp(stamp: Option<&Timestamp>) -> Option<Cell> {
    let stamp = stamp?;
    let cell = Cell::from(stamp.as_str());
    let age = stamp.to_system_time().and_then(|time| SystemTime::now().duration_since(time).ok());
    Some(match age {
        Some(age) => cell.on_terminal(format!("{} ({})", stamp.as_str(), ago(age))),
        None => cell,
    })
}

fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "s"),
        60..3_600 => (seconds / 60, "min"),
        3_600..86_400 => (seconds / 3_600, "h"),
        _ => (seconds / 86_400, if seconds < 2 * 86_400 { "day" } else { "days" }),
    };
    format!("{count} {unit} ago")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::ago;

    #[test]
    fn an_age_has_one_unit() {
        let shown = [0, 59, 60, 7_300, 90_000, 900_000].map(|seconds| ago(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0 s ago", "59 s ago", "1 min ago", "2 h ago", "1 day ago", "10 days ago"]);
    }
}
