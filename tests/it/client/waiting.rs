//! Waiting for one task and for many: events, ends, deadlines, and how few requests it takes.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use inferstore::types::TaskStatus;
use inferstore::{Error, RunEvent, RunEvents, TaskDisposition};
use serde_json::json;

use super::{Quickly, client, inputs};
use crate::support::scripted::{DEFAULT_MODEL, Fault, Route, ScriptedService, Stay, TaskPlan};

#[tokio::test]
async fn a_run_tells_what_happens_in_order() {
    let service = ScriptedService::start().await;
    let plan =
        TaskPlan::new().queued(Stay::Reads(2)).status("migrating", Stay::Reads(1)).computing(Stay::Reads(1));
    service.set_plan(DEFAULT_MODEL, plan);
    let mut events = client(&service).model(DEFAULT_MODEL).run(inputs()).quickly().events();
    let seen: Vec<_> = all(&mut events)
        .await
        .iter()
        .map(|event| match event {
            RunEvent::Created(_) => "created".to_owned(),
            RunEvent::Status(status) => status.to_string(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, ["created", "in_queue", "migrating", "computing", "success"]);
    events.finish().await.expect("it ends well");
}

/// The events up to the end.
async fn all(events: &mut RunEvents) -> Vec<RunEvent> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        all.push(event);
    }
    all
}

#[tokio::test]
async fn reads_that_fail_for_a_while_do_not_end_a_wait() {
    let service = ScriptedService::start().await;
    let client = client(&service);
    let task = client.model(DEFAULT_MODEL).run(inputs()).quickly().start().await.expect("it is created");
    let faults = [
        Fault::html_page(502),
        Fault::failure(500, "no"),
        Fault::too_many_requests("0"),
        Fault::failure(408, "no"),
        Fault::Garble,
        Fault::CutBody,
    ];
    for fault in faults {
        service.fault(Route::GetTask, fault.times(7)).await;
    }
    let outcome = task.wait().quickly().await.expect("it ends well after all");
    assert_eq!(&outcome.task, task.id());
    assert_eq!(service.faults_left(), 0);
}

#[tokio::test]
async fn a_task_that_failed_says_why_and_one_that_was_canceled_says_so() {
    let service = ScriptedService::start().await;
    let model = client(&service).model(DEFAULT_MODEL);
    let detail = json!({"detail": "unknown image format"});
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().fails_with("the input is not an image", detail.clone()));
    let error = model.run(inputs()).quickly().await.expect_err("it failed");
    let Error::TaskFailed(failure) = &error else { panic!("{error:?}") };
    assert_eq!(
        (failure.message.as_deref(), &failure.detail),
        (Some("the input is not an image"), &Some(detail))
    );
    assert_eq!(error.task_id(), Some(&failure.task));
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().ends_canceled());
    let error = model.run(inputs()).quickly().await.expect_err("it was canceled");
    assert!(matches!(error, Error::TaskCanceled(_)), "{error:?}");
}

#[tokio::test]
async fn dropping_a_wait_leaves_the_task_alone() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().queued(Stay::Reads(1_000)));
    let model = client(&service).model(DEFAULT_MODEL);
    let run = tokio::spawn(model.run(inputs()).quickly());
    service.until_seen(Route::GetTask, 2).await;
    run.abort();
    let _ = run.await;
    assert_eq!((service.created().len(), service.canceled().len()), (1, 0));
}

#[tokio::test]
async fn three_hundred_tasks_are_waited_for_with_few_requests_and_each_comes_once() {
    const TASKS: usize = 300;
    let service = ScriptedService::start().await;
    let plan = |milliseconds| TaskPlan::new().computing(Stay::For(Duration::from_millis(milliseconds)));
    let ids: Vec<_> = (0..TASKS)
        .map(|number| {
            service.set_plan(DEFAULT_MODEL, plan(100 + 300 * (number as u64 % 3)));
            service.add_task(DEFAULT_MODEL, json!({"number": number}))
        })
        .collect();
    let client = client(&service);
    let ended: HashMap<_, _> = client
        .tasks()
        .wait_all(ids.iter().map(String::as_str))
        .quickly()
        .map(|(task, result)| (task.to_string(), result.map(|outcome| outcome.task.to_string())))
        .collect()
        .await;
    assert_eq!(ended.len(), TASKS);
    for id in &ids {
        assert_eq!(ended.get(id).and_then(|result| result.as_ref().ok()), Some(id));
    }
    let (pages, reads) = (service.count(Route::ListTasks), service.count(Route::GetTask));
    assert!(reads <= TASKS + TASKS / 10, "{reads} reads: each task is read once, when it has ended");
    assert!(pages < TASKS, "{pages} pages");
}

