//! Node API and publication of models, over real sockets.

mod death;
mod embedded;
mod limits;
mod protocol;
mod publishing;
mod shutdown;
pub(crate) mod support;
mod traces;
