//! Promises of the cookbook's pages.

#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use std::error::Error;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use futures_util::{StreamExt, TryStreamExt, stream};
use inferstore::types::TaskStatus;
use inferstore::{Abandon, File, Inputs, Result, Retry, Settings, TaskDisposition};
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

fn inputs() -> Inputs {
    Inputs::new().file("input_image", File::bytes("a.png", b"secret content".to_vec()))
}

async fn status(client: &inferstore::Client) -> Result<Option<TaskStatus>> {
    Ok(client.task("task-1").get().await?.status)
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_leaves_its_task_running() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").stays_queued();
    let client = service.client()?;
    let run = client.model("m").run(inputs());
    assert!(timeout(Duration::from_secs(60), run).await.is_err());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(status(&client).await?, Some(TaskStatus::InQueue));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_cancels_its_queued_task_when_asked_to() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").stays_queued();
    let client = service.client()?;
    let run = client.model("m").run(inputs()).on_abandon(Abandon::Cancel);
    assert!(timeout(Duration::from_secs(60), run).await.is_err());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(status(&client).await?, Some(TaskStatus::Canceled));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_before_the_create_leaves_no_task() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").succeeds(json!(1));
    service.responds("getModelVersioning", 503, "maintenance");
    let client = service.client()?;
    let mut run = client.model("m").run(inputs()).into_future();
    let not_yet = timeout(Duration::ZERO, &mut run).await;
    assert!(not_yet.is_err());
    drop(run);
    sleep(Duration::from_secs(60)).await;
    assert!(service.created().is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_event_is_lost_when_next_is_dropped() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").succeeds(json!(1)).takes(Duration::from_secs(20));
    let mut events = service.client()?.model("m").run(Inputs::new()).events();
    let mut seen = 0;
    loop {
        match timeout(Duration::from_millis(100), events.next()).await {
            Ok(Some(_)) => seen += 1,
            Ok(None) => break,
            Err(_) => {}
        }
    }
    assert_eq!(seen, 5, "creating, created, in the queue, computing, success");
    assert_eq!(events.finish().await?.output, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deadline_says_what_became_of_the_task() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").succeeds(json!(1)).takes(Duration::from_secs(600));
    let client = service.client()?;
    let run = client.model("m").run(inputs()).deadline(Duration::from_secs(60));
    let Err(inferstore::Error::DeadlineReached(reached)) = run.await else { panic!("it takes ten minutes") };
    assert_eq!(reached.disposition, TaskDisposition::StillRunning);
    let Some(task) = reached.task.clone() else { panic!("there is a task") };
    assert_eq!(client.task(task).wait().await?.output, 1);
    Ok(())
}

#[expect(dead_code, reason = "a program")]
#[path = "../../examples/web_handler.rs"]
mod web_handler;

#[tokio::test(start_paused = true)]
async fn a_web_handler_streams_the_output_and_deletes_the_input() -> std::result::Result<(), Box<dyn Error>> {
    let service = ScriptedService::new();
    let output = service.stores("clear.png", "image/png", b"clear".to_vec());
    service.model("haze-removal").succeeds(json!({ "output_image": output }));
    let Ok(body) = web_handler::dehaze(State(service.client()?), b"hazy".to_vec().into()).await else {
        panic!("it succeeds")
    };
    assert_eq!(axum::body::to_bytes(body, 100).await?, b"clear"[..]);
    let created = service.created();
    let input = created[0].inputs["input_image"].as_str().unwrap_or_default();
    assert_eq!(service.content(input), None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_web_handler_whose_caller_disconnects_cancels_its_task() -> Result<()> {
    let service = ScriptedService::new();
    service.model("haze-removal").stays_queued();
    let client = service.client()?;
    let handler = web_handler::dehaze(State(client.clone()), b"hazy".to_vec().into());
    assert!(timeout(Duration::from_secs(5), handler).await.is_err());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(status(&client).await?, Some(TaskStatus::Canceled));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_web_handler_maps_errors_to_statuses() -> Result<()> {
    let service = ScriptedService::new();
    service.model("haze-removal").declares(json!({ "picture": { "type": "file", "required": true } }));
    let refused = web_handler::dehaze(State(service.client()?), b"hazy".to_vec().into()).await;
    assert_eq!(refused.into_response().status(), 422);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn runs_are_spawned_joined_selected_and_buffered() -> std::result::Result<(), Box<dyn Error>> {
    let service = ScriptedService::new();
    service.model("m").succeeds(json!(1));
    let client = service.client()?;
    let mut set = JoinSet::new();
    for _ in 0..3 {
        set.spawn(client.model("m").run(Inputs::new()).into_future());
    }
    assert!(set.join_all().await.iter().all(|outcome| outcome.is_ok()));
    let (balance, statistics) = tokio::join!(client.balance(), client.storage_statistics());
    assert!(balance.is_ok() && statistics.is_ok());
    tokio::select! {
        outcome = client.model("m").run(Inputs::new()) => assert_eq!(outcome?.output, 1),
        () = sleep(Duration::from_secs(60)) => panic!("it takes three seconds"),
    }
    let runs = stream::iter(0..3).map(|number| {
        client.model("m").run([("number", number)].into_iter().collect::<Inputs>()).into_future()
    });
    let outcomes: Vec<_> = runs.buffer_unordered(2).try_collect().await?;
    assert_eq!((outcomes.len(), service.created().len()), (3, 7));
    let tasks = service.created().into_iter().map(|created| client.task(created.task).get());
    assert_eq!(futures_util::future::try_join_all(tasks).await?.len(), 7);
    Ok(())
}

#[test]
fn the_page_of_the_http_client_states_the_defaults() {
    let page = include_str!("../../src/cookbook/http_client.md");
    let Settings { read_timeout, transfer_timeout, retry, .. } = Settings::default();
    let Retry { max_attempts, initial_backoff, max_backoff, max_retry_after, .. } = retry;
    for default in [
        format!("| {read_timeout:?} without a byte;"),
        format!("| {transfer_timeout:?} without progress |"),
        format!("| {max_attempts}, with a backoff of {initial_backoff:?} up to {max_backoff:?},"),
        format!("| {max_retry_after:?}; a longer one ends the retries |"),
    ] {
        assert!(
            page.contains(&default.replace("ms", " ms").replace("0s", "0 s")),
            "not on the page: {default}"
        );
    }
}
