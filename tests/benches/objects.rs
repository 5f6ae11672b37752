//! Eight concurrent uploads and downloads of 100 MiB, beside the object store of s3s: `cargo bench --bench
//! objects`. Needs the programs that `cargo xtask bench service` installs.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

#[path = "support/service.rs"]
#[expect(dead_code, reason = "metrics and nodes are used elsewhere")]
mod service;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use inferstore_measure::{Better, Connection, Row, Server, free_port, request};
use inferstore_service::fuzzed::signed_url;
use service::{Service, payload};

const SIDE_BY_SIDE: usize = 8;
const SIZE: usize = 104_857_600;
const ROUNDS: usize = 3;
const AGAINST: &str = "s3s-fs 0.14.1";
const LIFE: Duration = Duration::from_hours(1);

struct Place {
    put: String,
    mime: &'static str,
    get: String,
}

#[derive(Clone, Copy)]
struct Speed {
    puts: f64,
    gets: f64,
}

fn main() {
    let folders = tempfile::tempdir().expect("a temporary folder");
    let ephemeral = Service::start(None, 0);
    let synced = Service::start(Some(&folders.path().join("service")), 0);
    let (s3s, theirs) = s3s_fs(&folders.path().join("s3s-fs"));
    let (unsynced_places, synced_places) = (places(&ephemeral), places(&synced));
    println!("{SIDE_BY_SIDE} files of 100 MiB at once, {ROUNDS} rounds");
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let figures = [&unsynced_places, &synced_places, &theirs].map(|places| measure(places));
        if round > 0 {
            rounds.push(figures);
        }
    }
    let of = |which: usize, figure: fn(&Speed) -> f64| -> Vec<f64> {
        rounds.iter().map(|round| figure(&round[which])).collect()
    };
    let row = |what: &str, unit: &str, better, ours: Vec<f64>, theirs: Vec<f64>| Row {
        group: "service".to_owned(),
        what: what.to_owned(),
        against: AGAINST.to_owned(),
        unit: unit.to_owned(),
        better,
        ours,
        theirs,
        minimum: None,
        note: None,
        command: "cargo bench --bench objects".to_owned(),
    };
    let higher = Better::Higher;
    row("8 PUTs of 100 MiB", "MiB/s", higher, of(0, |speed| speed.puts), of(2, |speed| speed.puts)).print();
    let note = "ours syncs every file to the disk before its response, theirs does not; the row measures \
                mostly the disk";
    let durable = row(
        "8 PUTs of 100 MiB, synced",
        "MiB/s",
        higher,
        of(1, |speed| speed.puts),
        of(2, |speed| speed.puts),
    );
    Row { note: Some(note.to_owned()), minimum: Some(0.5), ..durable }.print();
    row("8 GETs of 100 MiB", "MiB/s", higher, of(0, |speed| speed.gets), of(2, |speed| speed.gets)).print();
    let peak = |server: &Server| vec![server.peak().expect("it runs")];
    let note = "the peak of the whole process under this load; ours is the whole service, with its database, \
                its queue and its API";
    let memory =
        row("memory under 8 PUTs and 8 GETs", "MiB", Better::Lower, peak(&ephemeral.server), peak(&s3s));
    Row { note: Some(note.to_owned()), ..memory }.print();
}

fn places(service: &Service) -> Vec<Place> {
    let mut api = service.connect();
    let presigned = (0..SIDE_BY_SIDE).map(|number| {
        let file = format!(
            r#"{{"folder":"documents","mime":"application/zip","name":"{number}.zip","size":{SIZE}}}"#
        );
        let ask = service.request("POST", "/api-key/storage/upload/create-presigned-url", Some(&file));
        let target = payload(&api.call(&ask).expect("an answer"));
        let url = |name: &str| target[name].as_str().expect("a URL").to_owned();
        Place { put: url("endpoint"), mime: "application/zip", get: url("download_url") }
    });
    presigned.collect()
}

fn s3s_fs(folder: &Path) -> (Server, Vec<Place>) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/s3s-fs-0.14.1/bin/s3s-fs");
    assert!(program.exists(), "s3s-fs is not installed; `cargo xtask bench service` does it");
    fs::create_dir_all(folder.join("bucket")).expect("the folder can be written");
    let port = free_port().expect("there is a free port");
    let mut command = Command::new(program);
    command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--access-key", "key", "--secret-key", "secret"]).arg(folder);
    command.env("RUST_LOG", "off");
    let server = Server::listening(&mut command, port).expect("s3s-fs starts");
    let signed = (0..SIDE_BY_SIDE).map(|number| {
        let url = format!("http://127.0.0.1:{port}/bucket/{number}.zip");
        let sign = |method| signed_url(method, &url, ["key", "secret"], LIFE).expect("a URL");
        Place { put: sign("PUT"), mime: "application/zip", get: sign("GET") }
    });
    let places = signed.collect();
    (server, places)
}

fn measure(places: &[Place]) -> Speed {
    let puts = at_once(places, |place| {
        let length = SIZE.to_string();
        let headers = [("content-type", place.mime), ("content-length", length.as_str())];
        let head = request("PUT", &place.put, &headers, None);
        let answer = Connection::open(&place.put).and_then(|mut store| store.send(&head, SIZE));
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    });
    let gets = at_once(places, |place| {
        let get = request("GET", &place.get, &[], None);
        let answer = Connection::open(&place.get).and_then(|mut store| store.count(&get));
        let answer = answer.expect("an answer");
        assert_eq!((answer.status, answer.length), (200, SIZE as u64));
    });
    Speed { puts, gets }
}

fn at_once(places: &[Place], transfer: impl Fn(&Place) + Sync) -> f64 {
    let begun = Instant::now();
    thread::scope(|scope| {
        for place in places {
            scope.spawn(|| transfer(place));
        }
    });
    (100 * places.len()) as f64 / begun.elapsed().as_secs_f64()
}
