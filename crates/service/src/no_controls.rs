//! No test controls: the build lacks the feature `controls`.

use std::sync::Arc;

use axum::Router;
use inferstore_server::Listener;

use crate::Result;
use crate::admin::Admin;
use crate::clock::Clock;
use crate::config::Config;
use crate::jobs::Jobs;
use crate::nodes::{Nodes, Switch};

pub(crate) enum Tester {}

pub(crate) enum Side {
    Api,
    Objects,
}

pub(crate) struct Controls {
    pub(crate) tester: Arc<Tester>,
    pub(crate) admin: Admin,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) jobs: Arc<Jobs>,
}

impl Tester {
    pub(crate) fn bind(_: &Config) -> Result<Option<(Arc<Self>, Listener)>> {
        Ok(None)
    }

    pub(crate) fn switch(&self) -> Arc<Switch> {
        match *self {}
    }

    pub(crate) fn around_routes(self: &Arc<Self>, _: Side, _: &Clock, _: Router) -> Router {
        match **self {}
    }
}

impl Controls {
    pub(crate) fn set_baseline(&self) -> std::future::Ready<Result<()>> {
        match *self.tester {}
    }
}

pub(crate) fn router(controls: Controls) -> Router {
    match *controls.tester {}
}
