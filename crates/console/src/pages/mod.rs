//! Pages: common frame, and formatting of values.

pub(crate) mod account;
pub(crate) mod assets;
pub(crate) mod catalog;
pub(crate) mod keys;
pub(crate) mod model;
pub(crate) mod run;
pub(crate) mod storage;
pub(crate) mod task;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::response::{IntoResponse, Redirect, Response};
use inferstore::types::{TaskId, TaskStatus};
use inferstore::{Decimal, Timestamp};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use self::assets::{ICON, SCRIPT, STYLE};
use crate::failure::{Failure, Result};

mod prelude {
    pub(super) use axum::extract::Request;
    pub(super) use axum::http::StatusCode;
    pub(super) use axum::response::{IntoResponse, Response};
    pub(super) use inferstore::types::TaskStatus;
    pub(super) use maud::{Markup, html};

    pub(super) use super::{
        Words, amount, badge, choice, duration, exact, go_to, page, page_that_reloads, pager, parsed,
        segment, short, size, titled, when, word,
    };
    pub(super) use crate::failure::{Failure, Result, within};
    pub(super) use crate::state::App;
}

/// Characters of a path segment that are percent-encoded.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

const NAVIGATION: [(&str, &str); 5] =
    [("/", "Models"), ("/runs", "Runs"), ("/files", "Files"), ("/account", "Account"), ("/docs", "API")];

/// Parameters of a query, or of a small form.
pub(crate) type Words = BTreeMap<String, String>;

/// Returns a query parameter, or an empty text.
pub(crate) fn word<'a>(query: &'a Words, name: &str) -> &'a str {
    query.get(name).map_or("", |word| word.trim())
}

/// Parses a query parameter. An invalid value is an error: otherwise the page would not match its address.
pub(crate) fn parsed<T: FromStr>(query: &Words, name: &str) -> Result<Option<T>> {
    let word = word(query, name);
    if word.is_empty() {
        return Ok(None);
    }
    let unknown = || Failure::not_found(&format!("The address has an unknown value: {name}={word}."));
    word.parse().map(Some).map_err(|_| unknown())
}

fn is_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces characters that could disguise foreign text, like the command does. All HTML passes through here.
pub(crate) fn printable(html: &str) -> String {
    let is_harmful = |c: char| is_direction(c) || (c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    html.replace(is_harmful, "\u{fffd}")
}

/// Formats a value that a form must send back exactly: bidirectional marks, which some languages need, become
/// character references.
pub(crate) fn exact(text: &str) -> Markup {
    let reference = |c: char| if is_direction(c) { format!("&#{};", u32::from(c)) } else { c.to_string() };
    PreEscaped(html! { (text) }.into_string().chars().map(reference).collect())
}

/// Renders a page below this entry of the navigation.
pub(crate) fn page(title: &str, section: &str, body: Markup) -> Response {
    page_that_reloads(title, section, None, body)
}

/// Renders a page that a browser without JavaScript reloads after this many seconds.
pub(crate) fn page_that_reloads(title: &str, section: &str, seconds: Option<u32>, body: Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Inferstore" }
                link rel="icon" href=(*ICON.address) type="image/svg+xml";
                link rel="stylesheet" href=(*STYLE.address);
                script type="module" src=(*SCRIPT.address) {}
                @if let Some(seconds) = seconds { noscript { meta http-equiv="refresh" content=(seconds); } }
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    a.brand href="/" { img src=(*ICON.address) alt="" width="28" height="28"; "Inferstore" }
                    nav aria-label="Pages" {
                        @for (path, name) in NAVIGATION {
                            a href=(path) aria-current=[(path == section).then_some("page")] { (name) }
                        }
                    }
                }
                p.notice #notice role="status" {}
                main id="main" { (body) }
            }
        }
    };
    PreEscaped(printable(&page.into_string())).into_response()
}

pub(crate) fn go_to(kind: &str, id: impl Display) -> Response {
    Redirect::to(&format!("/{kind}/{}", segment(&id.to_string()))).into_response()
}

/// Renders a list with at most one choice, including a current value that is not in the list.
pub(crate) fn choice<'a>(
    name: &str,
    any: &str,
    words: impl Iterator<Item = &'a str> + Clone,
    now: &str,
) -> Markup {
    let is_other = !now.is_empty() && words.clone().all(|word| word != now);
    html! {
        select name=(name) aria-label=(titled(name)) {
            option value="" { (any) }
            @for word in words { option value=(word) selected[word == now] { (titled(word)) } }
            @if is_other { option value=(exact(now)) selected { (titled(now)) } }
        }
    }
}

/// Renders links to the first, previous, next and last page, and to nearby ones.
pub(crate) fn pager(pages: u64, now: u64, address: impl Fn(u64) -> String) -> Markup {
    let near = now.saturating_sub(3).max(1)..=now.saturating_add(3).min(pages);
    html! {
        @if pages > 1 {
            nav.pager aria-label="Pages of the list" {
                @if now > 1 {
                    a href=(address(1)) { "First" }
                    a href=(address((now - 1).min(pages))) { "Previous" }
                }
                @for one in near { a href=(address(one)) aria-current=[(one == now).then_some("page")] { (one) } }
                @if now < pages {
                    a href=(address(now + 1)) { "Next" }
                    a href=(address(pages)) { "Last" }
                }
            }
        }
    }
}

pub(crate) fn segment(text: &str) -> impl Display {
    utf8_percent_encode(text, SEGMENT)
}

/// Returns the end of a long task identifier: many services begin identifiers with the time, which tasks of a
/// batch share.
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

/// Formats an amount exactly as the service states it.
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

/// Formats a time: in seconds if the service states UTC, else unchanged. JavaScript shows local time.
pub(crate) fn when(stamp: Option<&Timestamp>) -> Markup {
    let text = stamp.map_or("–", Timestamp::as_str);
    let second = text.get(..19).filter(|_| text.ends_with('Z'));
    let shown = second.map_or_else(|| text.to_owned(), |second| second.replace('T', " ") + " UTC");
    html! { time datetime=(text) { (shown) } }
}

pub(crate) fn badge(status: Option<&TaskStatus>) -> Markup {
    let word = status.map_or("unknown", TaskStatus::as_str);
    html! { span.badge.(word) { (titled(word)) } }
}

#[cfg(test)]
mod tests {
    use inferstore::Timestamp;

    use super::{exact, pager, printable, short, when};

    #[test]
    fn every_page_of_a_long_list_can_be_reached() {
        let links = |now| pager(120, now, |one| format!("?page={one}")).into_string();
        let page_51 = links(51);
        for link in [
            "?page=1\">First",
            "?page=50\">Previous",
            "?page=48\">48",
            "?page=54\">54",
            "?page=52\">Next",
            "?page=120\">Last",
        ] {
            assert!(page_51.contains(link), "{link}: {page_51}");
        }
        assert!(page_51.contains("?page=51\" aria-current=\"page\">51"), "{page_51}");
        assert!(!links(1).contains("Previous") && !links(120).contains("Next"));
        assert!(links(500).contains("?page=120\">Previous"), "{}", links(500));
    }

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

    #[test]
    fn a_time_says_its_zone() {
        let shown = |text: &str| when(Some(&Timestamp::from(text))).into_string();
        assert!(shown("2026-03-01T10:20:30.123456Z").contains(">2026-03-01 10:20:30 UTC<"));
        assert!(shown("2026-03-01T10:20:30+02:00").contains(">2026-03-01T10:20:30+02:00<"));
    }
}
