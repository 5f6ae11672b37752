//! Tasks go through their plans.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::{DEFAULT_MODEL, Route, ScriptedService, Stay, TaskPlan};
use super::{Caller, good_input};

async fn statuses(caller: &Caller, task: &str, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(caller.task(task).await["status"].as_str().expect("a status is a word").to_owned());
    }
    seen
}

#[tokio::test]
async fn without_a_plan_the_second_read_shows_a_result_that_can_be_downloaded() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let task = caller.create(DEFAULT_MODEL, good_input()).await;
    assert_eq!(statuses(&caller, &task, 2).await, ["in_queue", "success"]);
    let task = caller.task(&task).await;
    assert_eq!((&task["cost"], &task["input_data"]), (&json!(0.05), &good_input()));
    let output = task["result"]["result"]["output_image"].as_str().expect("a URL");
    let bytes = caller.http.get(output).send().await.expect("storage answers").text().await;
    assert_eq!(bytes.expect("the body is whole"), "output_image of task-000001");
    assert!(task["result"]["result"]["output_hue"].is_string() && task["result"]["error"].is_null());
}

#[tokio::test]
async fn a_plan_counts_reads() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let plan = TaskPlan::new()
        .queued(Stay::Reads(2))
        .status("migrating", Stay::Reads(1))
        .computing(Stay::Reads(0))
        .computing(Stay::Reads(1));
    service.set_plan(DEFAULT_MODEL, plan.succeeds_with(json!("done")).costs(json!("0.10")));
    let task = caller.create(DEFAULT_MODEL, good_input()).await;
    let expected = ["in_queue", "in_queue", "migrating", "computing", "success", "success"];
    assert_eq!(statuses(&caller, &task, 6).await, expected);
    let task = caller.task(&task).await;
    assert_eq!((&task["result"]["result"], &task["cost"]), (&json!("done"), &json!("0.10")));
}

#[tokio::test]
async fn a_plan_keeps_time() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let start = Instant::now();
    let stay = Stay::For(Duration::from_millis(200));
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().queued(stay).computing(stay));
    let task = caller.create(DEFAULT_MODEL, good_input()).await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|status| status != "success") {
        seen.extend(statuses(&caller, &task, 1).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() >= Duration::from_millis(400));
    seen.dedup();
    assert_eq!(seen, ["in_queue", "computing", "success"]);
    caller.create(DEFAULT_MODEL, good_input()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(service.created()[1].status, "computing", "nobody has to read for the time to pass");
}

#[tokio::test]
async fn a_plan_ends_as_it_says() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().fails_with("no image", json!({"detail": 7})));
    let failed = caller.create(DEFAULT_MODEL, good_input()).await;
    service.set_plan(DEFAULT_MODEL, TaskPlan::new().ends_canceled());
    let canceled = caller.create(DEFAULT_MODEL, good_input()).await;
    let failed = caller.task(&failed).await;
    assert_eq!((&failed["status"], &failed["message"]), (&json!("failed"), &json!("no image")));
    assert_eq!(failed["result"], json!({"result": null, "error": {"detail": 7}}));
    assert_eq!(caller.task(&canceled).await["status"], "canceled");
}

#[tokio::test]
async fn a_task_waits_in_the_queue_while_nothing_serves_its_model() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    service.set_serving(DEFAULT_MODEL, false);
    let task = caller.create(DEFAULT_MODEL, good_input()).await;
    assert_eq!(statuses(&caller, &task, 3).await, ["in_queue"; 3]);
    service.set_serving(DEFAULT_MODEL, true);
    assert_eq!(statuses(&caller, &task, 2).await, ["in_queue", "success"]);
}

#[tokio::test]
async fn only_a_task_in_the_queue_is_canceled() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let task = caller.create(DEFAULT_MODEL, good_input()).await;
    caller.task(&task).await;
    let path = format!("/api-key/task/{task}/cancel");
    let (code, answer) = caller.delete(&path, None).await;
    assert_eq!((code, answer.get("data")), (200, None));
    assert_eq!(caller.delete(&path, None).await.0, 409);
    assert_eq!(caller.task(&task).await["status"], "canceled");
    assert_eq!(service.canceled(), [task]);
    assert_eq!(service.count(Route::CancelTask), 2);
    assert_eq!(caller.delete("/api-key/task/none/cancel", None).await.0, 404);
}

#[tokio::test]
async fn the_history_comes_in_pages_and_oldest_first() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    for number in 0..12 {
        service.add_task(DEFAULT_MODEL, json!({"number": number}));
    }
    let created = caller.create(DEFAULT_MODEL, good_input()).await;
    let ids = |page: &Value| -> Vec<String> {
        let records = page["data"]["records"].as_array().expect("a page has records");
        records.iter().filter_map(|record| record["task_id"].as_str().map(str::to_owned)).collect()
    };
    let (_, first) = caller.get("/api-key/task/histories").await;
    assert_eq!((ids(&first).len(), &first["data"]["total"]), (10, &json!(13)));
    let (_, last) = caller.get("/api-key/task/histories?limit=100&offset=11").await;
    assert_eq!(ids(&last), ["task-000012", created.as_str()]);
    assert_eq!(caller.get("/api-key/task/histories?limit=101").await.0, 400);
    let withdrawn = service.add_task("a-model-that-was-withdrawn", json!({}));
    assert_eq!(statuses(&caller, &withdrawn, 3).await, ["in_queue"; 3]);

    let counted = service.created();
    assert_eq!(counted.len(), 1, "tasks of other clients do not count");
    assert_eq!(
        (&counted[0].id, counted[0].model_id.as_str(), &counted[0].input_data),
        (&created, DEFAULT_MODEL, &good_input())
    );
}

#[tokio::test]
async fn the_clock_of_the_service_can_be_ahead() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let before = service.add_task(DEFAULT_MODEL, json!({}));
    service.set_clock_ahead(400 * 86_400);
    let after = service.add_task(DEFAULT_MODEL, json!({}));
    let year =
        async |task: &str| caller.task(task).await["created_at"].as_str().expect("a time")[..4].to_owned();
    assert_ne!(year(&before).await, year(&after).await);
}
