//! Values made by hand in tests, and their formatting.

use std::time::Duration;

use inferstore::reqwest::Method;
use inferstore::types::{TaskDetail, TaskStatus};
use inferstore::{
    CallContext, CostLimit, DeadlineReached, Decimal, DownloadEvent, DownloadedFile, Error, File, FileError,
    FileErrorKind, HistoryRead, Inputs, InvalidInputs, Outcome, OutputMismatch, Page, Result, RunEvent,
    TaskDisposition, TaskFailure, UnknownOutcome, UploadEvent, UploadedFile, Violation, ViolationKind,
};
use inferstore_testing::ScriptedService;
use serde_json::json;

#[test]
fn every_error_event_and_result_can_be_made_by_hand() -> Result<(), Box<dyn std::error::Error>> {
    let mut refused = CallContext::new("getTask", Some(503));
    refused.message = Some("maintenance".to_owned());
    refused.retry_after = Some(Duration::from_secs(7));
    refused.is_retry_safe = true;
    let refused = Error::Api(Box::new(refused));
    assert!(refused.is_retryable() && refused.retry_after() == Some(Duration::from_secs(7)));

    let violation = Violation::new("angle", ViolationKind::OutOfRange, "angle: at most 90");
    let mut late = DeadlineReached::default();
    late.disposition = TaskDisposition::StillRunning;
    let mut unknown = UnknownOutcome::default();
    unknown.candidates = vec!["task-1".into()];
    let errors = [
        Error::Config("no key".to_owned()),
        Error::InvalidArgument("no path".to_owned()),
        Error::Inputs(InvalidInputs::new(vec![violation], vec!["angle".to_owned()])),
        FileError::new("a.png", FileErrorKind::Empty, "it is empty").into(),
        refused,
        Error::Transport(Box::default()),
        Error::Decode(Box::default()),
        Error::OutcomeUnknown(Box::new(unknown)),
        Error::CostLimitExceeded(Box::<CostLimit>::default()),
        Error::ModelOffline("m".into()),
        Error::TaskFailed(Box::new(TaskFailure::new("task-1", "out of memory"))),
        Error::TaskCanceled("task-1".into()),
        Error::DeadlineReached(Box::new(late)),
        Error::OutputType(Box::new(OutputMismatch::new("task-1", json!(1), "no object"))),
    ];
    for error in errors {
        assert!(!error.to_string().contains('\n') && !error.hint().is_empty(), "{error}");
    }

    let events = [
        RunEvent::Upload { field: "input".to_owned(), event: UploadEvent::Started { size: 1 } },
        RunEvent::Upload {
            field: "input".to_owned(),
            event: UploadEvent::Retrying { problem: "lost".to_owned() },
        },
        RunEvent::Creating,
        RunEvent::Created("task-1".into()),
        RunEvent::Status(TaskStatus::InQueue),
        RunEvent::ReadFailed("lost".to_owned()),
    ];
    assert_eq!(events.clone(), events);
    let progress = DownloadEvent::Progress { received: 1, total: None };
    assert_eq!(progress.clone(), progress);

    let outcome = Outcome::new("task-1", json!({ "output": "https://host.example/a.png" }));
    let journal = serde_json::to_string(&outcome)?;
    assert_eq!(serde_json::from_str::<Outcome>(&journal)?, outcome);
    for change in [
        |outcome: &mut Outcome| outcome.task = "task-2".into(),
        |outcome: &mut Outcome| outcome.output = json!({}),
        |outcome: &mut Outcome| outcome.cost = Some(Decimal::default()),
        |outcome: &mut Outcome| outcome.duration = Some(Duration::ZERO),
        |outcome: &mut Outcome| outcome.stored_inputs = vec!["https://host.example/b.png".to_owned()],
    ] {
        let mut other = outcome.clone();
        change(&mut other);
        assert_ne!(other, outcome);
    }
    assert_eq!(UploadedFile::default().size, 0);
    assert_eq!(DownloadedFile::default().mime, None);
    assert_eq!(Page::new(Some(vec![1]), Some(1)).total, Some(1));
    let detail: TaskDetail = serde_json::from_value(json!({ "task_id": "task-1", "status": "success" }))?;
    assert_eq!(detail.status, Some(TaskStatus::Success));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_hint_of_a_request_to_an_unknown_path_is_about_the_path() -> Result<()> {
    let service = ScriptedService::new();
    let client = service.client()?;
    service.responds("getModel", 404, "");
    let error = |result: Result<_>| result.map_or_else(|error: Error| error.hint(), |()| "it worked");
    assert_eq!(error(client.model("m").get().await.map(drop)), "check the identifier");
    let request = client.request(Method::GET, "/api-key/nothing", None).await;
    assert_eq!(error(request.map(drop)), "check the path");
    Ok(())
}

#[test]
fn the_refusal_of_a_key_states_its_reason_once() {
    let mut context = CallContext::new("getBalance", Some(401));
    let without_message = "getBalance failed with 401: the API key is missing or wrong";
    assert_eq!(Error::Api(Box::new(CallContext::new("getBalance", Some(401)))).to_string(), without_message);
    context.message = Some("the API key has expired".to_owned());
    let error = Error::Api(Box::new(context));
    assert_eq!(error.to_string(), "getBalance failed with 401: the API key has expired");
}

#[test]
fn a_run_that_is_printed_shows_its_model_and_options_and_no_input() -> Result<()> {
    let client = ScriptedService::new().client()?;
    let inputs =
        Inputs::new().set("prompt", "a secret hill").file("input", File::bytes("secret.png", "pixels"));
    let run = client.model("landscape").run(inputs).deadline(Duration::from_secs(77)).max_cost("0.25");
    let shown = format!("{run:?}");
    for part in ["landscape", "deadline: Some(77s)", "0.25"] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
    assert!(!shown.contains("secret") && !shown.contains("prompt"), "{shown}");
    Ok(())
}

#[test]
fn a_failure_of_the_service_is_tried_again_or_its_effect_is_checked() {
    let hint = |is_retry_safe| {
        let mut context = CallContext::new("deleteFile", Some(500));
        context.is_retry_safe = is_retry_safe;
        Error::Api(Box::new(context)).hint()
    };
    assert_eq!(hint(true), "try again later");
    assert_eq!(hint(false), "check whether the call had its effect before sending it again");
}

#[test]
fn a_lost_create_says_what_the_history_shows() {
    let mut unknown = UnknownOutcome::default();
    unknown.context = CallContext::new("createTask", None);
    assert!(unknown.to_string().ends_with("the service has not confirmed its idempotency key"), "{unknown}");
    unknown.history = HistoryRead::Unreadable;
    assert!(unknown.to_string().ends_with("the task history could not be read"), "{unknown}");
    unknown.history = HistoryRead::Complete;
    assert!(unknown.to_string().ends_with("the task history shows no matching task"), "{unknown}");
    unknown.candidates = vec!["task-1".into(), "task-2".into()];
    let expected = "createTask got no usable response; whether a task was created is unknown: it may be task-1 or task-2";
    assert_eq!(unknown.to_string(), expected);
}
