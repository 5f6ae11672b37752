//! How long a service takes to start, inside a process that runs already: on a fresh ephemeral folder, on a
//! fresh folder that is synced to the disk, and again on that one; beside merely writing its tables:
//! `cargo bench --bench start`.

#![expect(clippy::expect_used, reason = "a measurement that cannot go on says so by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};

use inferstore_measure::{Better, Row};
use inferstore_service::{Config, Service};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Executor};

const ROUNDS: usize = 20;

/// A fresh service also draws keys, publishes its catalog, binds its sockets and starts its node.
const BAR: f64 = 0.2;

#[tokio::main]
async fn main() {
    let (mut fresh, mut synced, mut again) = (Vec::new(), Vec::new(), Vec::new());
    let (mut tables, mut synced_tables) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        tables.push(write_tables(&folder.path().join("1.db"), SqliteSynchronous::Off).await);
        fresh.push(start(Config::ephemeral()).await);
        synced_tables.push(write_tables(&folder.path().join("2.db"), SqliteSynchronous::Full).await);
        let config = Config::folder(folder.path().join("data"));
        synced.push(start(config.clone()).await);
        again.push(start(config).await);
    }
    row("start, ephemeral", "its tables written", fresh, tables).tell();
    row("start on a synced folder", "its tables written", synced.clone(), synced_tables).tell();
    row("start on it again", "the first start on it", again, synced).tell();
}

/// From the call to the moment when the service answers, in milliseconds.
async fn start(config: Config) -> f64 {
    let begun = Instant::now();
    let service = Service::start(config).await.expect("the service starts");
    let elapsed = begun.elapsed();
    service.shutdown().await;
    milliseconds(elapsed)
}

async fn write_tables(file: &Path, synchronous: SqliteSynchronous) -> f64 {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(synchronous);
    let begun = Instant::now();
    let mut database: SqliteConnection = options.connect().await.expect("the folder can be written");
    let mut tx = database.begin().await.expect("it is ours");
    tx.execute(sqlx::raw_sql(include_str!("../src/database/sqlite/schema.sql"))).await.expect("it is SQL");
    tx.commit().await.expect("it is written");
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
        bar: Some(BAR),
        note: None,
        command: "cargo bench --bench start".to_owned(),
    }
}
