//! The changelog of the API: what changed from version to version, by our own comparison.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use openapi_impact::{Version, compare, load, markdown, verdict_in_words};

use crate::diff::published;
use openapi_impact::Tree;

const CHANGELOG: &str = "CHANGELOG.md";

pub(super) struct Release {
    pub(super) version: String,
    pub(super) date: String,
    pub(super) verdict: String,
    pub(super) words: String,
    changes: String,
}

pub(super) fn releases(root: &Path, document: &Tree) -> Result<Vec<Release>> {
    let mut versions = Vec::new();
    for (version, path) in published(root)? {
        versions.push((version, load(&path)?));
    }
    let version = Version::of(document)?;
    if versions.iter().all(|(published, _)| *published != version) {
        versions.push((version, document.clone()));
    }
    let written = fs::read_to_string(root.join(CHANGELOG)).unwrap_or_default();
    let mut releases = Vec::new();
    for (at, (version, is)) in versions.iter().enumerate() {
        let (date, words) = section(&written, &version.to_string())?;
        let before = at.checked_sub(1).and_then(|before| versions.get(before));
        let (verdict, changes) = match before {
            Some((old, was)) => {
                let changes = compare(was, is);
                (format!("Since {old}: {}.", verdict_in_words(changes.verdict())), markdown(&changes))
            }
            None => ("The first published version.".to_owned(), String::new()),
        };
        releases.push(Release {
            version: version.to_string(),
            date: date.to_owned(),
            verdict,
            words: words.to_owned(),
            changes,
        });
    }
    releases.reverse();
    Ok(releases)
}

pub(super) fn changelog(releases: &[Release]) -> String {
    let mut text = "# Changes of the Inferstore API\n\n\
        A breaking change raises the first number of the version, an addition the second, a word the \
        third. The versions [as a feed](feed.xml).\n"
        .to_owned();
    for Release { version, date, verdict, words, changes } in releases {
        text.push_str(&format!("\n## {version}\n\n{date}. {verdict}\n"));
        if !words.is_empty() {
            text.push_str(&format!("\n{words}\n"));
        }
        if !words.is_empty() && !changes.is_empty() {
            text.push_str("\nEvery change with its place:\n");
        }
        if !changes.is_empty() {
            text.push_str(&format!("\n{changes}"));
        }
    }
    text
}

fn section<'a>(text: &'a str, version: &str) -> Result<(&'a str, &'a str)> {
    let heading = format!("### The document {version} (");
    let missing = || format!("{CHANGELOG} has no heading `{heading}YYYY-MM-DD)`, the day of the version");
    let (_, rest) = text.split_once(&heading).with_context(missing)?;
    let (date, rest) = rest.split_once(")\n").with_context(missing)?;
    let is_date = date.len() == 10
        && date.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    ensure!(is_date, missing());
    Ok((date, rest.split("\n#").next().unwrap_or(rest).trim()))
}
