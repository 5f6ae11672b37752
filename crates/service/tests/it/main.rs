//! Integration tests of the service: over real sockets, with separate folders and databases.

mod admin;
mod caller;
mod controls;
mod direct;
mod http;
mod nodes;
mod storage;
