//! Manipulated uploads are rejected and leave nothing behind; the same upload unchanged is stored.

mod attack;
mod bench;
mod names;
mod upload;

use std::time::Duration;

use attack::Attacker;
use bench::{Bench, MAX_FORM_FILE};
use serde_json::{Value, json};
use upload::Upload;

pub(super) use upload::Target;

use super::{Intensity, tell};

const DAY: Duration = Duration::from_hours(24);

fn order(random: &mut fastrand::Rng, size: u64) -> Value {
    let mimes = ["image/png", "text/plain; charset=utf-8", "application/x-stress"];
    let folders = ["thumbnails", "covers", "samples", "documents"];
    json!({
        "folder": folders[random.usize(..folders.len())],
        "mime": mimes[random.usize(..mimes.len())],
        "name": format!("file {}.bin", random.u32(..)),
        "size": size,
    })
}

fn content(random: &mut fastrand::Rng, size: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(size).expect("a file fits into memory")];
    random.fill(&mut bytes);
    bytes
}

async fn store(bench: &Bench, target: &Target, upload: &Upload, what: &str) {
    let reply = upload.send().await.unwrap_or_else(|| panic!("{what}: no answer"));
    assert!(matches!(reply.status, 200 | 204), "{what}: {reply:?}");
    bench.holds(Some((&target.download_url, &upload.file)), what).await;
}

async fn refuse(bench: &Bench, target: &Target, upload: &Upload, what: &str) {
    let reply = upload.send().await;
    match &reply {
        // After a cut or a wrong length, the connection may be closed without a response.
        None => assert!(upload.cut.is_some() || upload.length != upload::Length::True, "{what}: no answer"),
        Some(reply) => {
            assert!((400..=501).contains(&reply.status) && reply.status != 500, "{what}: {reply:?}");
            // Malformed HTTP is rejected before the request reaches the object store.
            let reported = reply.body().contains("<Code>") || reply.body().is_empty() && reply.status == 400;
            assert!(reported, "{what}: {reply:?}");
        }
    }
    bench.holds(None, what).await;
    assert_eq!(bench.download(&target.download_url).await, None, "{what}");
}

async fn attack(sizes: impl Fn(&mut fastrand::Rng) -> u64, rounds: usize, attacks: usize) {
    let bench = Bench::start().await;
    let mut random = Intensity::of_this_run().random();
    for _ in 0..rounds {
        let size = sizes(&mut random);
        let order = order(&mut random, size);
        let (target, others) = (bench.target(&order).await, bench.others(&order).await);
        let good = target.upload(content(&mut random, size));
        let mut attacker = Attacker { random: random.fork(), others: &others };
        for _ in 0..attacks {
            let (bad, what) = attacker.attack(&good);
            refuse(&bench, &target, &bad, &what).await;
        }
        store(&bench, &target, &good, "nothing was changed").await;
        store(&bench, &target, &good, "the same upload again").await;
        bench.delete(&target.download_url).await;
        refuse(&bench, &target, &good, "the file was deleted").await;
    }
    bench.balance_after(DAY).await;
    assert_eq!(bench.balance_after(DAY).await, bench.balance_after(DAY).await, "nothing is metered");
    tell(&format!("{} attacks on {rounds} uploads, each of which was good without", rounds * attacks));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tampered_form_stores_nothing_and_the_original_form_is_stored() {
    let intensity = Intensity::of_this_run();
    attack(|random| random.u64(1..200_000), intensity.times(3, 100), intensity.times(10, 50)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tampered_put_stores_nothing_and_the_original_put_is_stored() {
    let intensity = Intensity::of_this_run();
    let sizes = |random: &mut fastrand::Rng| MAX_FORM_FILE + random.u64(1..100_000);
    attack(sizes, intensity.times(1, 20), intensity.times(8, 50)).await;
}

#[tokio::test]
async fn a_target_works_until_it_expires_and_not_a_moment_longer() {
    let bench = Bench::start().await;
    let mut random = Intensity::of_this_run().random();
    for size in [77, MAX_FORM_FILE + 1] {
        let target = bench.target(&order(&mut random, size)).await;
        let good = target.upload(content(&mut random, size));
        bench.controls.advance_clock(Duration::from_mins(14)).await.expect("the clock is set");
        store(&bench, &target, &good, "a minute before it expires").await;
        bench.controls.advance_clock(Duration::from_mins(1)).await.expect("the clock is set");
        let reply = good.send().await.expect("an answer");
        assert_eq!(reply.status, 403, "{reply:?}");
        bench.holds(Some((&target.download_url, &good.file)), "a target that has expired").await;
        bench.delete(&target.download_url).await;
        refuse(&bench, &target, &good, "expired and deleted").await;
    }
}
