//! Formatting of values as text, and the parameters of queries.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use inferstore::types::TaskId;
use inferstore::{Decimal, is_unprintable};
use maud::{Markup, PreEscaped, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(crate) type Words = BTreeMap<String, String>;

pub(crate) fn word<'a>(query: &'a Words, name: &str) -> &'a str {
    query.get(name).map_or("", |word| word.trim())
}

/// Replaces characters that could disguise foreign text, like the command does. All HTML passes through here.
pub(crate) fn printable(html: &str) -> String {
    let is_harmful = |c: char| is_unprintable(c) && !matches!(c, '\n' | '\r' | '\t');
    html.replace(is_harmful, "\u{fffd}")
}

/// Formats a value that a form must send back exactly: bidirectional marks, which some languages need, are escaped.
pub(crate) fn exact(text: &str) -> Markup {
    let reference = |c: char| {
        if is_unprintable(c) && !c.is_control() { format!("&#{};", u32::from(c)) } else { c.to_string() }
    };
    PreEscaped(html! { (text) }.into_string().chars().map(reference).collect())
}

pub(crate) fn segment(text: &str) -> impl Display {
    utf8_percent_encode(text, SEGMENT)
}

/// Returns the end of a long task identifier: identifiers often begin with the time, which tasks of a batch share.
pub(crate) fn short(task: &TaskId) -> String {
    let text = task.as_str();
    match text.char_indices().rev().nth(11) {
        Some((start, _)) if start > 0 => format!("…{}", &text[start..]),
        _ => text.to_owned(),
    }
}

/// Formats a technical name as a title: `color_harmonization` becomes `Color harmonization`.
pub fn titled(name: &str) -> String {
    let spaced = name.replace(['_', '-'], " ");
    let mut letters = spaced.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

pub(crate) fn amount(amount: Option<&Decimal>) -> String {
    amount.map_or("–".to_owned(), |amount| amount.to_plain_string().unwrap_or_else(|| amount.to_string()))
}

pub(crate) fn size(bytes: u64) -> String {
    let power = (bytes.max(1).ilog2() / 10).min(4);
    let count = bytes as f64 / (1_u64 << (10 * power)) as f64;
    let unit = ["B", "KiB", "MiB", "GiB", "TiB"][power as usize];
    format!("{count:.*} {unit}", usize::from(power > 0))
}

pub(crate) fn duration(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds < 0.05 => "< 0.1 s".to_owned(),
        seconds if seconds < 9.95 => format!("{seconds:.1} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds => format!("{:.0} min", seconds / 60.0),
    }
}

pub(crate) fn price(sum: Option<&Decimal>, unit: &str) -> String {
    format!("{} {unit}", amount(sum)).trim_end().to_owned()
}

pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{exact, printable, short};

    #[test]
    fn a_long_task_identifier_is_shown_by_its_end_and_a_short_one_whole() {
        assert_eq!(short(&"019b76da-a800-7abc-8def-0123456789ab".into()), "…0123456789ab");
        for whole in ["", "task-1", "twelve-chars"] {
            assert_eq!(short(&whole.into()), whole);
        }
        assert_eq!(short(&"äöüäöüäöüäöüä".into()), "…öüäöüäöüäöüä");
    }

    #[test]
    fn foreign_text_cannot_disguise_itself_and_a_form_keeps_its_values() {
        assert_eq!(printable("a\u{1b}[2Jb\n\tc\u{202e}d\u{9b}e"), "a\u{fffd}[2Jb\n\tc\u{fffd}d\u{fffd}e");
        let value = exact("<\u{200f}b>\u{1b}").into_string();
        assert_eq!(printable(&value), "&lt;&#8207;b&gt;\u{fffd}");
    }
}
