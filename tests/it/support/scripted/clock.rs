//! The clock of the service: the wall clock, ahead or behind when a test says so.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[derive(Default)]
pub(super) struct Clock {
    /// Negative when the clock is behind.
    pub(super) seconds_ahead: i64,
}

impl Clock {
    pub(super) fn now(&self) -> Stamp {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let milliseconds = i64::try_from(since_1970.as_millis()).expect("it is before the year 292277026");
        Stamp { milliseconds: milliseconds + self.seconds_ahead * 1000 }
    }
}

/// A moment in UTC.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    milliseconds: i64,
}

impl Stamp {
    /// As the records of the service write it: `2026-04-02T09:30:00.250Z`.
    pub(super) fn iso(self) -> String {
        let (year, month, day) = self.date();
        let (hour, minute, second) = self.time();
        let fraction = self.milliseconds.rem_euclid(1000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
    }

    /// As a `Date` header writes it: `Thu, 02 Apr 2026 09:30:00 GMT`.
    pub(super) fn http(self) -> String {
        let (year, month, day) = self.date();
        let (hour, minute, second) = self.time();
        let weekday = named(&DAYS, self.days().rem_euclid(7));
        let month = named(&MONTHS, month - 1);
        format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }

    fn days(self) -> i64 {
        self.milliseconds.div_euclid(86_400_000)
    }

    fn time(self) -> (i64, i64, i64) {
        let seconds = self.milliseconds.div_euclid(1000).rem_euclid(86_400);
        (seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    /// Counts in years that begin in March, so that the odd day of a leap year is the last one.
    fn date(self) -> (i64, i64, i64) {
        let days = self.days() + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let months_since_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
        let month = (months_since_march + 2) % 12 + 1;
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        (year, month, day)
    }
}

fn named(names: &[&'static str], index: i64) -> &'static str {
    names[usize::try_from(index).expect("the index was reduced to the number of names")]
}

#[test]
fn moments_are_written_as_calendars_have_them() {
    let stamp = Stamp { milliseconds: 1_709_210_096_007 };
    assert_eq!(stamp.iso(), "2024-02-29T12:34:56.007Z");
    assert_eq!(stamp.http(), "Thu, 29 Feb 2024 12:34:56 GMT");
    let stamp = Stamp { milliseconds: 1_767_225_599_999 };
    assert_eq!(
        (stamp.iso(), stamp.http()),
        ("2025-12-31T23:59:59.999Z".into(), "Wed, 31 Dec 2025 23:59:59 GMT".into())
    );
}
