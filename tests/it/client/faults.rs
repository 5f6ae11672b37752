//! Runs end with the right result although a fifth of all requests goes wrong.

use inferstore::{Client, Error};

use super::{client, inputs, options};
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
    let client = client(&service);
    let workers = (0..SIDE_BY_SIDE).map(|worker| tokio::spawn(run_many(client.clone(), worker)));
    let mut done = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        done.extend(worker.await.expect("a worker does not panic"));
    }
    assert_eq!(done.len(), usize::try_from(RUNS).expect("it fits"));
    // One task for each run that reached its end, and none more.
    let created: std::collections::HashSet<_> = service.created().into_iter().map(|task| task.id).collect();
    let ended: std::collections::HashSet<_> = done.into_iter().collect();
    assert_eq!(created, ended);
}

/// Runs its share, and returns the tasks.
async fn run_many(client: Client, worker: u32) -> Vec<String> {
    let mut tasks = Vec::new();
    for number in 0..RUNS / SIDE_BY_SIDE {
        let image = format!("https://files.example/{worker}-{number}.png");
        tasks.push(run_until_created(&client, &image).await);
    }
    tasks
}

/// A create that is refused, or of which the client can say that it was not made, is for the caller
/// to repeat; that is what a caller does here.
async fn run_until_created(client: &Client, image: &str) -> String {
    loop {
        let result =
            client.model(DEFAULT_MODEL).run_with(inputs().set("input_image", image), options()).await;
        match result {
            Ok(outcome) => {
                assert!(outcome.output["output_image"].is_string(), "{outcome:?}");
                assert_eq!(outcome.cost, "0.05".parse().ok());
                return outcome.task.to_string();
            }
            Err(Error::Refused(context)) if context.operation == "createTask" => {}
            Err(Error::OutcomeUnknown(unknown))
                if unknown.candidates.is_empty() && unknown.history_was_read => {}
            Err(error) => panic!("{image}: {error}\n{error:?}"),
        }
    }
}
