//! Times for people: how long ago something was.

use std::time::SystemTime;

use indicatif::HumanDuration;
use inferstore::Timestamp;

use crate::table::Cell;

/// The time of a list: how long ago on a terminal, the stamp of the service elsewhere.
pub(crate) fn age(stamp: Option<&Timestamp>) -> Cell {
    stamp.map_or_else(Cell::default, |stamp| cell(stamp, |age| age))
}

/// The time of one record: the stamp, and on a terminal how long ago that is.
pub(crate) fn stamp(stamp: Option<&Timestamp>) -> Option<Cell> {
    stamp.map(|stamp| cell(stamp, |age| format!("{} ({age})", stamp.as_str())))
}

fn cell(stamp: &Timestamp, on_terminal: impl FnOnce(String) -> String) -> Cell {
    let cell = Cell::from(stamp.as_str());
    match stamp.to_system_time().and_then(|time| SystemTime::now().duration_since(time).ok()) {
        Some(age) => cell.on_terminal(on_terminal(format!("{:#} ago", HumanDuration(age)))),
        // A clock that is behind the service, or a stamp that cannot be read.
        None => cell,
    }
}
