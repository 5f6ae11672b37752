//! Waits for one task and for many: events, ends, deadlines, and the number of requests.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use inferstore::types::TaskStatus;
use inferstore::{Abandon, Error, Inputs, RunEvent, RunEvents, TaskDisposition};
use inferstore_api::operations;
use inferstore_batch::wait_all;
use inferstore_service::Script;
use inferstore_wire::until;
use serde_json::json;

use super::on_the_service::{self, tasks};
use super::{Quickly, inputs};
use crate::support::scripted::{MODEL, Reply, Scripted};

async fn all(events: &mut RunEvents) -> Vec<RunEvent> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        all.push(event);
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_run_reports_every_status_in_order_also_one_that_it_does_not_know() {
    let scripted = Scripted::new();
    scripted.service.model(MODEL).takes(Duration::ZERO);
    let statuses = ["in_queue", "in_queue", "migrating", "computing"];
    scripted.reply(move |operation, number| {
        let status = statuses.get(number - 1).filter(|_| operation == "getTask");
        status.map(|status| Reply::task(status))
    });
    let mut events = scripted.client().model(MODEL).run(inputs()).events();
    let events_seen = all(&mut events).await;
    let other = RunEvent::Status(TaskStatus::Other("migrating".to_owned()));
    let expected = [
        RunEvent::Creating,
        RunEvent::Created("task-1".into()),
        RunEvent::Status(TaskStatus::InQueue),
        other,
        RunEvent::Status(TaskStatus::Computing),
        RunEvent::Status(TaskStatus::Success),
    ];
    assert_eq!(events_seen, expected);
    events.finish().await.expect("it ends well");
}

#[tokio::test(start_paused = true)]
async fn failed_tasks_have_message_and_detail_and_canceled_ones_are_named() {
    let scripted = Scripted::new();
    let model = scripted.client().model(MODEL);
    let detail = json!({"detail": "unknown image format"});
    scripted.reply_to(
        "getTask",
        Reply::success(&json!({
            "task_id": "task-1", "status": "failed", "message": "the input is not an image",
            "result": { "result": null, "error": detail },
        })),
    );
    let error = model.run(inputs()).await.expect_err("it failed");
    let Error::TaskFailed(failure) = &error else { panic!("{error:?}") };
    assert_eq!(
        (failure.message.as_deref(), &failure.detail),
        (Some("the input is not an image"), &Some(detail))
    );
    assert_eq!(error.task_id(), Some(&failure.task));
    scripted.reply_to("getTask", Reply::task("canceled"));
    let error = model.run(inputs()).await.expect_err("it was canceled");
    assert!(matches!(error, Error::TaskCanceled(_)), "{error:?}");
}

