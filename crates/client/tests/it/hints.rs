//! What an error advises, and what a handle shows of itself.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use inferstore::testing::ScriptedService;
use inferstore::{
    CallContext, DeadlineReached, Error, File, FileError, FileErrorKind, ModelOffline, UnknownOutcome,
};

#[test]
fn the_hint_says_whether_the_same_call_helps_and_what_else_does() {
    let context = |operation, is_retry_safe| {
        let mut context = CallContext::new(operation, None);
        context.is_retry_safe = is_retry_safe;
        Box::new(context)
    };
    let unknown = |history_was_read, candidates: &[&str]| {
        let mut unknown = UnknownOutcome::default();
        unknown.history_was_read = history_was_read;
        unknown.candidates = candidates.iter().map(|task| (*task).into()).collect();
        Error::OutcomeUnknown(Box::new(unknown))
    };
    let mut queued = ModelOffline::new("m");
    queued.task = Some("task-1".into());
    for (error, hint) in [
        (Error::Transport(context("getTask", true)), "check the network and the base URL, then try again"),
        (
            Error::Transport(context("deleteFile", false)),
            "check whether the call had its effect before sending it again",
        ),
        (
            Error::Decode(context("getTask", true)),
            "check that the base URL leads to the service and ends in its versioned root",
        ),
        (unknown(true, &[]), "read the task history once more in a moment, then create it again"),
        (unknown(false, &[]), "look at the candidates and the task history before creating it again"),
        (unknown(true, &["task-1"]), "look at the candidates and the task history before creating it again"),
        (
            Error::ModelOffline(Box::new(ModelOffline::new("m"))),
            "try again later, or run without require_serving; no task was created",
        ),
        (
            Error::ModelOffline(Box::new(queued)),
            "cancel the task, or wait for it until a node serves the model",
        ),
        (FileError::new("a", FileErrorKind::Empty, "it is empty").into(), "give a file with content"),
        (
            FileError::new("a", FileErrorKind::Transport, "it is lost").into(),
            "check the network and try again",
        ),
    ] {
        assert_eq!(error.hint(), hint, "{error:?}");
        assert!(!error.is_timeout(), "{error:?}");
    }
    assert!(Error::DeadlineReached(Box::<DeadlineReached>::default()).is_timeout());
}

#[tokio::test]
async fn a_page_under_a_path_that_no_operation_has_advises_to_check_the_path() {
    let service = ScriptedService::new();
    service.responds("unknown", 200, "<p>Welcome</p>");
    let request = service.client().unwrap().request(inferstore::reqwest::Method::GET, "/nothing", None);
    let error = request.await.unwrap_err();
    assert!(matches!(error, Error::Decode(_)), "{error:?}");
    assert_eq!(error.hint(), "check the path");
}

#[tokio::test]
async fn a_transfer_or_wait_that_is_printed_names_its_type_and_shows_no_url() {
    let client = ScriptedService::new().client().unwrap();
    let download = || client.download("https://host.example/a.png?X-Amz-Signature=SECRET");
    for (name, shown) in [
        ("Download", format!("{:?}", download())),
        ("Events", format!("{:?}", download().to_file("a.png"))),
        ("Items", format!("{:?}", download().stream())),
        ("WaitAll", format!("{:?}", client.tasks().wait_all(["task-1"]))),
        ("not started", format!("{:?}", client.folder("samples").upload(File::bytes("a.png", "pixels")))),
    ] {
        assert!(
            shown.contains(name) && !shown.contains("SECRET") && !shown.contains("host.example"),
            "{shown}"
        );
    }
}
