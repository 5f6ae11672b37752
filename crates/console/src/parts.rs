//! Parts of pages: their frame, and lists, times and states in them.

use std::fmt::Display;

use axum::response::{IntoResponse, Redirect, Response};
use inferstore::Timestamp;
use inferstore::types::TaskStatus;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assets::{ICON, SCRIPT, STYLE};
use crate::text::{exact, printable, segment, titled};

const NAVIGATION: [(&str, &str); 5] =
    [("/", "Models"), ("/runs", "Runs"), ("/files", "Files"), ("/account", "Account"), ("/docs", "API")];

pub(crate) fn page(title: &str, section: &str, body: Markup) -> Response {
    page_that_reloads(title, section, None, body)
}

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
                        @for (path, name) in NAVIGATION { a href=(path) aria-current=[(path == section).then_some("page")] { (name) } }
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

pub(crate) fn pager(pages: u64, now: u64, address: impl Fn(u64) -> String) -> Markup {
    let near = now.saturating_sub(3).max(1)..=now.saturating_add(3).min(pages);
    html! {
        @if pages > 1 {
            nav.pager aria-label="Pages of the list" {
                @if now > 1 { a href=(address(1)) { "First" } a href=(address((now - 1).min(pages))) { "Previous" } }
                @for one in near { a href=(address(one)) aria-current=[(one == now).then_some("page")] { (one) } }
                @if now < pages { a href=(address(now + 1)) { "Next" } a href=(address(pages)) { "Last" } }
            }
        }
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

    use super::{pager, when};

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
    fn a_time_says_its_zone() {
        let shown = |text: &str| when(Some(&Timestamp::from(text))).into_string();
        assert!(shown("2026-03-01T10:20:30.123456Z").contains(">2026-03-01 10:20:30 UTC<"));
        assert!(shown("2026-03-01T10:20:30+02:00").contains(">2026-03-01T10:20:30+02:00<"));
    }
}
