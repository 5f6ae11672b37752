//! Integration tests of `cargo xtask`: the program is run as cargo runs it, on files in a folder of its own.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod diff;
mod drift;
mod generate;
mod mistakes;
mod polish;
mod publish;
mod release;
mod scaffold;
mod support;
mod tidy;
mod tools;
