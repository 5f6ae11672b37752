//! Runs end with the right result, once and in time, while a fifth of all requests fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use inferstore::{Abandon, Client, Error, TaskDisposition};
use inferstore_api::operations;
use inferstore_service::{Controls, Fault, Script, Service};

use super::stored::{image, stored};
use super::{Intensity, tell};
use crate::client::on_the_service::{MODEL, audited, builder_of, start, success};
use crate::client::{Quickly, TEST_DEADLINE, built, inputs, quick_retry};

const SIDE_BY_SIDE: u32 = 10;

const GENEROUS: Duration = Duration::from_secs(5);

const SHARE: f64 = 0.2;

fn add_faults(controls: &Controls) {
    let half = r#"{"status":"success","message":"ok","data":{"#;
    let everywhere = [
        Fault::hang_up(),
        Fault::lose_response(),
        Fault::status(429).retry_after(0),
        Fault::status(502).body("text/html", "<h1>Bad gateway</h1>"),
        Fault::status(504).after_commit(),
        Fault::cut_body(40),
        Fault::status(200).body("application/json", half).after_commit(),
        Fault::status(200).body("application/json", half),
    ];
    // The first matching fault wins, so each needs a lower probability.
    let each = 1.0 - (1.0 - SHARE).powf(1.0 / everywhere.len() as f64);
    for fault in everywhere {
        controls.add_fault(fault.with_probability(each)).expect("it is a fault");
    }
    let unknown = Fault::set_field("/data/status", "migrating").on(operations::GET_TASK);
    controls.add_fault(unknown.with_probability(SHARE)).expect("it is a fault");
}

/// Makes a client for a failing service. If a fifth of the requests fails, one read in three thousand fails
/// five times in a row; with this many attempts, none does.
fn persistent(service: &Service) -> Client {
    let mut retry = quick_retry();
    retry.max_attempts = 12;
    built(builder_of(service).settings(|settings| settings.retry = retry))
}

async fn side_by_side<Job, Done>(runs: u32, job: Job) -> Vec<Done::Output>
where
    Job: Fn(u32) -> Done + Clone + Send + 'static,
    Done: Future<Output: Send> + Send + 'static,
{
    let workers = (0..SIDE_BY_SIDE).map(|worker| {
        let job = job.clone();
        tokio::spawn(async move {
            let mut done = Vec::new();
            for number in (worker..runs).step_by(SIDE_BY_SIDE as usize) {
                done.push(job(number).await);
            }
            done
        })
    });
    let mut done = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        done.extend(worker.await.expect("a caller does not panic"));
    }
    done
}

