//! Requests that a wait for many tasks sends, and their times.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use futures_util::StreamExt;
use inferstore::{Error, Inputs, PollInterval, TaskDisposition};
use inferstore_batch::wait_all;
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{SECOND, count, start, start_many};

#[tokio::test(start_paused = true)]
async fn a_task_that_is_added_again_is_not_looked_for_again() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let tasks = start_many(&client, 20).await;
    let mut all = wait_all(&client, tasks.clone()).poll(PollInterval::every(SECOND));
    assert!(timeout(SECOND * 7 / 2, all.next()).await.is_err());
    let before = service.requests().len();
    all.add(tasks[7].clone());
    assert!(timeout(2 * SECOND, all.next()).await.is_err());
    assert_eq!(service.requests()[before..], ["listTasks"; 2], "one page a round");
}

#[tokio::test(start_paused = true)]
async fn pages_of_the_history_that_save_no_request_are_not_read() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let tasks = start_many(&client, 102).await;
    // No page shows both tasks.
    let mut all = wait_all(&client, [&tasks[1], &tasks[101]]).poll(PollInterval::every(SECOND));
    assert!(timeout(SECOND * 7 / 2, all.next()).await.is_err());
    let pages = count(&service.requests(), "listTasks");
    assert_eq!(pages, 3, "its length, and where each of them is");
}

#[tokio::test(start_paused = true)]
async fn tasks_that_one_page_of_the_history_shows_take_one_page_a_round() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let tasks = start_many(&client, 20).await;
    let mut all = wait_all(&client, tasks).poll(PollInterval::every(SECOND));
    assert!(timeout(SECOND * 7 / 2, all.next()).await.is_err());
    // Four rounds, and one request for the length of the history.
    assert_eq!(count(&service.requests(), "listTasks"), 5);
    assert_eq!(count(&service.requests(), "getTask"), 0);
}

#[tokio::test(start_paused = true)]
async fn tasks_in_a_long_history_are_found_on_few_pages() {
    let service = ScriptedService::new();
    let mut model = service.model("m").takes(60 * SECOND);
    for number in 0..450 {
        model = model.succeeds(json!(number));
    }
    let client = service.client().unwrap();
    let tasks = start_many(&client, 450).await;
    for (waited_for, expected) in [([&tasks[0], &tasks[1]], 3), ([&tasks[448], &tasks[449]], 2)] {
        let before = service.requests().len();
        let outcomes: Vec<_> = wait_all(&client, waited_for).collect().await;
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()), "{outcomes:?}");
        let pages = count(&service.requests()[before..], "listTasks");
        // The first request reads the length of the history.
        assert_eq!(pages, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_added_is_read_soon_although_the_others_are_read_seldom() {
    let service = ScriptedService::new();
    let _ = service.model("queued").stays_queued();
    let _ = service.model("m").succeeds(json!({})).takes(Duration::ZERO);
    let client = service.client().unwrap();
    let queued = client.model("queued").run(Inputs::new()).start().await.unwrap();
    let poll = PollInterval::Between { first: SECOND, longest: 100 * SECOND };
    let mut all = wait_all(&client, [queued.id()]).poll(poll);
    assert!(timeout(500 * SECOND, all.next()).await.is_err());
    let added = start(&client).await;
    all.add(added.clone());
    let (task, result) = timeout(2 * SECOND, all.next()).await.unwrap().unwrap();
    assert!(task == added && result.is_ok(), "{task}: {result:?}");
}

#[tokio::test(start_paused = true)]
async fn tasks_end_although_the_history_shows_them_without_a_status() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({}));
    let client = service.client().unwrap();
    let first = start(&client).await;
    let second = start(&client).await;
    let records = [json!({ "task_id": &first }), json!({ "task_id": &second })];
    let data = json!({ "total": 2, "records": records });
    for _ in 0..1_000 {
        service.responds("listTasks", 200, json!({ "status": "success", "message": "ok", "data": data }));
    }
    let mut all = wait_all(&client, [&first, &second]).deadline(60 * SECOND);
    while let Some((task, result)) = all.next().await {
        result.unwrap_or_else(|error| panic!("{task}: {error}"));
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_are_read_once_more_just_before_the_deadline() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!({})).takes(15 * SECOND);
    let client = service.client().unwrap();
    let tasks = start_many(&client, 2).await;
    let mut all = wait_all(&client, tasks).poll(PollInterval::every(10 * SECOND)).deadline(18 * SECOND);
    for _ in 0..2 {
        all.next().await.unwrap().1.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_the_cause_of_a_deadline_until_a_read_succeeds() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let tasks = start_many(&client, 2).await;
    // The first page fails, so the tasks are read one by one.
    service.responds("listTasks", 500, "");
    service.responds("getTask", 500, "");
    let started = Instant::now();
    let mut all = wait_all(&client, tasks).deadline(60 * SECOND);
    while let Some((task, result)) = all.next().await {
        let error = result.unwrap_err();
        let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
        assert_eq!((reached.task.as_ref(), reached.elapsed), (Some(&task), 60 * SECOND));
        assert_eq!((reached.disposition, error.status()), (TaskDisposition::StillRunning, None), "{error:?}");
    }
    assert_eq!(started.elapsed(), 60 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_ends_of_quick_tasks_are_seen_at_once_and_with_few_requests() {
    let service = ScriptedService::new();
    let mut model = service.model("m").takes(SECOND / 20);
    for number in 0..50 {
        model = model.succeeds(json!(number));
    }
    let client = service.client().unwrap();
    let tasks = start_many(&client, 50).await;
    let started = Instant::now();
    let before = service.requests().len();
    let ended: Vec<_> = wait_all(&client, tasks).collect().await;
    assert!(ended.len() == 50 && started.elapsed() < SECOND * 3 / 20, "after {:?}", started.elapsed());
    assert!(service.requests().len() - before < 56, "one read each, and a few pages");
}

#[tokio::test(start_paused = true)]
async fn tasks_end_one_by_one_and_added_tasks_restart_the_reads() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!(1)).fails("no").succeeds(json!(3));
    let client = service.client().unwrap();
    let mut tasks = wait_all(&client, start_many(&client, 3).await).deadline(60 * SECOND);
    for _ in 0..2 {
        let mut ended = std::collections::BTreeMap::new();
        while let Some((task, result)) = tasks.next().await {
            assert!(ended.insert(task, result.is_ok()).is_none());
        }
        assert_eq!(ended.into_values().filter(|is_success| *is_success).count(), 2);
        tokio::time::sleep(60 * SECOND).await;
        let _ = service.model("m").succeeds(json!(1)).succeeds(json!(2));
        start_many(&client, 2).await.into_iter().for_each(|task| tasks.add(task));
    }
    assert!(format!("{tasks:?}").contains("WaitAll"));
}
