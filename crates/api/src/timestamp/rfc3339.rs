//! Dates and times of RFC 3339, and further forms of ISO 8601: without an offset or a time, with an offset in
//! hours, years with a sign and six digits, and the basic format without separators (`20260402T093000Z`).

const SECOND: i128 = 1_000_000_000;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Returns the nanoseconds since 1970; UTC if the text has no offset.
pub(super) fn read(text: &str) -> Option<i128> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00"),
    };
    let (time, offset) = time.split_at(time.find(['Z', 'z', '+', '-']).unwrap_or(time.len()));
    let (seconds, nanoseconds) = read_time(&separated(time, &[2, 4], ':'))?;
    let date = if date.len() == 8 { separated(date, &[4, 6], '-') } else { date.to_owned() };
    let seconds = read_date(&date)? * DAY_SECONDS + seconds - read_offset(offset)?;
    Some(i128::from(seconds) * SECOND + i128::from(nanoseconds))
}

/// Inserts the separators of the extended format if the text begins with at least four digits.
fn separated(text: &str, places: &[usize], separator: char) -> String {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mut separated = text.to_owned();
    for place in places.iter().rev().filter(|place| digits >= 4 && **place < digits) {
        separated.insert(*place, separator);
    }
    separated
}

/// Formats milliseconds since 1970 in UTC.
pub(super) fn write(milliseconds: i64) -> String {
    let (seconds, fraction) = (milliseconds.div_euclid(1_000), milliseconds.rem_euclid(1_000));
    let (year, month, day) = date(seconds.div_euclid(DAY_SECONDS));
    let second = seconds.rem_euclid(DAY_SECONDS);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let year = if (0..=9_999).contains(&year) { format!("{year:04}") } else { format!("{year:+07}") };
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

fn read_date(text: &str) -> Option<i64> {
    let (year, rest) = match text.strip_prefix('-') {
        Some(negative) => (-number(negative.get(..6)?, 0..=9_999)?, negative.get(6..)?),
        None => match text.strip_prefix('+') {
            Some(positive) => (number(positive.get(..6)?, 0..=9_999)?, positive.get(6..)?),
            None => (number(text.get(..4)?, 0..=9_999)?, text.get(4..)?),
        },
    };
    let (month, day) = rest.strip_prefix('-')?.split_once('-')?;
    let (month, day) = (two(month, 1..=12)?, two(day, 1..=31)?);
    let days = days(year, month, day);
    (date(days) == (year, month, day)).then_some(days)
}

/// Returns the second of the day, and the nanoseconds. A leap second counts as the second before.
fn read_time(text: &str) -> Option<(i64, i64)> {
    let (hour, rest) = text.split_once(':')?;
    let (minute, rest) = rest.split_once(':').unwrap_or((rest, "00"));
    let (second, fraction) = rest.split_once(['.', ',']).unwrap_or((rest, "0"));
    number(fraction, 0..=i64::MAX)?;
    let digits = fraction.get(..9).unwrap_or(fraction);
    let scale = 10_i64.pow(9 - u32::try_from(digits.len()).ok()?);
    let nanoseconds = number(digits, 0..=999_999_999)? * scale;
    let second = two(second, 0..=60)?.min(59);
    Some((two(hour, 0..=23)? * 3_600 + two(minute, 0..=59)? * 60 + second, nanoseconds))
}

/// Returns the offset in seconds east of UTC.
fn read_offset(text: &str) -> Option<i64> {
    if matches!(text, "" | "Z" | "z") {
        return Some(0);
    }
    let (sign, text) = text.split_at_checked(1)?;
    let (hours, minutes) = text.split_at_checked(2)?;
    let minutes = match minutes {
        "" => 0,
        minutes => two(minutes.strip_prefix(':').unwrap_or(minutes), 0..=59)?,
    };
    let seconds = two(hours, 0..=23)? * 3_600 + minutes * 60;
    Some(if sign == "-" { -seconds } else { seconds })
}

fn two(text: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    if text.len() == 2 { number(text, range) } else { None }
}

fn number(text: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_digits { text.parse().ok()? } else { return None };
    range.contains(&number).then_some(number)
}

/// Returns the days since 1970 of a Gregorian date. The year begins in March here, so that a leap day is its
/// last day; 400 years have 146,097 days.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    year.div_euclid(400) * 146_097 + day_of_era - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = days.div_euclid(146_097) * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{SECOND, read, write};

    /// Returns jiff's result.
    fn expected(text: &str) -> Option<i128> {
        let zoned = text.parse::<jiff::Timestamp>();
        let utc = |time: jiff::civil::DateTime| {
            time.to_zoned_datetime(jiff::tz::TimeZone::UTC).map(|time| time.timestamp())
        };
        let stamp = zoned.or_else(|_| text.parse::<jiff::civil::DateTime>().and_then(utc));
        stamp.ok().map(jiff::Timestamp::as_nanosecond)
    }

    #[test]
    fn what_is_no_stamp_is_refused() {
        for text in [
            "",
            "yesterday",
            "2026",
            "2026-04",
            "2026-4-2",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-04-31T00:00:00Z",
            "2026-04-02T",
            "2026-04-02T24:00:00Z",
            "2026-04-02T09:60:00Z",
            "2026-04-02T09:30:61Z",
            "2026-04-02T09:30:00.Z",
            "2026-04-02T09:30:00.5\u{fffd}02:\u{fffd}0",
            "2026-04-02T09:30:00ZZ",
            "2026-04-02T09:30:00+",
            "2026-04-02T09:30:00+2",
            "2026-04-02T09:30:00+24:00",
            "10000-01-01T00:00:00Z",
            "+2026-04-02T09:30:00Z",
            "２０２６-04-02T09:30:00Z",
            "2026-04-02T09:30:00é",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn leap_years_leap_seconds_and_long_fractions_are_read() {
        let seconds = |text| read(text).map(|stamp| stamp / SECOND);
        assert_eq!(seconds("2000-02-29T00:00:00Z"), Some(951_782_400));
        assert_eq!(seconds("2016-12-31T23:59:60Z"), seconds("2016-12-31T23:59:59Z"));
        assert_eq!(read("1970-01-01T00:00:00.0000000019Z"), Some(1));
        assert_eq!(seconds("1970-01-01"), Some(0));
        assert_eq!(seconds("20260402T093000Z"), seconds("2026-04-02T09:30:00Z"));
        assert_eq!(read("20260402T0930.5Z"), None);
        assert_eq!(read("20260402T093000.5+0200"), read("2026-04-02T09:30:00.5+02:00"));
        assert_eq!(write(-62_167_219_200_001), "-000001-12-31T23:59:59.999Z");
    }

    fn part(values: std::ops::Range<u32>) -> impl Strategy<Value = String> {
        values.prop_map(|value| format!("{value:02}"))
    }

    proptest! {
        #[test]
        fn stamps_are_read_as_jiff_reads_them(
            year in prop_oneof!["[0-9]{4}", "[+-]00[0-9]{4}"], month in part(0..14), day in part(0..33),
            separator in "[Tt ]", hour in part(0..25), minute in part(0..61), second in "(:[0-5][0-9]([.,][0-9]{1,9})?)?",
            offset in "(Z|z|[+-][01][0-9](:?[0-5][0-9])?)?",
        ) {
            let text = format!("{year}-{month}-{day}{separator}{hour}:{minute}{second}{offset}");
            // jiff's range ends within a day after the year 9999 in UTC.
            prop_assume!(!year.ends_with("9999") && year != "-000000");
            prop_assert_eq!(read(&text), expected(&text), "{}", text);
        }

        #[test]
        fn what_is_written_is_read(milliseconds in -377_705_000_000_000_i64..253_402_207_200_000) {
            let text = write(milliseconds);
            prop_assert_eq!(read(&text), Some(i128::from(milliseconds) * 1_000_000), "{}", text);
            prop_assert_eq!(expected(&text), read(&text), "{}", text);
        }

        #[test]
        fn no_text_panics(text in any::<String>(), near in "[-+0-9TZ:. ]{0,30}") {
            let _ = (read(&text), read(&near));
        }
    }
}
