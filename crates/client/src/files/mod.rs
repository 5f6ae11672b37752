//! Files: where they come from, what they are, upload and download.

pub(crate) mod download;
pub(crate) mod mime;
pub(crate) mod source;
pub(crate) mod upload;
