//! Search parameters of the catalog, and case-insensitive comparison of texts.

use std::time::Duration;

use serde::Deserialize;

use crate::accounts::AccountId;
use crate::clock::Moment;

/// Sort order of a list of models. The time of publication orders ties, so that pages never overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sort {
    CreatedOldest,
    Created,
    Modified,
    Likes,
    Downloads,
    /// By the number of tasks queued in the last seven days, then by likes.
    Trending,
}

/// Filter of a list. Without a filter, a list contains the public models and the caller's own. Three filters select
/// among these; `Public`, `Author` and `Permission` define their own set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Filter {
    Official,
    Public,
    Community,
    Author,
    Playground,
    /// All models that the caller may access: public, its own, and those of its organizations.
    Permission,
}

#[derive(Debug, Clone)]
pub(crate) struct Search {
    pub(crate) caller: AccountId,
    pub(crate) text: Option<String>,
    /// Order of publication by default, so that pages stay stable while models are added.
    pub(crate) sort: Sort,
    pub(crate) filter: Option<Filter>,
    pub(crate) limit: u32,
    pub(crate) offset: u64,
    pub(crate) now: Moment,
}

pub(crate) fn trending_since(now: Moment) -> i64 {
    now.before(Duration::from_hours(7 * 24)).day()
}

/// Offset from which a page is deep. Skipping fewer models takes less time than the rest of the request.
const FAR: u64 = 500;

impl Search {
    pub(crate) fn folded_text(&self) -> Option<String> {
        self.text.as_deref().map(folded).filter(|text| !text.is_empty())
    }

    pub(crate) fn reads_many(&self) -> bool {
        self.text.is_some() || self.offset >= FAR
    }

    /// Returns the cache key of the page; None for a text search, or if more than the catalog determines the page.
    pub(crate) fn cache_key(&self) -> Option<String> {
        let by_date = matches!(self.sort, Sort::CreatedOldest | Sort::Created | Sort::Modified);
        let by_catalog = by_date && self.filter != Some(Filter::Permission) && self.text.is_none();
        let Self { caller, sort, filter, limit, offset, .. } = self;
        by_catalog.then(|| format!("{caller:?} {sort:?} {filter:?} {limit} {offset}"))
    }
}

/// Folds a text for comparison in every language (the database folds ASCII alone); upper case first, because some
/// letters have two lower-case forms ("ς" and "σ"). SUBSTITUTE replaces NUL, which would end the text in an index.
pub(crate) fn folded(text: &str) -> String {
    let text = text.replace('\0', "\u{1a}");
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
impl Sort {
    pub(crate) const ALL: [Self; 6] =
        [Self::CreatedOldest, Self::Created, Self::Modified, Self::Likes, Self::Downloads, Self::Trending];
}

#[cfg(test)]
impl Filter {
    pub(crate) const ALL: [Self; 6] =
        [Self::Official, Self::Public, Self::Community, Self::Author, Self::Playground, Self::Permission];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_equal_themselves_in_any_case() {
        for (one, other) in [
            ("Été", "éTÉ"),
            ("Straße", "STRASSE"),
            ("ΟΔΥΣΣΕΥΣ", "Οδυσσευς"),
            ("ПРИВЕТ", "привет"),
            ("ﬁlm", "FILM"),
        ] {
            assert_eq!(folded(one), folded(other));
        }
        assert!(folded("ΟΔΥΣΣΕΥΣ").contains(&folded("ΟΔΥΣ")));
    }
}
