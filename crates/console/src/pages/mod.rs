//! Pages: each renders a view of the service. Pages import state and parts, never the other way.

pub(crate) mod account;
pub(crate) mod catalog;
pub(crate) mod keys;
pub(crate) mod model;
pub(crate) mod reference;
pub(crate) mod run;
pub(crate) mod storage;
pub(crate) mod task;

mod prelude {
    pub(super) use axum::extract::Request;
    pub(super) use axum::http::StatusCode;
    pub(super) use axum::response::{IntoResponse, Response};
    pub(super) use inferstore::types::TaskStatus;
    pub(super) use maud::{Markup, html};

    pub(super) use crate::failure::{Failure, Result, parsed, within};
    pub(super) use crate::parts::*;
    pub(super) use crate::state::App;
    pub(super) use crate::text::*;
}
