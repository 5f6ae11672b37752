//! Outage of the object store: processes and callers reach it through a forwarder that can be cut.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::cluster::Engines;

pub(super) struct Outage(watch::Sender<bool>);

impl Outage {
    /// Puts the forwarder between the object store and its users.
    pub(super) async fn before(engines: &mut Engines) -> Self {
        let (_, endpoint) =
            engines.objects.split_once("endpoint=http://").expect("the bucket has an endpoint");
        let endpoint = endpoint.split('&').next().unwrap_or_default().to_owned();
        let store: SocketAddr = endpoint.parse().expect("the endpoint is an address");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        engines.objects = engines.objects.replace(&endpoint, &address);
        let (is_away, seen) = watch::channel(false);
        tokio::spawn(forward(listener, store, seen));
        Self(is_away)
    }

    /// Cuts the object store off for this time: open connections break, and new ones are closed.
    pub(super) fn last(&self, time: Duration) {
        self.0.send_replace(true);
        sleep(time);
        self.0.send_replace(false);
    }
}

async fn forward(listener: TcpListener, store: SocketAddr, is_away: watch::Receiver<bool>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let mut is_away = is_away.clone();
        if *is_away.borrow() {
            continue;
        }
        tokio::spawn(async move {
            let Ok(mut server) = TcpStream::connect(store).await else { return };
            tokio::select! {
                _ = is_away.wait_for(|is_away| *is_away) => {}
                _ = copy_bidirectional(&mut client, &mut server) => {}
            }
        });
    }
}
