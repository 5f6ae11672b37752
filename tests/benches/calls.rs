//! Calls per second and costs of a client, beside reqwest and the raw client: `cargo bench --bench calls`.

#![expect(clippy::expect_used, reason = "a benchmark stops when it cannot go on")]

#[path = "support/balance.rs"]
mod balance;

use std::time::Instant;

use balance::{Way, serve};
use inferstore_fetch::over_ring;
use inferstore_measure::{Better, Row, side_by_side, times};
use tokio::runtime::Runtime;

const ROUNDS: usize = 9;
const CALLS: u32 = 2_000;

const FRESH: usize = 20;

/// Lowest acceptable ratio, because the client does more.
const MINIMUM: f64 = 0.9;

type Maker = (&'static str, fn(&str) -> Way);

const MADE: [Maker; 2] = [
    ("reqwest by hand", |base_url| Way::by_hand(over_ring(reqwest::Client::builder()), base_url)),
    ("the raw generated client", Way::raw),
];

/// Alternatives with our timeouts and redirect policy, so that only the client layer differs.
const CALLED: [Maker; 2] = [
    ("reqwest by hand", |base_url| Way::by_hand(inferstore_api::http_client_builder(), base_url)),
    ("the raw generated client", Way::raw),
];

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let base_url = serve();
    for (against, other) in CALLED {
        let speed = |way: &Way| per_second(&runtime, way);
        let (mine, other) = (Way::client(&base_url), other(&base_url));
        let figures = side_by_side(ROUNDS, || speed(&mine), || speed(&other));
        row("calls, one after the other", against, "/s", Better::Higher, figures).print();
    }
    for (against, other) in MADE {
        let make = |maker: fn(&str) -> Way| times(FRESH, 1e-6, || drop(maker(&base_url)));
        let figures = side_by_side(ROUNDS, || make(Way::client), || make(other));
        let note = "reqwest by hand reads the certificates of the system for each client, ours once per \
                    process. Compared with the raw client, ours also makes the caches and budgets that its \
                    calls share. A program makes one client";
        Row { note: Some(note.to_owned()), ..row("making a client", against, "µs", Better::Lower, figures) }
            .print();
    }
    for (against, other) in MADE {
        let first = |maker: fn(&str) -> Way| {
            times(FRESH, 1e-6, || runtime.block_on(async { maker(&base_url).call().await }))
        };
        let figures = side_by_side(ROUNDS, || first(Way::client), || first(other));
        row("a client made, and its first call", against, "µs", Better::Lower, figures).print();
    }
}

fn per_second(runtime: &Runtime, way: &Way) -> f64 {
    let begun = Instant::now();
    runtime.block_on(async {
        for _ in 0..CALLS {
            way.call().await;
        }
    });
    f64::from(CALLS) / begun.elapsed().as_secs_f64()
}

fn row(what: &str, against: &str, unit: &str, better: Better, (ours, theirs): (Vec<f64>, Vec<f64>)) -> Row {
    Row {
        group: "client".to_owned(),
        what: what.to_owned(),
        against: against.to_owned(),
        unit: unit.to_owned(),
        better,
        ours,
        theirs,
        minimum: Some(MINIMUM),
        note: None,
        command: "cargo bench --bench calls".to_owned(),
    }
}
