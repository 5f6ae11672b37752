//! HTTP listeners for the public internet, with limits on connections, and temporary folders of processes.

mod connections;
mod drain;
mod file_limit;
mod listener;
mod request;
mod stream;
pub mod temporary;

pub use connections::Connections;
pub use file_limit::raise as max_connections;
pub use listener::{HangUp, Listener, Server, Timeouts};
pub use stream::MIN_PROGRESS;
