//! Guarantees for users of the console: over HTTP, and in a browser.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod browser;
mod devtools;
mod forms;
mod guard;
mod live;
mod pages;
mod support;
mod texts;
