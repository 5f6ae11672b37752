//! Doubles and callers of several tests: a server that records what reaches it, a cable that breaks, and a caller that
//! judges every answer of the service.

pub(crate) mod cable;
pub(crate) mod caller;
pub(crate) mod cluster;
pub(crate) mod deployment;
pub(crate) mod picture;
pub(crate) mod recorder;
pub(crate) mod responder;
pub(crate) mod scripted;
pub(crate) mod upload_memory;
