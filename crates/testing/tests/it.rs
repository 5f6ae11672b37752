//! Test kit: the client sees the effects of each script.

#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Request, Response};
use inferstore::types::{MimeCategory, ModelListRequest, TaskStatus};
use inferstore::{
    Abandon, Client, Error, ErrorKind, File, FileQuery, Inputs, Outcome, Result, Retry, RunEvent,
    TaskDisposition, UploadEvent, ViolationKind,
};
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::time::Instant;

fn inputs() -> Inputs {
    Inputs::new().file("input_image", File::bytes("a.png", b"\x89PNG\r\n\x1a\n".to_vec()))
}

fn service() -> Result<(ScriptedService, Client)> {
    let service = ScriptedService::new();
    let client = service.client()?;
    Ok((service, client))
}

#[tokio::test(start_paused = true)]
async fn a_run_succeeds_with_the_scripted_output_cost_and_duration() -> Result<()> {
    let (service, client) = service()?;
    let output = json!({ "output_image": "https://host.example/o.png" });
    service
        .model("haze-removal")
        .succeeds(output.clone())
        .costs("0.01".parse()?)
        .takes(Duration::from_secs(90));
    let started = std::time::Instant::now();
    let outcome = client.model("haze-removal").run(inputs()).await?;
    let mut expected = Outcome::new("task-1", output);
    expected.cost = Some("0.01".parse()?);
    expected.duration = Some(Duration::from_secs(90));
    expected.stored_inputs = outcome.stored_inputs.clone();
    assert_eq!(outcome, expected);
    assert!(started.elapsed() < Duration::from_secs(30), "paused time takes no real time");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn creates_are_recorded_with_their_inputs_and_uploads_can_be_read_back() -> Result<()> {
    let (service, client) = service()?;
    service.model("a/model").succeeds(json!({}));
    client.model("a/model").run(inputs().set("angle", 30)).await?;
    let [created] = &service.created()[..] else { panic!("one task") };
    assert_eq!((created.model.as_str(), &created.inputs["angle"]), ("a/model", &json!(30)));
    let url = created.inputs["input_image"].as_str().unwrap_or_default();
    assert_eq!(service.content(url).as_deref(), Some(&b"\x89PNG\r\n\x1a\n"[..]));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn scripts_are_used_one_after_another_and_the_last_one_repeats() -> Result<()> {
    let (service, client) = service()?;
    service.model("m").fails("out of memory").succeeds(json!(1));
    let model = client.model("m");
    let failed = model.run(Inputs::new()).await;
    assert!(
        matches!(&failed, Err(Error::TaskFailed(failure)) if failure.message.as_deref() == Some("out of memory")),
        "{failed:?}"
    );
    for _ in 0..2 {
        assert_eq!(model.run(Inputs::new()).await?.output, 1);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_task_that_stays_queued_is_canceled_at_the_deadline() -> Result<()> {
    let (service, client) = service()?;
    service.model("m").stays_queued();
    let run =
        client.model("m").run(Inputs::new()).deadline(Duration::from_secs(600)).on_abandon(Abandon::Cancel);
    let started = Instant::now();
    let Err(Error::DeadlineReached(reached)) = run.await else { panic!("the task never ends") };
    assert_eq!(reached.disposition, TaskDisposition::Canceled);
    assert!(started.elapsed() <= Duration::from_secs(600));
    assert_eq!(client.task("task-1").get().await?.status, Some(TaskStatus::Canceled));
    let again = client.task("task-1").cancel().await;
    assert_eq!(again.err().and_then(|error| error.status()), Some(409));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_run_of_an_offline_model_is_refused_when_asked() -> Result<()> {
    let (service, client) = service()?;
    service.model("m").stays_queued().is_offline();
    let refused =
        client.model("m").run(Inputs::new()).options(|options| options.require_serving = true).await;
    assert!(matches!(refused, Err(Error::ModelOffline(model)) if model == "m"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_scripted_failure_of_a_call_is_the_error_of_the_run() -> Result<()> {
    let (service, client) = service()?;
    service.model("m").succeeds(json!(1));
    service.responds("createTask", 402, json!({ "status": "fail", "message": "no balance", "data": null }));
    let Err(error) = client.model("m").run(Inputs::new()).await else { panic!("the create is refused") };
    assert!(error.is_insufficient_balance(), "{error}");
    assert!(service.created().is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn passing_failures_are_retried() -> Result<()> {
    let (service, client) = service()?;
    service.model("m").succeeds(json!(1));
    service.responds("getModelVersioning", 503, "maintenance").loses_response("getTask");
    service.loses_response("upload").responds("upload", 500, "<Error/>");
    client.model("m").run(inputs()).await?;
    let count = |operation| service.requests().iter().filter(|request| **request == operation).count();
    assert_eq!((count("getModelVersioning"), count("upload"), count("createTask")), (2, 3, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_page_at_a_path_of_no_operation_is_read_once() -> Result<()> {
    let (service, client) = service()?;
    service.responds("unknown", 200, "<html>the web site</html>");
    let error = client.request(reqwest::Method::GET, "/docs", None).await.err();
    assert!(matches!(&error, Some(Error::Decode(context)) if context.attempts == 1), "{error:?}");
    let hint = error.as_ref().map(Error::hint);
    assert!(error.is_some_and(|error| !error.is_retryable()));
    assert_eq!((service.requests(), hint), (vec!["unknown"], Some("check the path")));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_response_was_lost_is_adopted() -> Result<()> {
    let (service, client) = service()?;
    service.model("m").succeeds(json!(1));
    service.loses_response("createTask");
    let outcome = client.model("m").run(inputs()).await?;
    assert_eq!((outcome.task.as_str(), service.created().len()), ("task-1", 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_prepared_run_becomes_one_task_in_two_processes() -> Result<(), Box<dyn std::error::Error>> {
    let service = ScriptedService::new().without_idempotency_keys();
    let client = service.client()?;
    service.model("m").succeeds(json!(1));
    let prepared = client.model("m").prepare(inputs()).await?;
    let journal = serde_json::to_string(&prepared)?;
    service.loses_response("createTask").responds("listTasks", 404, "").responds("listTasks", 404, "");
    service.responds("listTasks", 404, "");
    assert!(matches!(client.adopt_or_start(prepared).await, Err(Error::OutcomeUnknown(_))));
    let restarted = service.client()?;
    let task = restarted.adopt_or_start(serde_json::from_str(&journal)?).await?;
    assert_eq!((task.id().as_str(), service.created().len()), ("task-1", 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn declared_inputs_are_checked_before_anything_is_created() -> Result<()> {
    let (service, client) = service()?;
    service.model("m").declares(json!({
        "angle": { "type": "int", "required": true, "num_config": { "min": 1, "max": 90 } },
    }));
    let Err(Error::Inputs(invalid)) = client.model("m").run(Inputs::new().set("angle", 91)).await else {
        panic!("91 is above 90")
    };
    assert!(invalid.has(ViolationKind::OutOfRange), "{invalid}");
    assert_eq!(service.requests(), ["getModelVersioning"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn events_of_a_run_can_be_compared_with_events_that_a_test_makes() -> Result<()> {
    let (service, client) = service()?;
    service.model("m").succeeds(json!(1));
    let mut events = client.model("m").run(inputs()).events();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event);
    }
    let expected = [
        RunEvent::Upload { field: "input_image".to_owned(), event: UploadEvent::Started { size: 8 } },
        RunEvent::Upload {
            field: "input_image".to_owned(),
            event: UploadEvent::Progress { sent: 8, size: 8 },
        },
        RunEvent::Creating,
        RunEvent::Created("task-1".into()),
        RunEvent::Status(TaskStatus::InQueue),
        RunEvent::Status(TaskStatus::Computing),
        RunEvent::Status(TaskStatus::Success),
    ];
    assert_eq!(seen, expected);
    assert_eq!(events.finish().await?.output, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn stored_outputs_are_downloaded_listed_counted_and_deleted() -> Result<()> {
    let (service, client) = service()?;
    let url = service.stores("a picture.png", "image/png", b"pixels".to_vec());
    for (name, content) in
        [("a picture.png", "second"), ("a_picture.png", "third"), ("ä picture.png", "fourth")]
    {
        let other = service.stores(name, "image/png", content);
        assert_eq!(client.download(&other).bytes().await?, content.as_bytes());
        client.delete_file(&other).await?;
    }
    assert_eq!(client.download(&url).bytes().await?, b"pixels"[..]);
    let files = client.folder("outputs").list(FileQuery::default()).try_collect().await?;
    assert_eq!(files.iter().map(|file| file.size).collect::<Vec<_>>(), [Some(6)]);
    assert_eq!(client.storage_statistics().await?.total_files, Some(1));
    client.delete_file(&url).await?;
    assert!(client.delete_file(&url).await.is_err_and(|error| error.is_not_found()));
    assert!(matches!(client.download(&url).bytes().await, Err(Error::File(_))));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn outputs_are_saved_into_a_folder_that_does_not_exist_yet() -> Result<(), Box<dyn std::error::Error>> {
    let (service, client) = service()?;
    let url = service.stores("o.png", "image/png", b"pixels".to_vec());
    service.model("m").succeeds(json!({ "output_image": url }));
    let folder = tempfile::tempdir()?;
    let outcome = client.model("m").run(Inputs::new()).await?;
    let paths = tokio::spawn(outcome.save_all(folder.path().join("new/outputs")).into_future()).await??;
    assert_eq!(paths, [folder.path().join("new/outputs/output_image.png")]);
    assert_eq!(std::fs::read(&paths[0])?, b"pixels");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_saved_output_takes_no_long_or_odd_extension_from_its_url() -> Result<(), Box<dyn std::error::Error>>
{
    let (service, client) = service()?;
    for (name, saved) in [("o.xyz", "o.xyz"), ("o.interminable", "o"), ("o.x-y", "o")] {
        let url = service.stores(name, "application/octet-stream", b"bytes".to_vec());
        service.model("m").succeeds(json!({ "o": url }));
        let folder = tempfile::tempdir()?;
        let outcome = client.model("m").run(Inputs::new()).await?;
        assert_eq!(outcome.save_all(folder.path()).await?, [folder.path().join(saved)]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn lists_the_balance_and_records_are_answered_and_the_unknown_is_a_404() -> Result<()> {
    let (service, client) = service()?;
    service.model("m").succeeds(json!(1));
    service.model("n").costs("0.5".parse()?);
    let listed = client.models(ModelListRequest { limit: Some(1), ..Default::default() });
    let ids: Vec<_> = listed.try_collect().await?.into_iter().map(|model| model.id.to_string()).collect();
    assert_eq!(ids, ["m", "n"]);
    assert_eq!(client.model("n").get().await?.price, Some("0.5".parse()?));
    assert_eq!(client.model("n").cost().await?.cost, Some("0.5".parse()?));
    assert_eq!(client.balance().await?.balance, Some("100".parse()?));
    client.model("m").run(Inputs::new()).start().await?;
    assert_eq!(client.tasks().list().try_collect().await?.len(), 1);
    assert!(client.model("none").run(Inputs::new()).await.is_err_and(|error| error.is_not_found()));
    assert!(client.task("none").wait().await.is_err_and(|error| error.is_not_found()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_of_the_service_can_have_other_settings() -> Result<()> {
    let service = ScriptedService::new();
    let client = service.client_builder().settings(|settings| settings.retry = Retry::none()).build()?;
    service.loses_response("getBalance");
    let Err(error) = client.balance().await else { panic!("it is not retried") };
    assert!(matches!(error, Error::Transport(_)) && error.is_retryable(), "{error:?}");
    Ok(())
}

struct Slow(&'static str);

impl Middleware for Slow {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            let is_slow = request.url().path().ends_with(self.0);
            let response = next.run(request).await;
            if is_slow {
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
            response
        })
    }
}

#[tokio::test(start_paused = true)]
async fn middleware_of_the_client_sees_the_requests_and_the_responses() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").stays_queued();
    let client = service.client_builder().middleware(Slow("/task")).build()?;
    let run = client.model("m").run(inputs()).on_abandon(Abandon::Cancel);
    assert!(tokio::time::timeout(Duration::from_secs(10), run).await.is_err(), "the create is slow");
    let status = async || -> Result<_> { Ok(client.task("task-1").get().await?.status) };
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(status().await?, Some(TaskStatus::InQueue), "the create has no response yet");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(status().await?, Some(TaskStatus::Canceled), "the create finished in the background");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn reading_the_etag_of_a_stored_file_leaves_its_content() -> Result<()> {
    let (service, client) = service()?;
    let url = service.stores("clear.png", "image/png", b"clear".to_vec());
    let etag = client.download(&*url).etag().await?;
    assert!(etag.is_some() && etag == client.download(&*url).etag().await?);
    assert_eq!(service.content(&url).as_deref(), Some(&b"clear"[..]));
    let missing = client.download(url.replace("clear", "missing")).bytes().await;
    assert!(missing.is_err_and(|error| error.is_not_found()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_file_of_the_same_name_is_replaced_found_or_kept_as_the_upload_says() -> Result<()> {
    let (service, client) = service()?;
    let upload = |content: &'static str| client.folder("samples").upload(File::bytes("a.txt", content));
    let first = upload("hello").overwrite(false).await?;
    assert_eq!(upload("hello").overwrite(false).await?.download_url, first.download_url);
    let kept = upload("world").overwrite(false).await;
    assert!(kept.is_err_and(|error| error.kind() == ErrorKind::LocalFile));
    assert_eq!(service.content(&first.download_url).as_deref(), Some(&b"hello"[..]));
    upload("world").await?;
    assert_eq!(service.content(&first.download_url).as_deref(), Some(&b"world"[..]));
    service.model("m").succeeds(json!({}));
    for _ in 0..2 {
        let run = client.model("m").run(Inputs::new().file("input", File::bytes("b.txt", "hello")));
        run.options(|options| options.reuse_uploads = true).await?;
    }
    let uploads = service.requests().into_iter().filter(|operation| *operation == "upload");
    assert_eq!(uploads.count(), 3, "the second run has reused the upload of the first");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn lists_are_paged_filtered_and_searched() -> Result<()> {
    let (service, client) = service()?;
    for name in ["a.txt", "b.txt", "c.png"] {
        client.folder("samples").upload(File::bytes(name, "content")).await?;
    }
    let mut query = FileQuery::default();
    query.page_size = Some(2);
    let folder = client.folder("samples");
    let sizes = [1, 2, 3].map(|page| folder.page(query.clone(), page));
    let [one, two, three] = sizes;
    assert_eq!([one.await?.records.len(), two.await?.records.len(), three.await?.records.len()], [2, 1, 0]);
    let images = folder.list(FileQuery::category(MimeCategory::Image)).try_collect().await?;
    assert_eq!(images.len(), 1);
    service.model("haze-removal");
    service.model("face-mesh");
    let query = ModelListRequest { search: Some("HAZE".to_owned()), ..Default::default() };
    assert_eq!(client.models(query).try_collect().await?.len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn costs_are_numbers_as_those_of_the_service() -> Result<()> {
    let (service, client) = service()?;
    service.model("m").succeeds(json!({})).costs("0.01".parse()?);
    service.model("free").succeeds(json!({}));
    let outcome = client.model("m").run(Inputs::new()).await?;
    assert_eq!(serde_json::to_value(&outcome).unwrap_or_default()["cost"], json!(0.01));
    let cost = client.model("free").run(Inputs::new()).await?.cost;
    assert_eq!(cost.map(|cost| cost.to_string()).as_deref(), Some("0"));
    Ok(())
}
