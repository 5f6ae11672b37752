//! A wait continues after transient failures and ends at once after permanent ones, in virtual time.

use std::error::Error as _;
use std::time::Duration;

use inferstore::{Abandon, Error, TaskDisposition};
use inferstore_batch::wait_all;
use tokio::time::{Instant, sleep};

use super::inputs;
use crate::support::scripted::{MODEL, Reply, Scripted};

const OUTAGE: Duration = Duration::from_mins(2);

fn passing_failures() -> [Reply; 10] {
    [
        Reply::failure(503, "maintenance"),
        Reply::failure(500, "a bug"),
        Reply::failure(408, "too slow"),
        Reply::too_many_requests(1),
        Reply::html_page(502),
        Reply::html_page(504),
        Reply::html_page(200),
        Reply::Lost,
        Reply::Cut,
        Reply::Garbled,
    ]
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_a_deadline_survives_two_minutes_of_failures() {
    for failure in passing_failures() {
        let scripted = Scripted::new();
        let ids = scripted.create(1).await;
        scripted.reply_to("getTask", failure.clone());
        let started = Instant::now();
        let wait = scripted.client().task(ids[0].as_str()).wait();
        let outage = async {
            sleep(OUTAGE).await;
            scripted.recover();
        };
        let (outcome, ()) = tokio::join!(wait, outage);
        let outcome = outcome.unwrap_or_else(|error| panic!("{failure:?}: {error:?}"));
        assert_eq!(outcome.task, ids[0].as_str(), "{failure:?}");
        assert!(started.elapsed() >= OUTAGE, "{failure:?}: {:?}", started.elapsed());
        assert!(scripted.count("getTask") >= 10, "{failure:?}: it kept reading");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_deadline_survives_two_minutes_of_failed_reads() {
    let scripted = Scripted::new();
    scripted.reply_to("getTask", Reply::failure(503, "maintenance"));
    let run = scripted.client().model(MODEL).run(inputs());
    let outage = async {
        sleep(OUTAGE).await;
        scripted.recover();
    };
    let (outcome, ()) = tokio::join!(run, outage);
    outcome.expect("it ends well after all");
    assert_eq!(scripted.service.created().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn wait_all_without_a_deadline_survives_two_minutes_of_failures() {
    for failure in passing_failures() {
        let scripted = Scripted::new();
        let ids = scripted.create(3).await;
        let reply = failure.clone();
        scripted.reply(move |_, _| Some(reply.clone()));
        let started = Instant::now();
        let mut all = wait_all(&scripted.client(), ids.iter().map(String::as_str));
        let outage = async {
            sleep(OUTAGE).await;
            scripted.recover();
        };
        let wait = async {
            let mut ended = Vec::new();
            while let Some((task, result)) = all.next().await {
                result.unwrap_or_else(|error| panic!("{failure:?}: {error:?}"));
                ended.push(task.to_string());
            }
            ended.sort();
            ended
        };
        let (ended, ()) = tokio::join!(wait, outage);
        assert_eq!(ended, ids, "{failure:?}");
        assert!(started.elapsed() >= OUTAGE, "{failure:?}: {:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_task_that_the_service_refuses_to_show_ends_at_once() {
    for status in [400, 401, 403, 404, 410] {
        for deadline in [None, Some(Duration::from_secs(24 * 3_600))] {
            let scripted = Scripted::new();
            let ids = scripted.create(1).await;
            scripted.reply_to("getTask", Reply::failure(status, "the reason"));
            let started = Instant::now();
            let error = scripted.client().task(ids[0].as_str()).wait().deadline(deadline).await;
            let error = error.expect_err("it cannot be read");
            assert!(started.elapsed() < Duration::from_secs(1), "{status}: {:?}", started.elapsed());
            assert_eq!(scripted.count("getTask"), 1, "{status}");
            assert_eq!(error.kind() == inferstore::ErrorKind::Unauthorized, status == 401, "{error:?}");
            assert_eq!((error.status(), error.task_id().is_some()), (Some(status), true), "{error:?}");
            assert!(error.to_string().contains("the reason"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_may_not_be_read_ends_its_wait_and_no_other() {
    let scripted = Scripted::new();
    let ids = scripted.create(1).await;
    let started = Instant::now();
    let mut all = wait_all(&scripted.client(), [ids[0].as_str(), "no-such-task"]);
    let (first, result) = all.next().await.expect("one has ended");
    assert_eq!(first, "no-such-task");
    assert!(result.is_err_and(|error| error.is_not_found()));
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    let (second, result) = all.next().await.expect("the other one has ended");
    assert_eq!((second.as_str(), result.is_ok()), (ids[0].as_str(), true));
    assert!(all.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_without_a_read_reports_an_unknown_state_and_its_cause() {
    let scripted = Scripted::new();
    let ids = scripted.create(1).await;
    scripted.reply(|_, _| Some(Reply::failure(503, "maintenance")));
    let deadline = Duration::from_secs(20);
    let client = scripted.client();
    let one = client.task(ids[0].as_str()).wait().deadline(deadline).await.expect_err("it cannot be read");
    let mut all = wait_all(&client, [ids[0].as_str()]).deadline(deadline);
    let (_, of_many) = all.next().await.expect("it has ended");
    for error in [one, of_many.expect_err("it cannot be read")] {
        let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
        assert_eq!((reached.disposition, &reached.last_status), (TaskDisposition::Unknown, &None));
        assert_eq!(reached.task.as_ref().map(ToString::to_string), Some(ids[0].clone()));
        let source = error.source().expect("the last failure").to_string();
        assert!(source.contains("getTask") && source.contains("maintenance"), "{source}");
        assert_eq!(error.status(), Some(503));
        assert!(!error.to_string().contains("billed") && !error.to_string().contains("goes on"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_above_the_limit_ends_a_call_and_is_in_the_error() {
    let scripted = Scripted::new();
    let client = scripted.client();
    let requested = Duration::from_mins(2);
    let started = Instant::now();
    scripted.reply(|operation, _| {
        matches!(operation, "getBalance" | "createTask").then(|| Reply::too_many_requests(120))
    });
    let error = client.balance().await.expect_err("it is refused");
    assert_eq!((error.retry_after(), error.status()), (Some(requested), Some(429)), "{error:?}");
    assert!(error.is_retryable(), "{error:?}");
    let error = client.model(MODEL).run(inputs()).await.expect_err("it is refused");
    assert_eq!((error.retry_after(), error.status()), (Some(requested), Some(429)), "{error:?}");
    assert!(error.to_string().contains("too many requests"), "{error}");
    assert_eq!((scripted.count("getBalance"), scripted.count("createTask")), (1, 1));
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

async fn busy_service(seconds: u64) -> (Scripted, String) {
    let scripted = Scripted::new();
    scripted.service.model(MODEL).takes(Duration::ZERO);
    let id = scripted.create(1).await.remove(0);
    scripted.reply(move |operation, number| {
        (operation == "getTask" && number <= 3).then(|| Reply::too_many_requests(seconds))
    });
    (scripted, id)
}

fn shortest_pause(scripted: &Scripted) -> Duration {
    let reads = scripted.times("getTask");
    assert_eq!(reads.len(), 4);
    let pauses = reads.windows(2).map(|pair| pair[1] - pair[0]);
    pauses.min().expect("there are pauses")
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_between_the_reads_of_a_wait() {
    // Below and above the longest `Retry-After` that a call waits for.
    for seconds in [20, 100] {
        let (scripted, id) = busy_service(seconds).await;
        scripted.client().task(id.as_str()).wait().await.expect("it ends well");
        assert!(shortest_pause(&scripted) >= Duration::from_secs(seconds), "{:?}", shortest_pause(&scripted));

        let (scripted, id) = busy_service(seconds).await;
        let mut all = wait_all(&scripted.client(), [id.as_str()]);
        let (_, result) = all.next().await.expect("it has ended");
        result.expect("it ends well");
        assert!(shortest_pause(&scripted) >= Duration::from_secs(seconds), "{:?}", shortest_pause(&scripted));
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_delays_the_reads_of_a_wait_by_at_most_ten_minutes() {
    let scripted = Scripted::new();
    let ids = scripted.create(1).await;
    scripted.reply(|_, _| Some(Reply::too_many_requests(u64::MAX)));
    let deadline = Duration::from_hours(1);
    let client = scripted.client();
    let started = Instant::now();
    let error = client.task(ids[0].as_str()).wait().deadline(deadline).await.expect_err("it cannot be read");
    assert!(error.is_timeout() && started.elapsed() <= deadline, "{error:?}");
    assert_eq!(scripted.count("getTask"), 7, "at once, five times, and shortly before the end");
    let mut all = wait_all(&client, [ids[0].as_str()]).deadline(deadline);
    let (_, result) = all.next().await.expect("it has ended");
    assert!(result.is_err_and(|error| error.is_timeout()));
    assert_eq!(scripted.count("getTask"), 14, "at once, five times, and shortly before the end");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_at_the_deadline_has_time_for_its_response_before_the_deadline() {
    let scripted = Scripted::new();
    scripted.service.model("busy").stays_queued();
    scripted.reply_to("cancelTask", Reply::Late(Duration::from_millis(300)));
    let client = scripted.client();
    let deadline = Duration::from_secs(5);
    let started = Instant::now();
    let run = client.model("busy").run(inputs()).deadline(deadline).on_abandon(Abandon::Cancel);
    let error = run.await.expect_err("it stays queued");
    let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
    assert_eq!(reached.disposition, TaskDisposition::Canceled);
    assert!(started.elapsed() <= deadline, "{:?}", started.elapsed());
}
