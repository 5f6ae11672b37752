//! Lateness of a run's end after its deadline, for every failure: `cargo bench --bench deadlines`.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

use std::time::{Duration, Instant};

use inferstore::{Abandon, Client, Inputs};
use inferstore_measure::{Better, Row};
use inferstore_wire::{Reaction, Server};

const DEADLINE: Duration = Duration::from_millis(1_500);

const ALLOWED: Duration = Duration::from_millis(250);

const TIMES: u32 = 5;

type Problem = (&'static str, &'static str, fn() -> Reaction);

const FAILURES: [Problem; 8] = [
    ("the inputs of the model never come", "versioning", || Reaction::Silence),
    ("they come byte by byte", "versioning", || drip(200)),
    ("they are refused for now", "versioning", || whole(503, "")),
    ("the create is never answered", "task", || Reaction::Silence),
    ("the create fails byte by byte", "task", || drip(502)),
    ("the task never ends", "none", || Reaction::Silence),
    ("the task is never reported", "detail", || Reaction::Silence),
    ("a failure is reported instead, byte by byte", "detail", || drip(500)),
];

fn whole(status: u16, body: &str) -> Reaction {
    Reaction::Json(status, body.to_owned())
}

fn drip(status: u16) -> Reaction {
    Reaction::Drip(status, "x".repeat(100_000), Duration::from_millis(5))
}

fn usual(operation: &str) -> Reaction {
    let data = match operation {
        "versioning" => r#"{"model_id":"m"}"#,
        "task" => r#"{"data":"t-1"}"#,
        "detail" => r#"{"task_id":"t-1","status":"in_queue"}"#,
        // A cancel is sent at the very end, and gets no response either.
        "cancel" => return Reaction::Silence,
        _ => r#"{"records":[],"total":0}"#,
    };
    whole(200, &format!(r#"{{"status":"success","message":"ok","data":{data}}}"#))
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut worst = Duration::ZERO;
    for (name, failing, failure) in FAILURES {
        let server = Server::start(move |request| {
            let operation = request.target.rsplit('/').next().unwrap_or_default();
            if operation == failing { failure() } else { usual(operation) }
        });
        let late =
            (0..TIMES).map(|_| runtime.block_on(overshoot(server.base_url()))).max().unwrap_or_default();
        println!("{name:40} {:4} ms after a deadline of {DEADLINE:?}", late.as_millis());
        worst = worst.max(late);
    }
    let row = Row {
        group: "client".to_owned(),
        what: "latest end of a run after its deadline".to_owned(),
        against: "what is allowed".to_owned(),
        unit: "ms".to_owned(),
        better: Better::Lower,
        ours: vec![worst.as_secs_f64() * 1_000.0],
        theirs: vec![ALLOWED.as_secs_f64() * 1_000.0],
        minimum: None,
        note: Some(
            "the worst of 8 failures; 200 ms of it wait for a cancel that the caller requested".to_owned(),
        ),
        command: "cargo bench --bench deadlines".to_owned(),
    };
    row.print();
    assert!(worst <= ALLOWED, "a deadline was not kept");
}

async fn overshoot(base_url: String) -> Duration {
    let client = Client::new(base_url, "key").expect("a client");
    let started = Instant::now();
    let run = client.model("m").run(Inputs::new().set("x", 1)).deadline(DEADLINE).on_abandon(Abandon::Cancel);
    run.await.expect_err("it cannot end well");
    started.elapsed().saturating_sub(DEADLINE)
}
