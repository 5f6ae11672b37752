//! Predicates of errors, and `Debug` of handles.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use inferstore::{CallContext, Error, ErrorKind, File, FileError, FileErrorKind, Resource};
use inferstore_testing::ScriptedService;

fn refused(operation: &'static str, status: u16, message: Option<&str>) -> Error {
    let mut context = CallContext::new(operation, Some(status));
    context.message = message.map(str::to_owned);
    Error::Api(Box::new(context))
}

#[test]
fn a_create_is_refused_for_good_by_a_4xx_that_no_retry_changes() {
    for status in [400, 402, 404, 409, 422, 499] {
        assert!(refused("createTask", status, None).is_refused_create(), "{status}");
        assert!(!refused("getTask", status, None).is_refused_create(), "{status}");
    }
    for status in [200, 408, 429, 500, 503] {
        assert!(!refused("createTask", status, None).is_refused_create(), "{status}");
    }
    assert!(Error::Api(Box::new(CallContext::new("createTask", Some(401)))).is_refused_create());
    assert!(Error::CostLimitExceeded(Box::default()).is_refused_create());
    assert!(Error::ModelOffline("m".into()).is_refused_create());
    assert!(!Error::OutcomeUnknown(Box::default()).is_refused_create());
}

#[test]
fn a_task_is_gone_by_the_word_of_the_service_not_of_a_gateway() {
    assert!(refused("getTask", 404, Some("no such task")).is_gone());
    assert!(!refused("getTask", 404, None).is_gone());
    assert!(!refused("getModel", 404, Some("no such model")).is_gone());
    assert!(!refused("getTask", 410, Some("no such task")).is_gone());
}

#[test]
fn a_call_names_the_kind_of_thing_that_it_is_about() {
    for (operation, resource) in [
        ("getBalance", Some(Resource::Account)),
        ("getModelCost", Some(Resource::Model)),
        ("createTask", Some(Resource::Model)),
        ("cancelTask", Some(Resource::Task)),
        ("listTasks", Some(Resource::Task)),
        ("createPresignedUpload", Some(Resource::File)),
        ("deleteFile", Some(Resource::File)),
        ("the request", None),
    ] {
        assert_eq!(CallContext::new(operation, None).resource(), resource, "{operation}");
    }
}

#[test]
fn the_causes_of_an_error_follow_it_in_one_line_once_each() {
    let error = |message: &str| {
        let error = FileError::new("a.png", FileErrorKind::Rejected, message);
        Error::from(error.with_source("too late"))
    };
    assert_eq!(error("it is rejected").with_causes(), "a.png: it is rejected: too late");
    assert_eq!(error("it is too late").with_causes(), "a.png: it is too late");
    assert_eq!(error("it is rejected").kind(), ErrorKind::StorageRejected);
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
        ("Upload", format!("{:?}", client.folder("samples").upload(File::bytes("a.png", "pixels")))),
    ] {
        assert!(
            shown.contains(name) && !shown.contains("SECRET") && !shown.contains("host.example"),
            "{shown}"
        );
    }
}
