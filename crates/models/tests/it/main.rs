//! Guarantees for users of the built-in models: accepted results as golden pictures, no panic, and no run
//! above its limits.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod corpus;
mod files;
mod golden;
mod hostile;
mod memory;
mod samples;
mod scenes;
mod support;
