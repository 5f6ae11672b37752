//! Files: their sources and MIME types, uploads and downloads.

mod body;
pub(crate) mod download;
pub(crate) mod mime;
pub(crate) mod source;
mod store;
pub(crate) mod target;
pub(crate) mod upload;
