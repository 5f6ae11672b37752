//! What users of the built-in models rely on: results that a person would accept, kept as golden
//! pictures, and no input that makes a model panic or take more than it may.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod corpus;
mod files;
mod golden;
mod hostile;
mod memory;
mod samples;
mod scenes;
mod support;
