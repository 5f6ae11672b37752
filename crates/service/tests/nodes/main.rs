//! What whoever runs nodes outside the process, or publishes models, relies on, over real sockets.

mod death;
mod embedded;
mod limits;
mod protocol;
mod publishing;
mod shutdown;
mod support;
