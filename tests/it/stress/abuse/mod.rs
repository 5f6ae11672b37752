//! Abuse: hostile load. Honest clients are served throughout, memory stays bounded, and resources are
//! released afterwards.

mod harness;
mod shapes;
mod slow_clients;
mod smuggling;

use harness::Harness;
use inferstore_wire::until;
use tokio::task::JoinSet;

use super::{Intensity, tell};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Maximum memory of a connection: buffers and the state of its request. Far below the 128 KiB that one may
/// fill, because slow clients fill nothing.
const EACH: u64 = 64 * KIB;

/// Maximum memory beyond connections: queries, blobs in transfer, pages that the allocator keeps.
const ONCE: u64 = 96 * MIB;

#[tokio::test(flavor = "multi_thread")]
async fn honest_clients_are_served_while_slow_clients_are_disconnected() {
    let intensity = Intensity::of_this_run();
    let (crowd, client_timeout) = intensity.times((100, 1_500), (10_000, 20_000));
    let harness = Harness::open(&[("client_timeout", client_timeout)]).await;
    let quiet = harness.serve_the_honest(10).await;

    let clients = slow_clients::all(&harness).await;
    let mut slow = JoinSet::new();
    for client in slow_clients::gather(&clients, crowd) {
        slow.spawn(client.stay());
    }
    until("all are let in", || async { harness.held() >= crowd * 8 / 10 }).await;
    let held = harness.held();
    let beside = harness.serve_the_honest(10).await;
    harness.until_released().await;
    slow.shutdown().await;
    harness.serve_the_honest(3).await;
    let grown = harness.grown();
    assert!(grown < ONCE + EACH * crowd as u64, "{} MiB more", grown / MIB);
    harness.process.end();
    tell(&format!(
        "{crowd} slow clients of {} kinds ({held} at once), {} MiB more memory; the honest: {quiet:.1?} alone, \
         {beside:.1?} beside them",
        clients.len(),
        grown / MIB
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_the_limit_wait_and_each_is_served() {
    let harness = Harness::open(&[("client_timeout", 2_000), ("connections", 32)]).await;
    let idle = Intensity::of_this_run().times(200, 2_000);
    let mut waiting = Vec::new();
    for number in 0..idle {
        let host = [&harness.api, &harness.storage][number % 2];
        waiting.push(tokio::net::TcpStream::connect(host).await.expect("the kernel lets it wait"));
    }
    for _ in 0..3 {
        // A new connection each time: a full service may close a kept one while a request is sent.
        harness.honest.anew().get("/api-key/balance").await.data();
    }
    drop(waiting);
    let mut requests = JoinSet::new();
    for number in 0..idle {
        let host = [&harness.api, &harness.storage][number % 2].clone();
        let request = "GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        requests.spawn_blocking(move || super::raw::exchange_at_once(&host, request.as_bytes()));
    }
    for reply in requests.join_all().await {
        assert!(reply.is_some(), "a connection that waited got no response");
    }
    harness.until_released().await;
    harness.process.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_account_cannot_take_the_room_of_all_others_by_sending_slowly() {
    let harness = Harness::open(&[("client_timeout", 60_000), ("requests", 40)]).await;
    let clients = slow_clients::all(&harness).await;
    let bodies = clients.into_iter().filter(|client| {
        matches!(client.who, "a body byte by byte" | "a form byte by byte" | "a put byte by byte")
    });
    let mut slow = JoinSet::new();
    for client in bodies {
        for _ in 0..100 {
            slow.spawn(client.clone().stay());
        }
    }
    // A quarter of the limit of forty: ten bodies and ten uploads.
    let part = (10, 10);
    let is_taken = || async { (harness.in_progress().await, harness.halves()) == part };
    until("a part of the room is taken", is_taken).await;
    harness.serve_the_honest(5).await;
    assert_eq!((harness.in_progress().await, harness.halves()), part, "the slow ones are still waited for");
    slow.shutdown().await;
    harness.until_released().await;
    harness.process.end();
}
