//! Wait for many tasks while reads fail, hang or are rate limited.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::{FutureExt, StreamExt};
use inferstore::PollInterval;
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Request, Response};
use inferstore_batch::wait_all;
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::{SECOND, count, start, start_many};

const HISTORY: &str = "/task/histories";

/// Effect on requests whose path has this end.
struct To(&'static str, Effect);

#[derive(Clone, Copy)]
enum Effect {
    /// The request is never sent.
    Hangs,
    /// 429 with a `Retry-After` of a minute.
    Refuses,
    /// The response is delayed by a second.
    Delays,
}

impl Middleware for To {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        if !request.url().path().ends_with(self.0) {
            return next.run(request);
        }
        match self.1 {
            Effect::Hangs => std::future::pending().boxed(),
            Effect::Refuses => {
                let refusal = http::Response::builder().status(429).header("retry-after", 60);
                std::future::ready(Ok(Response::from(refusal.body("").unwrap()))).boxed()
            }
            Effect::Delays => sleep(SECOND).then(|()| next.run(request)).boxed(),
        }
    }
}

/// Counts requests whose path has this end.
#[derive(Clone, Debug)]
struct Asked(&'static str, Arc<AtomicU32>);

impl Middleware for Asked {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        self.1.fetch_add(u32::from(request.url().path().ends_with(self.0)), Ordering::Relaxed);
        next.run(request)
    }
}

/// Hides the first twenty tasks of the history.
struct HidesTwenty;

impl Middleware for HidesTwenty {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        let shown = request.url().path().split('/').find_map(|segment| segment.strip_prefix("task-"));
        match shown.and_then(|number| number.parse().ok()) {
            Some(1..=20) => std::future::pending().boxed(),
            _ => next.run(request),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_come_although_the_read_of_another_task_hangs() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client_builder().middleware(To("/task-7/detail", Effect::Hangs)).build().unwrap();
    let tasks = start_many(&client, 20).await;
    sleep(10 * SECOND).await;
    let mut all = wait_all(&client, tasks);
    let first = async {
        for _ in 0..19 {
            all.next().await.unwrap().1.unwrap();
        }
    };
    timeout(10 * SECOND, first).await.unwrap();
    let late = start(&client).await;
    all.add(late.clone());
    let (task, outcome) = timeout(90 * SECOND, all.next()).await.unwrap().unwrap();
    assert!(task == late && outcome.is_ok(), "{task}: {outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_added_does_not_wait_for_the_last_other_one_that_hangs() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client_builder().middleware(To("/task-1/detail", Effect::Hangs)).build().unwrap();
    let hanging = start(&client).await;
    let late = start(&client).await;
    let mut all = wait_all(&client, [hanging]);
    assert!(timeout(10 * SECOND, all.next()).await.is_err());
    all.add(late.clone());
    let (task, outcome) = timeout(90 * SECOND, all.next()).await.unwrap().unwrap();
    assert!(task == late && outcome.is_ok(), "{task}: {outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn outcomes_come_although_the_reads_of_many_other_tasks_hang() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let builder = service.client_builder().middleware(HidesTwenty);
    let client = builder.middleware(To("/detail", Effect::Delays)).build().unwrap();
    let tasks = start_many(&client, 28).await;
    let mut all = wait_all(&client, tasks);
    let shown = async {
        for _ in 0..8 {
            all.next().await.unwrap().1.unwrap();
        }
    };
    timeout(300 * SECOND, shown).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_page_of_the_history_that_failed_once_saves_reads_again_later() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let client = service.client().unwrap();
    let tasks = start_many(&client, 20).await;
    let mut all = wait_all(&client, tasks).poll(PollInterval::every(10 * SECOND));
    service.responds("listTasks", 200, r#"{"status": "success", "data": {"total": 20}}"#);
    for failures in 1..=2 {
        service.responds("listTasks", 500, "");
        assert!(timeout(200 * SECOND, all.next()).await.is_err());
        assert_eq!(count(&service.requests(), "getTask"), 20 * failures, "once each, when the page failed");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_have_ended_do_not_wait_for_a_history_that_is_limited() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let client = service.client_builder().middleware(To(HISTORY, Effect::Refuses)).build().unwrap();
    let tasks = start_many(&client, 2).await;
    sleep(10 * SECOND).await;
    let mut all = wait_all(&client, tasks);
    let both = async { (all.next().await.unwrap().1.unwrap(), all.next().await.unwrap().1.unwrap()) };
    timeout(65 * SECOND, both).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn outcomes_come_although_the_history_hangs() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done"));
    let builder = service.client_builder().middleware(To(HISTORY, Effect::Hangs));
    let client = builder.middleware(To("/detail", Effect::Delays)).build().unwrap();
    let tasks = start_many(&client, 2).await;
    sleep(10 * SECOND).await;
    let all = wait_all(&client, tasks);
    let ended = timeout(60 * SECOND, all.collect::<Vec<_>>()).await.unwrap();
    assert!(ended.iter().all(|(_, outcome)| outcome.is_ok()), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn the_history_is_left_alone_for_as_long_as_the_service_asks() {
    let service = ScriptedService::new();
    let _ = service.model("m").succeeds(json!("done")).takes(90 * SECOND);
    let asked = Asked(HISTORY, Arc::default());
    let limited = To(HISTORY, Effect::Refuses);
    let client = service.client_builder().middleware(asked.clone()).middleware(limited).build().unwrap();
    let tasks = start_many(&client, 2).await;
    let all = wait_all(&client, tasks);
    assert!(all.collect::<Vec<_>>().await.iter().all(|(_, outcome)| outcome.is_ok()));
    assert!(asked.1.load(Ordering::Relaxed) <= 3, "{asked:?}");
}
