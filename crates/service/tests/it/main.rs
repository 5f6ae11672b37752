//! The service as its users have it: over real sockets, in folders and databases of its own.

mod admin;
mod caller;
mod controls;
mod direct;
mod http;
mod nodes;
mod storage;
