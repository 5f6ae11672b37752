//! Links between the Markdown pages of the repository: each relative link leads to a file, and each anchor to a heading.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

const CHANGELOG: &str = "CHANGELOG.md";

/// Returns the links that lead to nothing, as `page:line links to target`. rustdoc checks the pages below `src`.
pub(crate) fn broken(texts: &BTreeMap<String, String>) -> Vec<String> {
    let is_checked = |name: &str, text: &String| {
        let is_copy = name != CHANGELOG && texts.get(CHANGELOG) == Some(text);
        name.ends_with(".md") && !name.contains("/src/") && !is_copy
    };
    let mut broken = Vec::new();
    for (name, text) in texts.iter().filter(|(name, text)| is_checked(name, text)) {
        for (range, target) in links(text) {
            if !leads_somewhere(texts, name, &target) {
                let line = text[..range.start].matches('\n').count() + 1;
                broken.push(format!("{name}:{line} links to {target}"));
            }
        }
    }
    broken
}

/// Links and pictures with their byte ranges; those with a scheme, such as `https:`, are left out.
pub(crate) fn links(text: &str) -> Vec<(Range<usize>, String)> {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    let targets = events.filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((range, dest_url.into_string()))
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

fn anchors(text: &str) -> BTreeSet<String> {
    let events = with_anchors(Parser::new_ext(text, Options::ENABLE_TABLES));
    let anchor = |event| match event {
        Event::Start(Tag::Heading { id, .. }) => id.map(CowStr::into_string),
        _ => None,
    };
    events.into_iter().filter_map(anchor).collect()
}

pub(crate) fn with_anchors<'a>(events: impl Iterator<Item = Event<'a>>) -> Vec<Event<'a>> {
    let mut events: Vec<Event<'a>> = events.collect();
    let mut taken = BTreeSet::new();
    let mut heading: Option<(usize, String)> = None;
    for at in 0..events.len() {
        match &events[at] {
            Event::Start(Tag::Heading { .. }) => heading = Some((at, String::new())),
            Event::Text(words) | Event::Code(words) => {
                if let Some((_, heading)) = &mut heading {
                    heading.push_str(words);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let Some((begin, words)) = heading.take() else { continue };
                let slug = slug(&words);
                let numbered = (1..).map(|number| format!("{slug}-{number}"));
                let free =
                    [slug.clone()].into_iter().chain(numbered).find(|anchor| taken.insert(anchor.clone()));
                if let Event::Start(Tag::Heading { id, .. }) = &mut events[begin] {
                    *id = free.map(CowStr::from);
                }
            }
            _ => {}
        }
    }
    events
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
