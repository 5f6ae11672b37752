//! No switch of the local node: the build lacks the feature `controls`.

use std::future::Ready;

use tokio_util::sync::CancellationToken;

use super::local_node::Replacement;

pub(crate) enum Switch {}

pub(crate) struct Held<'a>(&'a Switch);

impl Switch {
    pub(crate) fn interrupted(&self) -> CancellationToken {
        match *self {}
    }

    pub(crate) fn hold(&self) -> Ready<Held<'_>> {
        match *self {}
    }
}

impl Held<'_> {
    pub(crate) fn interrupted(&self) -> CancellationToken {
        match *self.0 {}
    }

    pub(crate) fn served(&self, _: Vec<String>) -> Option<Vec<String>> {
        match *self.0 {}
    }

    pub(crate) fn claimable(&self, _: Vec<String>) -> Option<Vec<String>> {
        match *self.0 {}
    }

    pub(crate) fn replacement(&self, _: &str) -> Option<Replacement> {
        match *self.0 {}
    }
}