#[tokio::test]
async fn dropping_a_wait_leaves_the_task_alone() {
    let (_service, controls, client) = on_the_service::start().await;
    controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
    let run = tokio::spawn(client.model(MODEL).run(inputs()).quickly().into_future());
    until("the run reads its task", || async { controls.seen(operations::GET_TASK) >= 2 }).await;
    run.abort();
    let _ = run.await;
    assert_eq!(controls.tasks().await.expect("they can be counted")["in_queue"], 1);
    assert_eq!((tasks(&controls).await, controls.seen(operations::CANCEL_TASK)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn three_hundred_tasks_need_few_requests_and_each_comes_once() {
    const TASKS: usize = 300;
    let scripted = Scripted::new();
    let mut ids = Vec::new();
    for seconds in [10, 40, 70] {
        scripted.service.model(MODEL).takes(Duration::from_secs(seconds));
        ids.extend(scripted.create(TASKS / 3).await);
    }
    let ended: HashMap<_, _> = wait_all(&scripted.client(), ids.iter().map(String::as_str))
        .map(|(task, result)| (task.to_string(), result.map(|outcome| outcome.task.to_string())))
        .collect()
        .await;
    assert_eq!(ended.len(), TASKS);
    for id in &ids {
        assert_eq!(ended.get(id).and_then(|result| result.as_ref().ok()), Some(id));
    }
    let pages = scripted.count("listTasks");
    let reads = scripted.count("getTask");
    assert!(reads <= TASKS + TASKS / 10, "{reads} reads: each task is read once, when it has ended");
    assert!(pages < TASKS, "{pages} pages");
}

#[tokio::test(start_paused = true)]
async fn many_tasks_survive_failures_and_each_is_reported_at_the_deadline() {
    let scripted = Scripted::new();
    let mut ids = scripted.create(20).await;
    let client = scripted.client();
    scripted.service.model("busy").stays_queued();
    for number in 0..3 {
        let run = client.model("busy").run(Inputs::new().set("number", number));
        ids.push(run.start().await.expect("it is created").id().to_string());
    }
    scripted.reply(|_, number| match number % 10 {
        3 => Some(Reply::Lost),
        8 => Some(Reply::html_page(502)),
        _ => None,
    });
    let ended: HashMap<_, _> = wait_all(&client, ids.iter().map(String::as_str))
        .deadline(Duration::from_mins(1))
        .map(|(task, result)| (task.to_string(), result))
        .collect()
        .await;
    assert_eq!(ended.len(), 23);
    for id in &ids[..20] {
        assert!(ended[id].is_ok(), "{id}: {:?}", ended[id]);
    }
    for id in &ids[20..] {
        let Err(error) = &ended[id] else { panic!("{id} has not ended") };
        assert!(matches!(error, Error::DeadlineReached(_)), "{error:?}");
        assert_eq!(error.task_id().map(ToString::to_string).as_ref(), Some(id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_another_process_created_can_be_followed_to_its_end() {
    let scripted = Scripted::new();
    let ids = scripted.create(1).await;
    let mut events = scripted.client().task(ids[0].as_str()).wait().events();
    let seen = all(&mut events).await;
    let outcome = events.finish().await.expect("it ends well");
    let [RunEvent::Status(first), .., RunEvent::Status(last)] = &seen[..] else { panic!("{seen:?}") };
    assert_ne!(first, last);
    assert_eq!((last, outcome.task.as_str()), (&TaskStatus::Success, ids[0].as_str()));
    let error = scripted.client().task("..").wait().events().finish().await;
    assert!(matches!(error, Err(Error::InvalidArgument(_))), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_the_cancel_is_reported_at_the_deadline() {
    for (reply, expected) in [
        (None, TaskDisposition::Canceled),
        (Some(Reply::failure(409, "it is being computed")), TaskDisposition::StillRunning),
        (Some(Reply::failure(401, "the key was revoked")), TaskDisposition::StillRunning),
        (Some(Reply::Late(Duration::from_mins(10))), TaskDisposition::CancelUnknown),
        // The cancel was performed, and a read shows it.
        (Some(Reply::Cut), TaskDisposition::Canceled),
    ] {
        let scripted = Scripted::new();
        scripted.service.model("busy").stays_queued();
        if let Some(reply) = reply {
            scripted.reply_to("cancelTask", reply);
        }
        let run = scripted.client().model("busy").run(inputs()).deadline(Duration::from_secs(10));
        let error = run.on_abandon(Abandon::Cancel).await.expect_err("it stays in the queue");
        let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
        assert_eq!(reached.disposition, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_tasks_failures_are_reported_and_nothing_is_canceled() {
    let scripted = Scripted::new();
    scripted.service.model(MODEL).takes(Duration::from_hours(1));
    let ids = scripted.create(1).await;
    let ended: HashMap<_, _> = wait_all(&scripted.client(), [ids[0].as_str(), ".."])
        .deadline(Duration::from_mins(1))
        .map(|(task, result)| (task.to_string(), result.err()))
        .collect()
        .await;
    assert!(matches!(ended[".."], Some(Error::InvalidArgument(_))), "{ended:?}");
    let Some(Error::DeadlineReached(reached)) = &ended[&ids[0]] else { panic!("{ended:?}") };
    assert_eq!((reached.disposition, scripted.count("cancelTask")), (TaskDisposition::StillRunning, 0));
}

#[tokio::test(start_paused = true)]
async fn distant_tasks_are_read_alone_and_failed_reads_are_repeated() {
    let scripted = Scripted::new();
    let ids = scripted.create(152).await;
    scripted.reply(|operation, number| {
        (operation == "getTask" && number <= 3).then(|| Reply::failure(500, "no"))
    });
    let both = [ids[0].as_str(), ids[151].as_str()];
    let all: Vec<_> = wait_all(&scripted.client(), both).collect().await;
    let mut ended: Vec<_> = all.iter().map(|(task, result)| (task.as_str(), result.is_ok())).collect();
    ended.sort_unstable();
    assert_eq!(ended, [(both[0], true), (both[1], true)]);
    assert!(scripted.count("listTasks") <= 3, "a page for each would cost more");
}
