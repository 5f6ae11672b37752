//! What testers rely on: controls over real sockets, and as methods.

mod data;
mod docs;
mod faults;
mod http;
mod running;
mod support;
