//! Number of reads of a wait, and lateness of noticing the end, beside a loop that reads every two seconds.
//! In virtual time, with durations that spread by 20 %, after the first few tasks of the model: `cargo bench
//! --bench schedule`.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops when it cannot go on"
)]

use std::time::Duration;

use inferstore::{Client, Inputs};
use inferstore_measure::{Better, Row};
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::time::{Instant, sleep};

const KNOWN: u32 = 20;

const TASKS: u32 = 200;

const FIXED: Duration = Duration::from_secs(2);

struct Wait {
    reads: f64,
    lateness: f64,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    // For 600 s the limit is an eighth of the reads, and lateness is bounded by 2 % of the task.
    for (seconds, reads_minimum) in [(0.3, 1.0), (5.0, 1.0), (60.0, 1.0), (600.0, 8.0)] {
        let (ours, theirs) = runtime.block_on(averages(Duration::from_secs_f64(seconds)));
        let row = |what: &str, unit: &str, ours: f64, theirs: f64, minimum: f64| Row {
            group: "client".to_owned(),
            what: format!("{what} of a task of {seconds} s"),
            against: "a read every 2 s".to_owned(),
            unit: unit.to_owned(),
            better: Better::Lower,
            ours: vec![ours],
            theirs: vec![theirs],
            minimum: Some(minimum),
            note: Some(
                "in virtual time: 200 tasks with durations spread evenly over 20 %, after 20 tasks of the \
                 same model. A read every two seconds sees the end of a task one second late on average; the \
                 service suggests a read every 10 seconds for long tasks"
                    .to_owned(),
            ),
            command: "cargo bench --bench schedule".to_owned(),
        };
        row("reads", "", ours.reads, theirs.reads, reads_minimum).print();
        if seconds < 600.0 {
            row("lateness", "s", ours.lateness, theirs.lateness, 0.98).print();
        } else {
            row("lateness", "s", ours.lateness, seconds * 0.02, 1.0).print();
        }
        println!();
    }
}

async fn averages(around: Duration) -> (Wait, Wait) {
    let service = ScriptedService::new();
    let client = service.client().expect("a client");
    let mut ours = Wait { reads: 0.0, lateness: 0.0 };
    let mut theirs = Wait { reads: 0.0, lateness: 0.0 };
    for (number, duration) in durations(around).into_iter().enumerate() {
        service.model("model").succeeds(json!({})).takes(duration);
        let learned = measured(&service, duration, by_schedule(&client)).await;
        if number < KNOWN as usize {
            continue;
        }
        let fixed = measured(&service, duration, by_loop(&client)).await;
        for (sum, wait) in [(&mut ours, learned), (&mut theirs, fixed)] {
            sum.reads += wait.reads / f64::from(TASKS);
            sum.lateness += wait.lateness / f64::from(TASKS);
        }
    }
    (ours, theirs)
}

fn durations(around: Duration) -> Vec<Duration> {
    let count = KNOWN + TASKS;
    let place = |number: u32| (f64::from(number) + 0.5) / f64::from(count);
    let mut durations: Vec<_> = (0..count).map(|number| around.mul_f64(0.8 + 0.4 * place(number))).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut durations);
    durations
}

async fn measured(service: &ScriptedService, duration: Duration, wait: impl Future<Output = ()>) -> Wait {
    let reads = || service.requests().iter().filter(|operation| **operation == "getTask").count();
    let before = reads();
    let started = Instant::now();
    wait.await;
    let lateness = started.elapsed().saturating_sub(duration).as_secs_f64();
    Wait { reads: (reads() - before) as f64, lateness }
}

async fn by_schedule(client: &Client) {
    client.model("model").run(Inputs::new()).await.expect("it succeeds");
}

async fn by_loop(client: &Client) {
    let task = client.model("model").run(Inputs::new()).start().await.expect("it is created");
    loop {
        let status = task.get().await.expect("it is read").status;
        if status.is_some_and(|status| status.is_terminal()) {
            return;
        }
        sleep(FIXED).await;
    }
}
