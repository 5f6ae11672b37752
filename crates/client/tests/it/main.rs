//! What users of the client rely on, tested with its own test kit.

mod cookbook;
mod creates;
mod limits;
mod profiles;
mod proxies;
mod refusals;
mod runs;
mod testing;
mod tracing;
