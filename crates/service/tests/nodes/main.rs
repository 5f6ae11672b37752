//! What whoever runs nodes outside the process, or publishes models, relies on, over real sockets.

mod death;
mod embedded;
mod protocol;
mod publishing;
mod support;
