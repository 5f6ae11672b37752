//! What several tests need: the document as data, and a server that records what reaches it.

pub(crate) mod document;
pub(crate) mod recorder;
