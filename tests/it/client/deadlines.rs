//! One deadline bounds a whole operation, even if a service never responds or a gateway fails slowly.
//! `on_the_service` tests failures that the service itself can produce.

use std::error::Error as _;
use std::time::{Duration, Instant};

use inferstore::{Decimal, Error, PollInterval, TaskDisposition};
use inferstore_wire::{Reaction, Server};
use tokio::time;

use super::{Quickly, built, inputs, quick};
use crate::support::scripted::{MODEL, Reply, Scripted};

const DEADLINE: Duration = Duration::from_millis(400);

/// Tolerance on a busy machine; a deadline multiplied by retries would exceed it.
const GENEROUS: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_failure_that_drips_does_not_hold_a_run_beyond_its_deadline() {
    for operation in ["/versioning", "/task", "/detail"] {
        let server = Server::start(move |request| match request.target.ends_with(operation) {
            true => Reaction::Drip(502, "x".repeat(100_000), Duration::from_millis(5)),
            false => {
                let usual = r#"{"status": "success", "data": {"model_id": "m", "data": "t"}}"#;
                Reaction::Json(200, usual.to_owned())
            }
        });
        let client = built(quick(server.base_url(), "key"));
        let started = Instant::now();
        let run = client.model("m").run(inputs()).quickly().deadline(DEADLINE);
        run.await.expect_err("time is up");
        assert!(started.elapsed() < GENEROUS, "{operation}: {:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_never_responds_does_not_hold_a_run_beyond_its_deadline() {
    for operation in ["getModelVersioning", "getModelCost", "createTask", "getTask"] {
        let scripted = Scripted::new();
        scripted.reply_to(operation, Reply::Late(Duration::from_mins(10)));
        let started = time::Instant::now();
        let run = scripted.client().model(MODEL).run(inputs()).deadline(DEADLINE);
        let error = run.max_cost(Decimal::from(1)).await.expect_err("time is up");
        assert!(started.elapsed() <= DEADLINE, "{operation}: {:?}", started.elapsed());
        let is_created = scripted.service.created().len() == 1;
        assert_eq!(is_created, matches!(operation, "createTask" | "getTask"), "{operation}: {error:?}");
        match (operation, &error) {
            ("createTask" | "getTask", Error::DeadlineReached(reached)) => {
                assert_eq!(reached.disposition, TaskDisposition::Unknown, "no read showed it");
            }
            (_, Error::DeadlineReached(reached)) if reached.disposition == TaskDisposition::NotCreated => {}
            _ => panic!("{operation}: {error:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_the_deadline_cuts_short_is_no_failure_of_the_service() {
    for (poll, is_failure) in [(2_000, true), (4_900, false)] {
        let scripted = Scripted::new();
        scripted.reply_to("getTask", Reply::Late(Duration::from_mins(10)));
        let run = scripted.client().model(MODEL).run(inputs()).deadline(Duration::from_secs(5));
        let error = run.poll(PollInterval::every(Duration::from_millis(poll))).await.expect_err("time is up");
        assert!(matches!(error, Error::DeadlineReached(_)), "{error:?}");
        assert_eq!(error.source().is_some(), is_failure, "a read every {poll} ms: {error}");
    }
}
