//! Links between the Markdown pages of the repository: each relative link leads to a file, and each anchor to a heading.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

const CHANGELOG: &str = "CHANGELOG.md";

/// Returns the links that lead to nothing, as `page:line links to target`.
///
/// rustdoc checks the pages below `src`, which are documentation of Rust.
pub(crate) fn broken(texts: &BTreeMap<String, String>) -> Vec<String> {
    let is_checked = |name: &str, text: &String| {
        let is_copy = name != CHANGELOG && texts.get(CHANGELOG) == Some(text);
        name.ends_with(".md") && !name.contains("/src/") && !is_copy
    };
    let mut broken = Vec::new();
    for (name, text) in texts.iter().filter(|(name, text)| is_checked(name, text)) {
        for (at, target) in links(text) {
            if !leads_somewhere(texts, name, &target) {
                let line = text[..at].lines().count().max(1);
                broken.push(format!("{name}:{line} links to {target}"));
            }
        }
    }
    broken
}

/// Links and pictures with their byte offsets; those with a scheme, such as `https:`, are left out.
fn links(text: &str) -> Vec<(usize, String)> {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    let targets = events.filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((range.start, dest_url.into_string()))
        }
        _ => None,
    });
    targets.filter(|(_, target)| !target.contains(':')).collect()
}

fn leads_somewhere(texts: &BTreeMap<String, String>, page: &str, target: &str) -> bool {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() { Some(page.to_owned()) } else { resolve(page, path) };
    let Some(path) = path else { return false };
    match (texts.get(&path), anchor) {
        (Some(text), Some(anchor)) if path.ends_with(".md") => anchors(text).contains(anchor),
        (Some(_), _) => true,
        (None, _) => texts.keys().any(|name| name.starts_with(&format!("{path}/"))),
    }
}

/// The path from the root of the repository; none for a path out of it.
fn resolve(page: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                let numbered = (1..).map(|number| format!("{slug}-{number}"));
                let free =
                    [slug.clone()].into_iter().chain(numbered).find(|anchor| !anchors.contains(anchor));
                anchors.extend(free);
            }
            _ => {}
        }
    }
    anchors
}

pub(crate) fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
