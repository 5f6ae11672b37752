//! Lists in engine-independent SQL: the parts and orders of model lists, and the operator's task lists.

use crate::catalog::{Filter, Sort};
use crate::operator::TaskFilter;

/// Parts of the models that the account $1 may see. Each part has an index, so that a list merges sorted parts.
pub(super) const PUBLIC: &str = "is_public = true";
const OWN_PUBLIC: &str = "is_public = true AND owner = $1";
const OWN_PRIVATE: &str = "is_public = false AND owner = $1";
const PRIVATE_OF_ORGANIZATIONS: &str = "is_public = false AND owner <> $1 \
     AND owner IN (SELECT organization FROM members WHERE person = $1)";

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

/// Returns the order of a list: a column as `place` (None for trending), and the publication `number`.
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

pub(super) const SUMMARY: &str =
    "models.id, name, username, description, is_official, is_verified, is_public, price";

fn tasks(name: &str, more: &str) -> String {
    format!(
        "SELECT tasks.id, username, model, status, price, cost, message, nullif(node, ''), attempt, \
         tasks.created_at, updated_at, \
         EXISTS (SELECT 1 FROM movements WHERE task = tasks.{name} AND reason = 'refund') {more} \
         FROM tasks JOIN accounts ON accounts.id = tasks.account"
    )
}

pub(super) fn page_of_tasks(filter: TaskFilter, name: &str) -> String {
    let (of_account, order) = match filter.account {
        Some(_) => ("account = $1", "place"),
        None => ("CAST($1 AS BIGINT) IS NULL", "sequence"),
    };
    let of_status = if filter.status.is_some() { "status = $2" } else { "CAST($2 AS TEXT) IS NULL" };
    let tasks = tasks(name, "");
    format!("{tasks} WHERE {of_account} AND {of_status} ORDER BY {order} DESC LIMIT $3 OFFSET $4")
}

pub(super) fn one_task(name: &str) -> String {
    format!("{} WHERE tasks.id = $1", tasks(name, ", input, output, error"))
}
