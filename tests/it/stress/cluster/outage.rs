//! Outage of the object store: processes and callers reach it through a forwarder that can be cut.

use std::thread::sleep;
use std::time::Duration;

use inferstore_wire::{Cable, Line};

use crate::support::cluster::Engines;

pub(super) struct Outage(Cable);

impl Outage {
    pub(super) fn before(engines: &mut Engines) -> Self {
        let (_, endpoint) =
            engines.objects.split_once("endpoint=http://").expect("the bucket has an endpoint");
        let endpoint = endpoint.split('&').next().unwrap_or_default().to_owned();
        let store = endpoint.parse().expect("the endpoint is an address");
        let cable = Cable::to(store, None).expect("a free port");
        engines.objects = engines.objects.replace(&endpoint, &cable.address.to_string());
        Self(cable)
    }

    pub(super) fn last(&self, time: Duration) {
        self.0.set(Line::Cut);
        sleep(time);
        self.0.set(Line::Open);
    }
}
