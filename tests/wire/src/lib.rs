//! The other end of a connection, for tests: a raw HTTP server that records requests byte by byte and reacts as
//! scripted, and a TCP proxy whose connections break at a chosen place. Both listen on a free loopback port. `until`
//! waits for a condition, with a bound.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

mod cable;
mod server;
mod until;

pub use cable::{Break, Cable, Line};
pub use server::{Reaction, Request, Server, response};
pub use until::until;
