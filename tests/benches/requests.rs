//! The service beside a mock server with the examples of the same document: requests per second, latencies at
//! the same constant rate, memory, start: `cargo bench --bench requests`. Needs the programs that `cargo
//! xtask bench service` installs.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

#[path = "support/service.rs"]
#[expect(dead_code, reason = "metrics and nodes are used elsewhere")]
mod service;

use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use inferstore_measure::{
    Better, Connection, Latencies, Row, Server, Step, free_port, latencies, median, throughput,
};
use service::{Service, payload, to_api};

type Percentile = (&'static str, fn(&Latencies) -> f64);

const CONNECTIONS: usize = 16;
/// Connections of work that waits between requests: enough that waiting does not limit the rate.
const WAITING_CONNECTIONS: usize = 256;
const ROUNDS: usize = 5;
const DURING: Duration = Duration::from_secs(1);
const AGAIN: &str = "cargo bench --bench requests";
const PRISM: &str = "prism mock 5.14.2";

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Rate of the latency measurement, as a share of the slower side's throughput.
const LOAD: f64 = 0.5;

const PERCENTILES: [Percentile; 3] = [
    ("p50", |latencies| latencies.p50),
    ("p99", |latencies| latencies.p99),
    ("p99.9", |latencies| latencies.p999),
];

const PRESIGN: &str = r#"{"folder":"samples","mime":"image/png","name":"street.png","size":48213}"#;

#[derive(Clone)]
struct Api {
    base_url: String,
    key: String,
}

type Work = (&'static str, fn(&Api, &mut Connection) -> io::Result<()>);

const RUN: &str = "create to success";
const RUN_NOTE: &str = "prism answers each request with an example and keeps nothing; ours sets the price aside, \
                        queues the task, leases it, runs it, charges it, and is polled every 50 ms until it has ended. \
                        Counted are tasks, not polls";

const WORK: [Work; 4] = [
    ("GET balance", |api, connection| {
        ask(connection, &api.request("GET", "/api-key/balance", None)).map(drop)
    }),
    ("list of 10 models", |api, connection| {
        ask(connection, &api.request("POST", "/api-key/model/list", Some("{}"))).map(drop)
    }),
    ("presign", |api, connection| {
        let path = "/api-key/storage/upload/create-presigned-url";
        ask(connection, &api.request("POST", path, Some(PRESIGN))).map(drop)
    }),
    (RUN, run),
];

fn main() {
    let ours = Service::start(None, thread::available_parallelism().map_or(2, usize::from));
    let port = free_port().expect("there is a free port");
    let prism = Server::listening(&mut prism(port), port).expect("prism starts");
    let ours_api = Api { base_url: ours.base_url.clone(), key: ours.key.clone() };
    let theirs_api = Api { base_url: format!("http://127.0.0.1:{port}"), key: "key".to_owned() };
    println!("{CONNECTIONS} connections, {ROUNDS} rounds of {DURING:?} each");
    for (what, work) in WORK {
        let sides = [&ours_api, &theirs_api];
        let connections = if what == RUN { WAITING_CONNECTIONS } else { CONNECTIONS };
        let note = match what {
            RUN => Some(RUN_NOTE),
            "presign" => Some("ours writes the upload target to its database before it responds"),
            _ => None,
        };
        let [mine, other] = rounds(&sides, |api| {
            throughput(&api.base_url, connections, DURING, |_| step(api, work))
                .expect("every request is answered")
        });
        let rate = LOAD * median(&mine).min(median(&other));
        row(what.to_owned(), "/s", Better::Higher, mine, other, note).print();
        let [mine, other] = rounds(&sides, |api| {
            latencies(&api.base_url, connections, rate, DURING, |_| step(api, work))
                .expect("every request is answered")
        });
        for (name, percentile) in PERCENTILES {
            let [mine, other] = [&mine, &other].map(|side| side.iter().map(percentile).collect());
            let what = format!("{what}, {name} at {rate:.0}/s");
            row(what, "ms", Better::Lower, mine, other, note).print();
        }
    }
    let peaks = [&ours.server, &prism].map(|server| vec![server.peak().expect("it runs")]);
    let [mine, other] = peaks;
    let note = "the peak of the whole process, after all rounds above";
    row("memory under load".to_owned(), "MiB", Better::Lower, mine, other, Some(note)).print();
    drop((ours, prism));

    let starts = (0..ROUNDS).map(|_| {
        let port = free_port().expect("there is a free port");
        let ours = Service::start(None, 1).server.start;
        let theirs = Server::listening(&mut self::prism(port), port).expect("prism starts").start;
        (ours.as_secs_f64() * 1_000.0, theirs.as_secs_f64() * 1_000.0)
    });
    let (mine, other) = starts.unzip();
    let note = "from the start of the process to its first response, with a fresh ephemeral folder";
    row("start of the process".to_owned(), "ms", Better::Lower, mine, other, Some(note)).print();
}

fn row(
    what: String,
    unit: &str,
    better: Better,
    ours: Vec<f64>,
    theirs: Vec<f64>,
    note: Option<&str>,
) -> Row {
    Row {
        group: "service".to_owned(),
        what,
        against: PRISM.to_owned(),
        unit: unit.to_owned(),
        better,
        ours,
        theirs,
        minimum: None,
        note: note.map(str::to_owned),
        command: AGAIN.to_owned(),
    }
}

fn prism(port: u16) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = root.join("target/tools/prism/node/node_modules/.bin/prism");
    assert!(program.exists(), "prism is not installed; `cargo xtask bench service` does it");
    let mut command = Command::new(program);
    command.args(["mock", "-v", "error", "-p", &port.to_string()]);
    command.arg(root.join("openapi/inferstore.yaml"));
    command
}

/// Returns the figures of both sides, round by round. The first round warms up.
fn rounds<T>(sides: &[&Api; 2], mut measure: impl FnMut(&Api) -> T) -> [Vec<T>; 2] {
    let mut figures = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for (side, api) in figures.iter_mut().zip(sides) {
            let figure = measure(api);
            if round > 0 {
                side.push(figure);
            }
        }
    }
    figures
}

fn step(api: &Api, work: fn(&Api, &mut Connection) -> io::Result<()>) -> Step<'static> {
    let api = api.clone();
    Box::new(move |connection| work(&api, connection))
}

fn run(api: &Api, connection: &mut Connection) -> io::Result<()> {
    let create = api.request("POST", "/api-key/model/idle/task", Some(r#"{"seconds":"0"}"#));
    let created = ask(connection, &create)?;
    let id = created["data"].as_str().unwrap_or_default();
    let look = api.request("GET", &format!("/api-key/task/{id}/detail"), None);
    loop {
        let task = ask(connection, &look)?;
        match task["status"].as_str() {
            Some("success") => return Ok(()),
            Some("in_queue" | "computing") => thread::sleep(POLL_INTERVAL),
            other => panic!("the task ended as {other:?}"),
        }
    }
}

fn ask(connection: &mut Connection, request: &[u8]) -> io::Result<serde_json::Value> {
    connection.call(request).map(|answer| payload(&answer))
}

impl Api {
    fn request(&self, method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
        to_api(&self.base_url, &self.key, method, path, body)
    }
}