#[tokio::test]
async fn many_tasks_survive_faults_and_a_deadline_tells_of_each() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().computing(Stay::Reads(1)));
    let quick: Vec<_> =
        (0..20).map(|number| service.add_task(DEFAULT_MODEL, json!({"number": number}))).collect();
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().queued(Stay::Reads(1_000_000)));
    let stuck: Vec<_> =
        (0..3).map(|number| service.add_task(DEFAULT_MODEL, json!({"stuck": number}))).collect();
    service.fault_rate(Route::Any, 0.2, vec![Fault::CloseAfterRequest, Fault::html_page(502)], 7).await;
    let ended: HashMap<_, _> = client(&service)
        .tasks()
        .wait_all(quick.iter().chain(&stuck).map(String::as_str))
        .quickly()
        .deadline(Duration::from_secs(2))
        .cancel_at_deadline(true)
        .map(|(task, result)| (task.to_string(), result))
        .collect()
        .await;
    assert_eq!(ended.len(), 23);
    for id in &stuck {
        let Err(error) = &ended[id] else { panic!("{id} has not ended") };
        assert!(matches!(error, Error::DeadlineReached(_)), "{error:?}");
        assert_eq!(error.task_id().map(ToString::to_string).as_ref(), Some(id));
    }
}

#[tokio::test]
async fn a_word_of_tomorrow_is_reported_and_is_not_the_end() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().status("paused", Stay::Reads(3)));
    let mut events = client(&service).model(DEFAULT_MODEL).run(inputs()).quickly().events();
    let seen = all(&mut events).await;
    events.finish().await.expect("it ends well");
    assert!(
        seen.iter()
            .any(|event| matches!(event, RunEvent::Status(TaskStatus::Other(word)) if word == "paused"))
    );
}

#[tokio::test]
async fn a_task_that_another_process_created_can_be_followed_to_its_end() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().queued(Stay::Reads(1)).computing(Stay::Reads(1)));
    let id = service.add_task(DEFAULT_MODEL, json!({}));
    let mut events = client(&service).task(id.as_str()).wait().quickly().events();
    let seen = all(&mut events).await;
    let outcome = events.finish().await.expect("it ends well");
    let [RunEvent::Status(first), .., RunEvent::Status(last)] = &seen[..] else { panic!("{seen:?}") };
    assert_ne!(first, last);
    assert_eq!((last, outcome.task.as_str()), (&TaskStatus::Success, id.as_str()));
    let error = client(&service).task("..").wait().quickly().events().finish().await;
    assert!(matches!(error, Err(Error::InvalidArgument(_))), "{error:?}");
}

#[tokio::test]
async fn the_deadline_tells_what_became_of_the_cancel() {
    let too_late = || Fault::failure(409, "it is being computed");
    for (fault, expected) in [
        (None, TaskDisposition::Canceled),
        (Some(too_late()), TaskDisposition::StillRunning),
        (Some(Fault::Stall), TaskDisposition::CancelUnknown),
    ] {
        let service = ScriptedService::start().await;
        service.set_plan(DEFAULT_MODEL, TaskPlan::new().queued(Stay::Reads(1_000_000)));
        let id = service.add_task(DEFAULT_MODEL, json!({}));
        if let Some(fault) = fault {
            service.fault(Route::CancelTask, fault.always()).await;
        }
        let wait = client(&service).task(id).wait().quickly().deadline(Duration::from_secs(1));
        let error = wait.cancel_at_deadline(true).await.expect_err("it stays in the queue");
        let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
        assert_eq!(reached.disposition, expected);
    }
}

#[tokio::test]
async fn of_many_tasks_one_that_cannot_be_and_one_that_stays_are_reported_and_nothing_is_canceled() {
    let service = ScriptedService::start().await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().queued(Stay::Reads(1_000_000)));
    let id = service.add_task(DEFAULT_MODEL, json!({}));
    let ended: HashMap<_, _> = client(&service)
        .tasks()
        .wait_all([id.as_str(), ".."])
        .quickly()
        .deadline(Duration::from_millis(300))
        .map(|(task, result)| (task.to_string(), result.err()))
        .collect()
        .await;
    assert!(matches!(ended[".."], Some(Error::InvalidArgument(_))), "{ended:?}");
    let Some(Error::DeadlineReached(reached)) = &ended[&id] else { panic!("{ended:?}") };
    assert_eq!((reached.disposition, service.canceled().len()), (TaskDisposition::StillRunning, 0));
}

#[tokio::test]
async fn tasks_far_apart_are_read_by_themselves_and_reads_that_fail_are_repeated() {
    let service = ScriptedService::start().await;
    let first = service.add_task(DEFAULT_MODEL, json!({"number": 0}));
    for number in 0..150 {
        service.add_task("another-model", json!({"number": number}));
    }
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().computing(Stay::Reads(2)));
    let last = service.add_task(DEFAULT_MODEL, json!({"number": 1}));
    service.fault(Route::GetTask, Fault::failure(500, "no").times(3)).await;
    let both = [first.as_str(), last.as_str()];
    let all: Vec<_> = client(&service).tasks().wait_all(both).quickly().collect().await;
    let ended: Vec<_> = all.iter().map(|(task, result)| (task.to_string(), result.is_ok())).collect();
    assert_eq!(ended, [(first, true), (last, true)]);
    assert!(service.count(Route::ListTasks) <= 3, "a page for each would cost more");
}
