//! Promises of the document: it says what the original description says, its examples are valid, and the generated
//! types read and write what it declares.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod decisions;
mod description;
mod examples;
mod kinds;
mod tolerance;