fn share_of_faults(controls: &Controls) -> f64 {
    let journal = controls.journal();
    let met = journal.iter().filter(|entry| entry.fault.is_some()).count();
    met as f64 / journal.len() as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_under_twenty_percent_faults_end_right_and_are_billed_once() {
    let runs = Intensity::of_this_run().times(60, 1_000);
    let (service, controls, auditor) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    add_faults(&controls);
    let client = persistent(&service);
    let outcomes = side_by_side(runs, move |number| {
        let client = client.clone();
        async move {
            let begun = Instant::now();
            let inputs = inputs().set("input_image", image(number));
            let outcome = client.model(MODEL).run(inputs).quickly().await;
            let outcome = outcome.unwrap_or_else(|error| panic!("{number}: {error:?}"));
            let expected = "https://files.example/harmonized.png";
            assert_eq!(
                (&outcome.output["output_image"], outcome.cost),
                (&expected.into(), "0.05".parse().ok())
            );
            assert!(begun.elapsed() < TEST_DEADLINE + GENEROUS, "{number}: {:?}", begun.elapsed());
            (outcome.task.to_string(), image(number))
        }
    })
    .await;
    let share = share_of_faults(&controls);
    assert!(share > SHARE - 0.05, "only {share:.2} of the requests went wrong");
    let stored = stored(&controls, &auditor).await;
    assert!(stored.iter().all(|task| task.status == "success"), "some did not succeed");
    let stored: BTreeSet<_> = stored.into_iter().map(|task| (task.id, task.image)).collect();
    assert_eq!((stored.len(), stored), (runs as usize, outcomes.into_iter().collect()));
    audited(&service).await;
    let requests = controls.journal().len();
    tell(&format!(
        "{runs} of {runs} runs ended with the right result, 0 duplicates; {:.0} % of {requests} requests failed",
        share * 100.0
    ));
}

const DEADLINE: Duration = Duration::from_millis(400);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reported {
    NotCreated,
    Canceled(String),
    StillRunning(String),
    /// A cancel may have succeeded.
    CancelUnknown(String),
    /// No read has shown the task.
    Unread(String),
    Unknown(Vec<String>),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_hold_under_faults_and_reports_of_tasks_are_true() {
    let runs = Intensity::of_this_run().times(30, 600);
    let (service, controls, auditor) = start().await;
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    add_faults(&controls);
    let client = persistent(&service);
    let reported = side_by_side(runs, move |number| {
        let client = client.clone();
        async move {
            let cancel_at_deadline = number % 2 == 0;
            let begun = Instant::now();
            let inputs = inputs().set("input_image", image(number));
            let run = client.model(MODEL).run(inputs).quickly().deadline(DEADLINE);
            let run = run.on_abandon(if cancel_at_deadline { Abandon::Cancel } else { Abandon::Leave });
            let error = run.await.expect_err("nothing runs here");
            let late = begun.elapsed().saturating_sub(DEADLINE);
            assert!(late < GENEROUS, "{number}: {late:?} late");
            (number, reported(&error), late)
        }
    })
    .await;
    let mut by_image = BTreeMap::<_, BTreeSet<_>>::new();
    for task in stored(&controls, &auditor).await {
        by_image.entry(task.image).or_default().insert((task.id, task.status));
    }
    let mut latest = Duration::ZERO;
    let mut kinds = BTreeMap::<_, u32>::new();
    for (number, reported, late) in reported {
        latest = latest.max(late);
        let mut of_this_run = by_image.remove(&image(number)).unwrap_or_default();
        let word = match reported {
            Reported::NotCreated => "not created",
            Reported::Canceled(id) => {
                assert!(of_this_run.remove(&(id, "canceled".to_owned())), "{number}: {of_this_run:?}");
                "canceled"
            }
            Reported::StillRunning(id) => {
                assert!(of_this_run.remove(&(id, "in_queue".to_owned())), "{number}: {of_this_run:?}");
                "goes on"
            }
            Reported::CancelUnknown(id) => {
                of_this_run.retain(|(of_this_run, _)| *of_this_run != id);
                "cancel unanswered"
            }
            Reported::Unread(id) => {
                assert!(of_this_run.remove(&(id, "in_queue".to_owned())), "{number}: {of_this_run:?}");
                "unread"
            }
            Reported::Unknown(candidates) => {
                assert!(of_this_run.len() <= 1, "created twice: {number}: {of_this_run:?}");
                let known = |(id, _): &(String, String)| candidates.contains(id);
                assert!(candidates.is_empty() || of_this_run.iter().all(known), "{candidates:?}");
                of_this_run.clear();
                "unknown"
            }
        };
        assert!(of_this_run.is_empty(), "{number}: {word}, and there is more: {of_this_run:?}");
        *kinds.entry(word).or_default() += 1;
    }
    assert!(by_image.is_empty(), "unexpected tasks: {by_image:?}");
    audited(&service).await;
    tell(&format!(
        "{runs} runs that could not end: reported {kinds:?}, all true; the latest {latest:?} late"
    ));
}

fn reported(error: &Error) -> Reported {
    let id = || error.task_id().expect("the error carries the task").to_string();
    match error {
        Error::DeadlineReached(reached) => match reached.disposition {
            TaskDisposition::Canceled => Reported::Canceled(id()),
            TaskDisposition::StillRunning => Reported::StillRunning(id()),
            TaskDisposition::NotCreated => Reported::NotCreated,
            TaskDisposition::CancelUnknown => Reported::CancelUnknown(id()),
            TaskDisposition::Unknown => Reported::Unread(id()),
            _ => panic!("{error:?}"),
        },
        Error::OutcomeUnknown(unknown) => {
            Reported::Unknown(unknown.candidates.iter().map(ToString::to_string).collect())
        }
        // There was no time left to retry a rejected request.
        Error::Api(_) if error.task_id().is_none() => Reported::NotCreated,
        _ => panic!("{error:?}"),
    }
}
