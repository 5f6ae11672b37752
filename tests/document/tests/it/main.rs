//! Promises of the document: it agrees with the original description, its examples are valid, and the
//! generated types read and write the declared JSON.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod decisions;
mod description;
mod examples;
mod kinds;
mod tolerance;
