//! S3 protocol: presigned targets, form uploads, signed PUTs and downloads on a listener of its own.

pub(crate) mod access;
pub(crate) mod backend;
pub(crate) mod edge;
pub(crate) mod form;
mod linger;
pub(crate) mod measured;
pub(crate) mod pace;
pub(crate) mod policy;
pub(crate) mod sign;
