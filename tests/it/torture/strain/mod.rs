//! Load that is meant to hurt. Whoever is honest is served all the while, memory stays bounded, and what was
//! held is released afterwards.

mod arena;
mod crowd;
mod shapes;
mod smuggling;

use arena::Arena;
use tokio::task::JoinSet;

use super::{Effort, tell};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// What a connection may cost: buffers for what is read and written, and the state of its request. Far below
/// the 128 KiB that one may fill, because slow clients fill nothing.
const EACH: u64 = 64 * KIB;

/// What may be added once: queries, blobs in motion, pages that the allocator keeps.
const ONCE: u64 = 96 * MIB;

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_honest_is_served_while_a_crowd_is_slow_and_the_crowd_is_let_go() {
    let effort = Effort::of_this_run();
    let (crowd, patience) = effort.times((500, 1_500), (10_000, 20_000));
    let arena = Arena::open(&[("patience", patience)]).await;
    let quiet = arena.serve_the_honest(10).await;

    let habits = crowd::habits(&arena).await;
    let mut slow = JoinSet::new();
    for client in crowd::gather(&habits, crowd) {
        slow.spawn(client.stay());
    }
    let arrived = async {
        while arena.held() < crowd * 8 / 10 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(super::raw::BACKSTOP, arrived).await.expect("all are let in");
    let held = arena.held();
    let strained = arena.serve_the_honest(10).await;
    // The crowd stays as long as it is let: that nothing is held for it is the doing of the service.
    arena.until_released().await;
    slow.shutdown().await;
    arena.serve_the_honest(3).await;
    let grown = arena.grown();
    assert!(grown < ONCE + EACH * crowd as u64, "{} MiB more", grown / MIB);
    arena.process.end();
    tell(&format!(
        "{crowd} slow clients of {} kinds ({held} at once), {} MiB more memory; the honest: {quiet:.1?} alone, \
         {strained:.1?} beside them",
        habits.len(),
        grown / MIB
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_the_limit_wait_and_nobody_is_forgotten() {
    let arena = Arena::open(&[("patience", 300), ("connections", 32)]).await;
    let idle = Effort::of_this_run().times(200, 2_000);
    let mut waiting = Vec::new();
    for number in 0..idle {
        let host = [&arena.api, &arena.storage][number % 2];
        waiting.push(tokio::net::TcpStream::connect(host).await.expect("the kernel lets it wait"));
    }
    // New connections, because those that are open already need no room.
    let newcomer = arena.honest.anew();
    for _ in 0..3 {
        newcomer.get("/api-key/balance").await.data();
    }
    drop(waiting);
    arena.until_released().await;
    arena.process.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_account_cannot_take_the_room_of_all_others_by_sending_slowly() {
    let arena = Arena::open(&[("patience", 60_000), ("requests", 40)]).await;
    let habits = crowd::habits(&arena).await;
    let bodies = habits.into_iter().filter(|habit| {
        matches!(habit.who, "a body byte by byte" | "a form byte by byte" | "a put byte by byte")
    });
    let mut slow = JoinSet::new();
    for habit in bodies {
        for _ in 0..100 {
            slow.spawn(habit.clone().stay());
        }
    }
    // Of a room for forty a quarter: ten bodies and ten uploads.
    let part = (10, 10);
    let taken = async {
        while (arena.in_progress().await, arena.halves()) != part {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(super::raw::BACKSTOP, taken).await.expect("a part of the room is taken");
    arena.serve_the_honest(5).await;
    assert_eq!((arena.in_progress().await, arena.halves()), part, "the slow ones are still waited for");
    slow.shutdown().await;
    arena.until_released().await;
    arena.process.end();
}
