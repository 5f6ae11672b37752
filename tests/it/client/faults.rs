//! Runs end with the right result although a fifth of all requests goes wrong.

use std::collections::HashSet;

use inferstore::Client;

use super::{Quickly, built, inputs, insisting, quick, quick_retry};
use crate::support::scripted::{DEFAULT_MODEL, Fault, Route, ScriptedService};

const RUNS: u32 = 1_000;
const SIDE_BY_SIDE: u32 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_runs_under_twenty_percent_faults_end_with_the_right_result() {
    let service = ScriptedService::start().await;
    let faults = vec![
        Fault::CloseAfterRequest,
        Fault::CloseAfterCommit,
        Fault::too_many_requests("0"),
        Fault::html_page(502),
        Fault::CutBody,
        Fault::Garble,
        Fault::UnknownStatus,
    ];
    service.fault_rate(Route::Any, 0.2, faults, 20_260_402).await;
    // At a fifth, one read in three thousand fails five times in a row; this many times none does.
    let mut retry = quick_retry();
    retry.max_attempts = 12;
    let client = built(quick(service.base_url(), service.key()).retry(retry));
    let workers = (0..SIDE_BY_SIDE).map(|worker| tokio::spawn(run_many(client.clone(), worker)));
    let mut done = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        done.extend(worker.await.expect("a worker does not panic"));
    }
    assert_eq!(done.len(), usize::try_from(RUNS).expect("it fits"));
    // One task for each run, and none more.
    let created: HashSet<_> = service.created().into_iter().map(|task| task.id).collect();
    let ended: HashSet<_> = done.into_iter().collect();
    assert_eq!(created, ended);
}

/// Runs its share by what the client does by itself, and returns the tasks.
async fn run_many(client: Client, worker: u32) -> Vec<String> {
    let model = client.model(DEFAULT_MODEL);
    let mut tasks = Vec::new();
    for number in 0..RUNS / SIDE_BY_SIDE {
        let image = format!("https://files.example/{worker}-{number}.png");
        let inputs = inputs().set("input_image", &image);
        let outcome = insisting(model.run(inputs).quickly()).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("{image}: {error:?}"));
        assert!(outcome.output["output_image"].is_string(), "{outcome:?}");
        assert_eq!(outcome.cost, "0.05".parse().ok());
        tasks.push(outcome.task.to_string());
    }
    tasks
}
