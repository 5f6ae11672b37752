//! Test doubles and callers: a recording server, a breakable connection, and a caller that validates every
//! response of the service.

pub(crate) mod cable;
pub(crate) mod caller;
pub(crate) mod cluster;
pub(crate) mod deployment;
pub(crate) mod picture;
pub(crate) mod recorder;
pub(crate) mod responder;
pub(crate) mod scripted;
pub(crate) mod upload_memory;
