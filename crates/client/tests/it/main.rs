//! What users of the client rely on, tested with its own test kit.

mod cookbook;
mod creates;
mod hints;
mod limits;
mod lost;
mod outages;
mod profiles;
mod proxies;
mod refusals;
mod runs;
mod testing;
mod tracing;
mod waits;

/// How many of the requests are of this operation.
fn count(requests: &[&str], operation: &str) -> usize {
    requests.iter().filter(|request| **request == operation).count()
}
