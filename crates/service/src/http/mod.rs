//! Building blocks of the HTTP listeners: requests, responses, the access log, and limits on clients.

pub(crate) mod listeners;
pub(crate) mod mime;
pub(crate) mod observe;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod share_limit;
pub(crate) mod slow_clients;
