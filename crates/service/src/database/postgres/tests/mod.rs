//! Tests of PostgreSQL: conformance, and properties of several processes, with a real server that the tests start. They
//! run on request alone, and fail where none is installed: `cargo test --lib -- --ignored database::postgres`.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test may end when its set-up fails")]

mod contention;
mod creates;
mod failover;
mod measure;
mod migrations;
mod moving;
mod processes;
mod server;
mod service;
mod tls;

use crate::database::conformance::conformance;

conformance!(ignore = "it starts a PostgreSQL", crate::database::postgres::tests::server::Empty::new());
