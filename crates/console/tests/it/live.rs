//! Live progress: low latency, and a hundred concurrent runs.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use inferstore_api::operations;
use inferstore_service::{Fault, Script};
use inferstore_wire::until;
use reqwest::Method;
use serde_json::Value;

use crate::support::{FormBody, Site, Visitor, picture};

async fn changes(visitor: &Visitor, path: &str) -> Vec<Value> {
    let response = visitor.request(Method::GET, path).send().await.expect("a stream");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.bytes_stream();
    let mut text = String::new();
    let mut changes = Vec::new();
    while let Some(chunk) = stream.next().await {
        text.push_str(&String::from_utf8_lossy(&chunk.expect("a chunk")));
        while let Some((event, rest)) = text.clone().split_once("\n\n") {
            rest.clone_into(&mut text);
            let Some(data) = event.strip_prefix("data: ") else { continue };
            let change: Value = serde_json::from_str(data).expect("a change is JSON");
            let is_over = change["over"] == true;
            changes.push(change);
            if is_over {
                return changes;
            }
        }
    }
    changes
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_shows_each_status_of_a_run_in_order() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    controls
        .let_model("color-extraction", Script::fail("no").after(Duration::from_secs(1)))
        .await
        .expect("a script");
    let visitor = site.open().await;
    let run = visitor.run("color-extraction", FormBody::new().file("in.input", "a.png", &picture())).await;
    let begun = Instant::now();
    let changes = changes(&visitor, &format!("/runs/events?run={}", run.trim_start_matches("/runs/"))).await;
    let all: Vec<_> = changes.iter().map(|change| change["html"].as_str().unwrap_or_default()).collect();
    let computing = all.iter().position(|html| html.contains("Computing")).expect("it computes");
    let failed = all.iter().position(|html| html.contains("The task failed")).expect("it fails");
    assert!(computing < failed && failed == all.len() - 1, "{all:?}");
    // The page shows the duration at the last change, rounded to 0.1 s.
    let clock = |html: &str| html.split("</span> ").nth(1)?.split(" s").next()?.parse::<f64>().ok();
    let late = begun.elapsed().as_secs_f64() - clock(all[failed]).expect("a time");
    assert!(late < 10.0, "the end is shown {late} s late");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_streams_side_by_side_end_with_their_runs() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    controls.let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    let visitor = site.open().await;
    let mut runs = Vec::new();
    for _ in 0..100 {
        runs.push(
            visitor.run("color-extraction", FormBody::new().file("in.input", "a.png", &picture())).await,
        );
    }
    let all = visitor.get("/runs").await;
    assert_eq!(all.body.matches("data-run=").count(), 100);
    let streams = join_all(runs.iter().map(|run| {
        let path = format!("/runs/events?run={}", run.trim_start_matches("/runs/"));
        let visitor = &visitor;
        async move { changes(visitor, &path).await }
    }));
    let end = async {
        until("all tasks are queued", async || controls.tasks().await.expect("a count")["in_queue"] == 100)
            .await;
        controls.clear_script("color-extraction").await.expect("a script");
    };
    let (streams, ()) = tokio::join!(streams, end);
    for (run, changes) in runs.iter().zip(streams) {
        let last = &changes.last().expect("changes");
        assert_eq!(last["over"], true, "{run}");
        assert!(last["html"].as_str().unwrap_or_default().contains("Success"), "{run}: {last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_runs_side_by_side_add_no_call_to_a_page() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    let visitor = site.open().await;
    let run =
        async || visitor.run("color-extraction", FormBody::new().file("in.input", "a.png", &picture())).await;
    visitor.result(&run().await).await;
    // The runs themselves read their tasks.
    let calls = async |path| {
        visitor.get(path).await;
        controls.clear_journal();
        visitor.get(path).await;
        let is_other = |operation: &_| *operation != Some(operations::GET_TASK.into());
        controls.journal().iter().map(|entry| entry.operation).filter(is_other).count()
    };
    let idle = [calls("/").await, calls("/runs").await];
    // The list of models, and whether each is served; the models of the filter, the size of the history, and its end.
    assert_eq!(idle, [16, 3]);
    controls.let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    for _ in 0..50 {
        run().await;
    }
    until("all tasks are queued", async || controls.tasks().await.expect("a count")["in_queue"] == 50).await;
    assert_eq!([calls("/").await, calls("/runs").await], idle);
}

#[tokio::test]
async fn a_run_of_a_stored_file_has_a_thumbnail_while_it_lasts() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    controls.let_model("haze-removal", Script::stay_queued()).await.expect("a script");
    let stored = site.client.folder("samples").upload(inferstore::File::bytes("a.png", picture())).await;
    let url = stored.expect("an upload").download_url;
    let visitor = site.open().await;
    visitor.get("/runs").await;
    visitor.run("haze-removal", FormBody::new().text("url.input_image", &url)).await;
    visitor.get("/runs").await.says("data-run=").says("<img src=\"/view/");
}

#[tokio::test]
async fn a_queued_task_is_canceled_and_one_of_elsewhere_is_watched() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    controls.let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    let visitor = site.open().await;
    let inputs = inferstore::Inputs::new().set("input", "https://files.example/a.png");
    let task = site.client.model("color-extraction").run(inputs).start().await.expect("a task");
    let page = format!("/tasks/{}", task.id().as_str());
    let watched = visitor.get(&page).await;
    let run = watched.header("location").to_owned();
    assert!(run.starts_with("/runs/"), "{run}");
    assert_eq!(visitor.get(&page).await.header("location"), run, "a task is watched once");
    until("the task can be canceled", async || visitor.get(&run).await.body.contains("/cancel\"")).await;
    visitor.get(&run).await.says("/cancel\"").says("Color extraction");
    let canceled = visitor.post(&format!("{page}/cancel"), FormBody::new()).await;
    assert_eq!(canceled.header("location"), run);
    visitor.result(&run).await.says("The task was canceled").says("not billed");
    visitor.post(&format!("{page}/cancel"), FormBody::new()).await;
    visitor.result(&run).await.says("The task was canceled");
}

#[tokio::test]
async fn a_cancel_whose_response_is_lost_is_not_called_without_effect() {
    let site = Site::start().await;
    let controls = site.service.controls().expect("controls");
    controls.let_model("color-extraction", Script::stay_queued()).await.expect("a script");
    let visitor = site.open().await;
    let run = visitor.run("color-extraction", FormBody::new().file("in.input", "a.png", &picture())).await;
    until("the task can be canceled", async || visitor.get(&run).await.body.contains("/cancel\"")).await;
    let task = site.client.tasks().page(1, 0).await.expect("a page").records.remove(0).task_id;
    let cancel = format!("/tasks/{}/cancel", task.as_str());
    for (status, outcome) in
        [(500, "Whether the task is canceled is unknown: "), (400, "The cancel had no effect: ")]
    {
        controls.add_fault(Fault::status(status).on(operations::CANCEL_TASK)).expect("a fault");
        visitor.post(&cancel, FormBody::new()).await;
        visitor.get(&run).await.says(outcome);
        controls.clear_faults();
    }
}
