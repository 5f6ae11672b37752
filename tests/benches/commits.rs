//! Created tasks per second with a commit each, beside no sync and the plain database: `cargo bench --bench commits`.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

#[path = "support/service.rs"]
#[expect(dead_code, reason = "metrics and nodes are used elsewhere")]
mod service;

use std::path::Path;
use std::time::{Duration, Instant};

use inferstore_measure::{Better, Connection, Row, Step, throughput};
use rusqlite::Connection as Database;
use service::{Service, payload};

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 5;
const DURING: Duration = Duration::from_millis(1_500);

fn main() {
    let folders = tempfile::tempdir().expect("a temporary folder");
    let synced = Service::start(Some(&folders.path().join("service")), 0);
    let ephemeral = Service::start(None, 0);
    let file = folders.path().join("floor.db");
    let database = open(&file);
    println!("{CONNECTIONS} connections, {ROUNDS} rounds of {DURING:?}");
    let (mut durable, mut unsynced, mut floor) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        durable.push(creates(&synced));
        unsynced.push(creates(&ephemeral));
        floor.push(inserts(&database));
    }
    let row = |against: &str, theirs: Vec<f64>, note: &str| Row {
        group: "service".to_owned(),
        what: "creates, each synced before its answer".to_owned(),
        against: against.to_owned(),
        unit: "/s".to_owned(),
        better: Better::Higher,
        ours: durable.clone(),
        theirs,
        minimum: None,
        note: Some(note.to_owned()),
        command: "cargo bench --bench commits".to_owned(),
    };
    let note = "the other side commits one row at a time, with synchronous=FULL, and does nothing else: no \
                HTTP, no key, no checks of inputs, no money. Ours is ahead only where concurrent creates \
                share a commit";
    let row_of_floor = row("SQLite, insert by insert", floor, note);
    Row { minimum: Some(0.8), ..row_of_floor }.print();
    let note = "the cost of durability: an acknowledged create survives a power loss. On a slow disk, the \
                row measures the disk";
    let row_of_unsynced = row("ours, nothing synced", unsynced, note);
    Row { minimum: Some(0.5), ..row_of_unsynced }.print();
}

fn creates(service: &Service) -> f64 {
    let create = service.request("POST", "/api-key/model/idle/task", Some(r#"{"seconds":"0"}"#));
    let step = |_| {
        let create = &create;
        Box::new(move |connection: &mut Connection| {
            payload(&connection.call(create)?);
            Ok(())
        }) as Step<'_>
    };
    throughput(&service.base_url, CONNECTIONS, DURING, step).expect("every create is answered")
}

fn open(file: &Path) -> Database {
    let database = Database::open(file).expect("the folder can be written");
    database.pragma_update(None, "journal_mode", "WAL").expect("it is ours");
    database.pragma_update(None, "synchronous", "FULL").expect("it is ours");
    database.execute_batch("CREATE TABLE tasks (id INTEGER PRIMARY KEY, input TEXT)").expect("it is new");
    database
}

fn inserts(database: &Database) -> f64 {
    let insert = "INSERT INTO tasks (input) VALUES ('{\"seconds\":\"0\"}')";
    let mut insert = database.prepare(insert).expect("it is SQL");
    let (begun, mut count) = (Instant::now(), 0.0);
    while begun.elapsed() < DURING {
        insert.execute([]).expect("it is committed");
        count += 1.0;
    }
    count / begun.elapsed().as_secs_f64()
}
