//! Cost of a call through the client relative to the same call with plain reqwest, in instructions, which do
//! not depend on the load of the machine: `cargo bench --bench overhead`. Needs valgrind.
//!
//! This program serves a fixed response and runs itself under callgrind, for each client and for two numbers
//! of calls. The difference is the cost of the calls without the start-up.

#![expect(clippy::expect_used, clippy::panic, reason = "a benchmark stops when it cannot go on")]

#[path = "support/balance.rs"]
mod balance;

use std::env;
use std::process::Command;

use balance::{Way, serve};
use inferstore_measure::{Better, Row};

const FEW: u32 = 100;
const MANY: u32 = 600;

/// Number of rounds, because a busy machine wakes a call more often.
const ROUNDS: usize = 3;

const ALLOWED: f64 = 1.05;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    match &arguments[..] {
        [_, way, base_url, calls] => call(way, base_url, calls.parse().expect("a number")),
        _ => compare(),
    }
}

fn compare() {
    let base_url = serve();
    let cost = |way: &str| {
        let [few, many] = [FEW, MANY].map(|calls| instructions(way, &base_url, calls));
        (many - few) / f64::from(MANY - FEW)
    };
    let rounds = [(); ROUNDS].map(|()| ["client", "raw", "by hand"].map(cost));
    let of = |which: usize| rounds.map(|round| round[which]).to_vec();
    for (against, theirs) in [("the raw generated client", of(1)), ("reqwest by hand", of(2))] {
        let note = "on top of the same call, the client decides on retries, reads failures and records \
                    spans; the limit is 5 % more";
        let row = Row {
            group: "client".to_owned(),
            what: "instructions of a call".to_owned(),
            against: against.to_owned(),
            unit: String::new(),
            better: Better::Lower,
            ours: of(0),
            theirs,
            minimum: Some(1.0 / ALLOWED),
            note: Some(note.to_owned()),
            command: "cargo bench --bench overhead".to_owned(),
        };
        row.print();
        assert_ne!(row.verdict(), "behind", "the client costs more than {ALLOWED} of {against}");
    }
}

fn instructions(way: &str, base_url: &str, calls: u32) -> f64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(env::current_exe().expect("this program has a path"));
    let output = valgrind.args([way, base_url, &calls.to_string()]).output().expect("valgrind is installed");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    let collected = report.lines().find_map(|line| line.split("Collected :").nth(1));
    collected.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count in {report}"))
}

fn call(way: &str, base_url: &str, calls: u32) {
    let way = match way {
        "client" => Way::client(base_url),
        "raw" => Way::raw(base_url),
        _ => Way::by_hand(inferstore_api::http_client_builder(), base_url),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for _ in 0..calls {
            way.call().await;
        }
    });
}
