//! Slowdown of the service by its size: 10^2, 10^4 and 10^6 tasks and files, and up to 10^5 models. The limit
//! is logarithmic growth: `cargo bench --bench growth`.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

#[path = "support/service.rs"]
#[expect(dead_code, reason = "metrics are used elsewhere")]
mod service;

use std::path::Path;

use inferstore_measure::{Better, Connection, Row, figure, median, request, times};
use service::{Service, payload};

const SIZES: [u32; 3] = [100, 10_000, 1_000_000];
const MAX_MODELS: u32 = 100_000;
const ROUNDS: usize = 5;

const TIMES: usize = 50;

/// Few claims, because the smallest queue has to last for all rounds.
const CLAIMS: usize = 8;

struct Filled {
    size: u32,
    service: Service,
    node: String,
}

type Question = (&'static str, fn(&Filled) -> Vec<u8>);

const QUESTIONS: [Question; 11] = [
    ("history, first page", |filled| filled.history(0)),
    ("history, page in the middle", |filled| filled.history(filled.size / 2)),
    ("history, last page", |filled| filled.history(filled.size - 10)),
    ("folder, first page", |filled| filled.folder(1, "")),
    ("folder, last page", |filled| filled.folder(filled.size / 10, "")),
    ("folder, last page of images", |filled| filled.folder(filled.size / 20, "&type=image")),
    ("storage statistics", |filled| filled.get("/api-key/storage/upload/statistics")),
    // Pages by date are cached.
    ("catalog, first page", |filled| filled.catalog(r#"{"sort":"likes"}"#)),
    ("catalog, page in the middle", |filled| {
        filled.catalog(&format!(r#"{{"sort":"likes","offset":{}}}"#, filled.size.min(MAX_MODELS) / 2))
    }),
    ("catalog search by trend", |filled| filled.catalog(r#"{"search":"image","sort":"trending"}"#)),
    ("who serves a model, who uses it", |filled| filled.get("/api-key/model/idle/serving")),
];

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let filled = SIZES.map(|size| Filled::new(&folder.path().join(size.to_string()), size));
    for (what, question) in QUESTIONS {
        let ask = |filled: &Filled| {
            let (question, mut api) = (question(filled), filled.service.connect());
            times(TIMES, 1e-6, || drop(payload(&api.call(&question).expect("an answer"))))
        };
        row(what, [(); ROUNDS].map(|()| each(&filled, ask))).print();
    }
    let create = |filled: &Filled| {
        let create = filled.service.request("POST", "/api-key/model/idle/task", Some(r#"{"seconds":"0"}"#));
        let mut api = filled.service.connect();
        times(TIMES, 1e-6, || drop(payload(&api.call(&create).expect("an answer"))))
    };
    row("create a task", [(); ROUNDS].map(|()| each(&filled, create))).print();
    let claim = |filled: &Filled| {
        let lease = to_nodes(&filled.service, &format!("{}/lease", filled.node), r#"{"wait_seconds":0}"#);
        let mut nodes = Connection::open(&filled.service.nodes).expect("it listens");
        times(CLAIMS, 1e-6, || {
            let leased = payload(&nodes.call(&lease).expect("an answer"));
            assert_eq!(leased["model"], "idle", "there is a task to claim");
        })
    };
    row("claim the head of the queue", [(); ROUNDS].map(|()| each(&filled, claim))).print();
}

/// Measures one round for every size, so that a busy moment affects all.
fn each(filled: &[Filled; 3], measure: impl Fn(&Filled) -> f64) -> [f64; 3] {
    let [small, middle, large] = filled;
    [measure(small), measure(middle), measure(large)]
}

fn row(what: &str, rounds: [[f64; 3]; ROUNDS]) -> Row {
    let logarithms = SIZES.map(|size| f64::from(size).log10());
    let growth = logarithms[2] / logarithms[0];
    let of = |which: usize| rounds.map(|round| round[which]);
    let shown = [0, 1, 2].map(|which| figure(median(&of(which))));
    Row {
        group: "service".to_owned(),
        what: format!("{what}, of 10^6"),
        against: "10^2, times 3 (the log)".to_owned(),
        unit: "µs".to_owned(),
        better: Better::Lower,
        ours: of(2).to_vec(),
        theirs: of(0).map(|time| time * growth).to_vec(),
        minimum: None,
        note: Some(format!("over HTTP with 10^2, 10^4 and 10^6: {} µs", shown.join(", "))),
        command: "cargo bench --bench growth".to_owned(),
    }
}

impl Filled {
    fn new(folder: &Path, size: u32) -> Self {
        drop(Service::start(Some(folder), 0));
        fill(&folder.join("inferstore.db"), size);
        let service = Service::start(Some(folder), 0);
        let mut nodes = Connection::open(&service.nodes).expect("it listens");
        println!("filled a service with {size} tasks and files");
        let register = to_nodes(&service, "register", r#"{"models":["idle"]}"#);
        let registered = payload(&nodes.call(&register).expect("an answer"));
        let node = registered["node"].as_str().expect("a name").to_owned();
        Self { size, service, node }
    }

    fn get(&self, path: &str) -> Vec<u8> {
        self.service.request("GET", path, None)
    }

    fn catalog(&self, search: &str) -> Vec<u8> {
        self.service.request("POST", "/api-key/model/list", Some(search))
    }

    fn history(&self, offset: u32) -> Vec<u8> {
        self.get(&format!("/api-key/task/histories?limit=10&offset={offset}"))
    }

    fn folder(&self, page: u32, filter: &str) -> Vec<u8> {
        self.get(&format!("/api-key/storage/upload/samples?pageSize=10&page={page}{filter}"))
    }
}

fn to_nodes(service: &Service, path: &str, body: &str) -> Vec<u8> {
    let headers = [("x-node-key", service.node_key.as_str()), ("content-type", "application/json")];
    request("POST", &format!("{}/nodes/v1/{path}", service.nodes), &headers, Some(body))
}

fn fill(file: &Path, size: u32) {
    let database = rusqlite::Connection::open(file).expect("there is a database");
    database.pragma_update(None, "synchronous", "OFF").expect("it is ours");
    let numbers = format!(
        "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {size} - 1), \
         me(account, bucket, now) AS (SELECT id, bucket, created_at FROM accounts WHERE username = 'demo') "
    );
    for insert in [
        format!(
            "{numbers} INSERT INTO tasks (id, account, place, model, version, publisher, status, price, \
             held_free, held_balance, input, output, created_at, updated_at) \
             SELECT lower(hex(randomblob(16))), account, n, 'idle', \
             (SELECT id FROM versions WHERE model = 'idle'), account, \
             CASE n % 2 WHEN 0 THEN 'success' ELSE 'in_queue' END, 0, 0, 0, '{{\"seconds\":\"0\"}}', \
             CASE n % 2 WHEN 0 THEN '{{\"output\":\"done\"}}' END, now, now FROM numbers, me"
        ),
        format!(
            "{numbers} INSERT INTO objects (id, bucket, key, owner, payer, folder, category, mime, size, etag, \
             blob, created_at) SELECT lower(hex(randomblob(16))), bucket, format('samples/%d.bin', n), account, account, \
             'samples', CASE n % 2 WHEN 0 THEN 'image' ELSE 'video' END, \
             CASE n % 2 WHEN 0 THEN 'image/png' ELSE 'video/mp4' END, 1000, lower(hex(randomblob(16))), \
             lower(hex(randomblob(13))), now FROM numbers, me"
        ),
        format!(
            "{numbers} INSERT INTO models (id, sequence, name, owner, description, is_official, is_verified, \
             is_public, is_playground, price, metadata, likes, downloads, created_at, updated_at, folded_name, \
             folded_description) SELECT format('model-%d', n), \
             (SELECT max(sequence) + 1 FROM models) + n, 'model', account, 'Does nothing.', 0, 0, 1, 0, 0, '{{}}', \
             n % 1000, n % 100, now, now, 'model', 'does nothing.' FROM numbers, me WHERE n < {MAX_MODELS}"
        ),
        "INSERT INTO turns SELECT DISTINCT account, model, account FROM tasks WHERE status = 'in_queue'"
            .to_owned(),
        format!("UPDATE accounts SET tasks = {size}, stored_bytes = 1000 * {size} WHERE username = 'demo'"),
    ] {
        database.execute_batch(&insert).expect("the tables are as the schema says");
    }
    database.close().expect("it is written");
}
