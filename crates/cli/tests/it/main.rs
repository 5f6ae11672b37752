//! Tests of the command as its users see it: words, streams, exit codes.

#![expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]

#[cfg(all(target_os = "linux", feature = "controls"))]
mod action;
mod admin;
mod aliases;
mod batch;
#[cfg(feature = "controls")]
mod batch_resumed;
mod binary;
mod code;
mod commands;
mod completions;
mod console;
mod destinations;
mod docs;
mod edges;
mod failures;
mod files;
#[cfg(target_os = "linux")]
mod interactive;
#[cfg(feature = "controls")]
mod interrupted;
mod keys;
mod logs;
#[cfg(feature = "controls")]
mod mcp;
mod mistakes;
mod network;
mod node;
#[cfg(all(target_os = "linux", feature = "controls"))]
mod pages;
mod profiles;
mod reference;
mod rows;
mod scripts;
mod stored_inputs;
mod support;
mod sync;
mod terminal;
mod version;
#[cfg(unix)]
mod watch;
