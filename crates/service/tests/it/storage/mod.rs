//! Storage, over real sockets.

mod addresses;
mod damage;
mod download;
mod good;
mod interrupted;
mod listing;
mod presign;
mod refused;
pub(crate) mod support;
