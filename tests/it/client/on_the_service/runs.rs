//! From a file to an output, on a service that behaves and on one that does not.

use std::collections::HashSet;
use std::time::Duration;

use inferstore::{File, Inputs, Retry, RunOptions, Settings};
use inferstore_service::{Fault, Operation};

use super::super::{inputs, options};
use super::{MODEL, audited, client_with, quick, start, success, tasks};
use crate::support::picture::red_and_blue;

#[tokio::test]
async fn a_local_file_becomes_the_colors_in_it() {
    let (service, controls, client) = start().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("picture.bmp");
    std::fs::write(&place, red_and_blue()).expect("it can be written");
    let inputs = Inputs::new().file("input", File::path(place));
    let outcome = client.model("color-extraction").run_with(inputs, options()).await.expect("it runs");
    let colors = outcome.output["output"].as_str().expect("the colors are a text");
    assert!(colors.contains("#ff0000") && colors.contains("#0000ff"), "{colors}");
    assert_eq!(outcome.cost, "0.05".parse().ok());
    assert_eq!((controls.seen(Operation::CreateTask), tasks(&controls).await), (1, 1));
    audited(&service).await;
}

const RUNS: u32 = 200;
const SIDE_BY_SIDE: u32 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_under_twenty_percent_faults_end_with_the_right_result_and_are_billed_once() {
    let (service, controls, _) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let faults = [
        Fault::hang_up(),
        Fault::lose_answer(),
        Fault::status(429).retry_after(0),
        Fault::status(502).body("text/html", "<h1>Bad gateway</h1>"),
        Fault::cut_body(40),
    ];
    for fault in faults {
        controls.add_fault(fault.with_probability(0.04)).expect("it is a fault");
    }
    let retry = Retry { max_attempts: 12, ..quick().retry };
    let client = client_with(&service, Settings { retry, ..quick() });
    let workers = (0..SIDE_BY_SIDE).map(|worker| {
        let client = client.clone();
        tokio::spawn(async move {
            let options = RunOptions {
                repeat_refused_create: true,
                repeat_absent_create: Some(Duration::from_millis(5)),
                ..options()
            };
            let mut done = Vec::new();
            for number in 0..RUNS / SIDE_BY_SIDE {
                let image = format!("https://files.example/{worker}-{number}.png");
                let inputs = inputs().set("input_image", &image);
                let outcome = client.model(MODEL).run_with(inputs, options.clone()).await;
                let outcome = outcome.unwrap_or_else(|error| panic!("{image}: {error}\n{error:?}"));
                assert!(outcome.output["output_image"].is_string(), "{outcome:?}");
                done.push(outcome.task.to_string());
            }
            done
        })
    });
    let mut done = HashSet::new();
    for worker in workers.collect::<Vec<_>>() {
        done.extend(worker.await.expect("a worker does not panic"));
    }
    // One task for each run, and none more.
    assert_eq!((done.len() as u64, tasks(&controls).await), (u64::from(RUNS), u64::from(RUNS)));
    audited(&service).await;
}
