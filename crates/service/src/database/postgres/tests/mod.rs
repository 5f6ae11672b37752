//! Tests of PostgreSQL: conformance, and properties of several processes, with a real server.

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

conformance!(crate::database::postgres::tests::server::Empty::new());
