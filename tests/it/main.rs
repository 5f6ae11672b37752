//! Integration tests, one module for each promise to users of the document and of the crates. A single
//! binary, so that it is linked once.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod client;
mod command;
mod decimals;
mod fuzzed;
mod nodes;
mod payloads;
mod readme;
mod secrets;
mod service;
mod stress;
mod support;
