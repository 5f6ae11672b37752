//! Start time of a service within a running process, by kind of folder, compared with writing the tables alone: `cargo
//! bench --bench start`.

#![expect(clippy::expect_used, reason = "a measurement that cannot go on says so by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};

use inferstore_measure::{Better, Row};
use inferstore_service::{Config, Service};
use rusqlite::Connection;

const ROUNDS: usize = 20;

/// A fresh service also draws keys, publishes its catalog, binds its sockets and starts its node.
const MINIMUM: f64 = 0.2;

#[tokio::main]
async fn main() {
    let (mut fresh, mut synced, mut again) = (Vec::new(), Vec::new(), Vec::new());
    let (mut tables, mut synced_tables) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        tables.push(write_tables(&folder.path().join("1.db"), "OFF"));
        fresh.push(start(Config::ephemeral()).await);
        synced_tables.push(write_tables(&folder.path().join("2.db"), "FULL"));
        let config = Config::folder(folder.path().join("data"));
        synced.push(start(config.clone()).await);
        again.push(start(config).await);
    }
    row("start, ephemeral", "its tables written", fresh, tables).print();
    row("start on a synced folder", "its tables written", synced.clone(), synced_tables).print();
    row("start on it again", "the first start on it", again, synced).print();
}

async fn start(config: Config) -> f64 {
    let begun = Instant::now();
    let service = Service::start(config).await.expect("the service starts");
    let elapsed = begun.elapsed();
    service.shutdown().await;
    milliseconds(elapsed)
}

fn write_tables(file: &Path, synchronous: &str) -> f64 {
    let begun = Instant::now();
    let mut database = Connection::open(file).expect("the folder can be written");
    database.pragma_update(None, "journal_mode", "WAL").expect("it is ours");
    database.pragma_update(None, "synchronous", synchronous).expect("it is ours");
    let tx = database.transaction().expect("it is ours");
    tx.execute_batch(include_str!("../src/database/sqlite/schema.sql")).expect("it is SQL");
    tx.commit().expect("it is written");
    milliseconds(begun.elapsed())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn row(what: &str, against: &str, ours: Vec<f64>, theirs: Vec<f64>) -> Row {
    Row {
        group: "service".to_owned(),
        what: what.to_owned(),
        against: against.to_owned(),
        unit: "ms".to_owned(),
        better: Better::Lower,
        ours,
        theirs,
        minimum: Some(MINIMUM),
        note: Some(
            "beyond its tables, ours locks the folder, creates an account and a key, publishes the catalog, \
             and opens its listeners"
                .to_owned(),
        ),
        command: "cargo bench --bench start".to_owned(),
    }
}
