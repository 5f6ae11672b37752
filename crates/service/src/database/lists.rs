//! Lists of models in the SQL of any engine: which parts they have, and what they are ordered by.

use crate::catalog::{Filter, Sort};

/// Models that are visible to the account $1, in parts that each have an index: a list of all of them is merged from
/// lists that are in order already.
pub(super) const PUBLIC: &str = "is_public = true";
const OWN_PUBLIC: &str = "is_public = true AND owner = $1";
const OWN_PRIVATE: &str = "is_public = false AND owner = $1";
const PRIVATE_OF_ORGANIZATIONS: &str = "is_public = false AND owner <> $1 \
     AND owner IN (SELECT organization FROM members WHERE person = $1)";

/// Which parts a list has, and what else it asks of a model.
pub(super) const fn parts(filter: Option<Filter>) -> (&'static [&'static str], &'static str) {
    const LISTED: &[&str] = &[PUBLIC, OWN_PRIVATE];
    match filter {
        None => (LISTED, ""),
        Some(Filter::Official) => (LISTED, "AND is_official = true"),
        Some(Filter::Community) => (LISTED, "AND is_official = false"),
        Some(Filter::Playground) => (LISTED, "AND is_playground = true"),
        Some(Filter::Public) => (&[PUBLIC], ""),
        Some(Filter::Author) => (&[OWN_PUBLIC, OWN_PRIVATE], ""),
        Some(Filter::Permission) => (&[PUBLIC, OWN_PRIVATE, PRIVATE_OF_ORGANIZATIONS], ""),
    }
}

/// What a list is ordered by: a column as its `place`, or None for what trends, and the `number` of publication.
pub(super) const fn order(sort: Sort) -> (Option<&'static str>, &'static str) {
    match sort {
        Sort::CreatedOldest => (Some("created_at"), "place, number"),
        Sort::Created => (Some("created_at"), "place DESC, number DESC"),
        Sort::Modified => (Some("updated_at"), "place DESC, number DESC"),
        Sort::Likes => (Some("likes"), "place DESC, number"),
        Sort::Downloads => (Some("downloads"), "place DESC, number"),
        Sort::Trending => (None, "place DESC, next DESC, number"),
    }
}
