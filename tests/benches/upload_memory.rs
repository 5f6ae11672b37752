//! Memory of an upload of 100 MiB above an idle client, in both tiers. Also checks the announced length and
//! the progress: `cargo bench --bench upload_memory`. Needs Linux.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

#[path = "../it/support/upload_memory.rs"]
mod upload_memory;

use std::env;
use std::process::Command;

use inferstore_measure::{Better, Row};
use upload_memory::{Tier, measure, upload};

const ALLOWED: u64 = 4_000_000 / 1024;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, word, base_url, file] = &arguments[..]
        && word == "upload"
    {
        println!("{}", upload(base_url, file));
        return;
    }
    for tier in [Tier::Form, Tier::Put] {
        let measured = measure(tier, 100 << 20, |base_url, path| {
            let mut child = Command::new(env::current_exe().expect("this program has a path"));
            child.args(["upload", base_url]).arg(path);
            child
        });
        let taken = measured.peak.saturating_sub(measured.idle);
        let row = Row {
            group: "client".to_owned(),
            what: format!("memory of 100 MiB by {tier:?}, above idle"),
            against: "what is allowed".to_owned(),
            unit: "KiB".to_owned(),
            better: Better::Lower,
            ours: vec![taken as f64],
            theirs: vec![ALLOWED as f64],
            minimum: None,
            note: None,
            command: "cargo bench --bench upload_memory".to_owned(),
        };
        row.print();
        assert!(taken <= ALLOWED, "the upload takes too much memory");
    }
}
