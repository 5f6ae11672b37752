//! What authors of nodes and publishers of models rely on, over real sockets.

mod death;
mod embedded;
mod limits;
mod protocol;
mod publishing;
mod shutdown;
mod support;
mod traces;
