//! What can be searched for: the words of the API, and how texts are compared.

use std::time::Duration;

use serde::Deserialize;

use crate::accounts::AccountId;
use crate::clock::Moment;

/// The order of a list of models. Among equals the one published first comes first, except that newest
/// and most recently updated first reverse that too; so pages never overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sort {
    CreatedOldest,
    Created,
    Modified,
    Likes,
    Downloads,
    /// By how many tasks were queued in the last seven days, then by likes.
    Trending,
}

/// Which models a list holds. Without a filter it holds the public ones and the caller's own; three
/// filters choose among these, the other three say by themselves which models they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Filter {
    /// Published by the operator.
    Official,
    /// Every public model, and no other.
    Public,
    /// Not published by the operator.
    Community,
    /// The caller's own, public or private.
    Author,
    /// Models of the playground.
    Playground,
    /// Everything that the caller may access: public, its own, and those of its organizations.
    Permission,
}

/// What to search the catalog for.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    pub(crate) caller: AccountId,
    /// A part of the name or the description, in any case.
    pub(crate) text: Option<String>,
    /// The order of publication by default, so that pages stay as they are while models are added.
    pub(crate) sort: Sort,
    pub(crate) filter: Option<Filter>,
    pub(crate) limit: u32,
    pub(crate) offset: u64,
    /// When `trending` looks back from.
    pub(crate) now: Moment,
}

/// The day after which uses count for `trending`: it looks back for a week.
pub(crate) fn trending_since(now: Moment) -> i64 {
    now.before(Duration::from_hours(7 * 24)).day()
}

/// The offset from which on a page is far: to count fewer models takes less time than the rest of a request.
const FAR: u64 = 500;

impl Search {
    /// What names and descriptions have to contain, folded; None for anything.
    pub(crate) fn folded_text(&self) -> Option<String> {
        self.text.as_deref().map(folded).filter(|text| !text.is_empty())
    }

    /// Returns whether the database looks at many models one by one: for a text, or before a page far into a list.
    pub(crate) fn reads_many(&self) -> bool {
        self.text.is_some() || self.offset >= FAR
    }

    /// What a cache finds the page by; none where something else than the catalog decides what is on it: how much models
    /// are used, who is a member of an organization. A text hardly comes twice.
    pub(crate) fn cache_key(&self) -> Option<String> {
        let by_date = matches!(self.sort, Sort::CreatedOldest | Sort::Created | Sort::Modified);
        let by_catalog = by_date && self.filter != Some(Filter::Permission) && self.text.is_none();
        let Self { caller, sort, filter, limit, offset, .. } = self;
        by_catalog.then(|| format!("{caller:?} {sort:?} {filter:?} {limit} {offset}"))
    }
}

/// A text in a form in which it equals itself in any case, in every language: the database knows the
/// cases of ASCII alone. Upper case first, since some letters have two lower ones ("ς" and "σ"). SUBSTITUTE takes the
/// place of NUL, which ends a text for the index of a database.
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
