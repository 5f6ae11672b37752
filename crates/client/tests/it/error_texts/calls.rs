//! Errors of calls: each operation with each status, other bodies, lost responses; and settings.

use std::time::Duration;

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{Method, Request, Response};
use inferstore::types::ModelListRequest;
use inferstore::{CallContext, Client, ClientBuilder, Error, File, FileQuery, Inputs, Retry};
use inferstore_testing::ScriptedService;

use super::{OPERATIONS, Report, failed, service};

const STATUSES: [u16; 11] = [400, 401, 402, 404, 408, 409, 422, 429, 500, 502, 503];

async fn error_of(client: &Client, operation: &str) -> Error {
    match operation {
        "getBalance" => failed(client.balance().await),
        "listModels" => failed(client.models_page(ModelListRequest::default()).await),
        "getModel" => failed(client.model("m").get().await),
        "getModelServing" => failed(client.model("m").serving().await),
        "getModelCost" => failed(client.model("m").cost().await),
        "getModelVersioning" => failed(client.model("m").versioning().await),
        "createTask" => failed(
            client
                .model("m")
                .run(Inputs::new().set("prompt", "a lake"))
                .options(|options| options.skip_validation = true)
                .start()
                .await,
        ),
        "getTask" => failed(client.task("task-1").get().await),
        "cancelTask" => failed(client.task("task-1").cancel().await),
        "listTasks" => failed(client.tasks().page(10, 0).await),
        "createPresignedUpload" => {
            failed(client.folder("samples").upload(File::bytes("a.png", "pixels")).await)
        }
        "listFiles" => failed(client.folder("samples").page(FileQuery::default(), 1).await),
        "deleteFile" => failed(client.delete_file("https://host.example/a.png").await),
        "getStorageStatistics" => failed(client.storage_statistics().await),
        "unknown" => failed(client.request(Method::GET, "/nothing", None).await),
        other => panic!("there is no operation {other}"),
    }
}

fn once(service: &ScriptedService) -> ClientBuilder {
    service.client_builder().settings(|settings| settings.retry = Retry::none())
}

#[tokio::test(start_paused = true)]
async fn statuses() {
    let mut report = Report::default();
    for status in STATUSES {
        let service = service();
        let client = once(&service).build().unwrap();
        for operation in OPERATIONS.into_iter().chain(["unknown"]) {
            service.responds(
                operation,
                status,
                r#"{"status": "fail", "message": "the reason", "data": null}"#,
            );
            report.add_of(operation, &error_of(&client, operation).await);
        }
    }
    insta::assert_snapshot!(report.render());
}

#[tokio::test(start_paused = true)]
async fn creates_with_a_key() {
    let mut report = Report::default();
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    // A lost create is not sent again without time for that.
    let client = once(&service).settings(|settings| settings.create_settle_time = Duration::ZERO);
    let client = client.build().unwrap();
    client.balance().await.unwrap();
    for status in STATUSES {
        let body = r#"{"status": "fail", "message": "the reason", "data": null}"#;
        service.responds("createTask", status, body);
        report.add(status.to_string(), &error_of(&client, "createTask").await);
    }
    let prepared = client.model("m").prepare(Inputs::new()).await.unwrap();
    service.responds("createTask", 502, "<html>");
    report.add("a prepared run", &failed(client.adopt_or_start(prepared).await));
    insta::assert_snapshot!(report.render());
}

/// One operation of each safety: a read, a create, a cancel, and one that the document does not list.
const OF_EACH_SAFETY: [&str; 4] = ["getBalance", "createTask", "cancelTask", "unknown"];

#[tokio::test(start_paused = true)]
async fn bodies() {
    let mut report = Report::default();
    for (title, status, body) in [
        ("a page in place of a failure", 502, "<html>\n<h1>Bad Gateway</h1></html>"),
        (
            "the page of a proxy",
            502,
            "<!DOCTYPE html>\r\n<head><TITLE>502 Bad Gateway</TITLE></head>\r\n<center>nginx</center>",
        ),
        ("XML in place of a failure", 404, "<?xml version=\"1.0\"?><Error/>"),
        ("a failure without a body", 400, ""),
        ("no key, without a body", 401, ""),
        ("a page in place of a success", 200, "<html>Welcome</html>"),
        ("a success of another shape", 200, r#"{"status": "success", "data": 7}"#),
        (
            "a failure with a successful status",
            200,
            r#"{"status": "fail", "message": "the reason", "data": null}"#,
        ),
        (
            "a failure with a successful status and no data",
            200,
            r#"{"status": "fail", "message": "the reason"}"#,
        ),
    ] {
        let service = service();
        let client = once(&service).build().unwrap();
        for operation in OF_EACH_SAFETY {
            // Any data is a valid response of a cancel, and any JSON one of an unlisted request.
            let takes_any = ["cancelTask", "unknown"].contains(&operation);
            if takes_any && body.contains("success")
                || operation == "unknown" && status == 200 && !body.starts_with('<')
            {
                continue;
            }
            service.responds(operation, status, body);
            report.add(format!("{title}: {operation}"), &error_of(&client, operation).await);
        }
    }
    insta::assert_snapshot!(report.render());
}

struct Silence;

impl Middleware for Silence {
    fn handle<'a>(
        &'a self,
        request: Request,
        next: Next<'a>,
    ) -> BoxFuture<'a, inferstore::reqwest::Result<Response>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(365 * 86_400)).await;
            next.run(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn responses() {
    let mut report = Report::default();
    for operation in OF_EACH_SAFETY {
        let service = service();
        service.client().unwrap().model("m").run(Inputs::new()).start().await.unwrap();
        service.client().unwrap().model("m").run(Inputs::new()).start().await.unwrap();
        if operation == "createTask" {
            // Neither the create nor the history gets a response.
            for _ in 0..20 {
                service.loses_response("listTasks");
            }
        }
        service.loses_response(operation);
        report
            .add(format!("lost: {operation}"), &error_of(&once(&service).build().unwrap(), operation).await);
    }
    let service = service();
    for _ in 0..10 {
        service.loses_response("getBalance").responds("getModel", 503, "");
    }
    let client = service.client().unwrap();
    for operation in ["getBalance", "getModel"] {
        report.add(format!("retried: {operation}"), &error_of(&client, operation).await);
    }
    let mut retry = Retry::default();
    retry.budget = 0;
    let client = service.client_builder().settings(|settings| settings.retry = retry).build().unwrap();
    report.add("no retry budget: getBalance", &error_of(&client, "getBalance").await);
    let client = once(&service).middleware(Silence).build().unwrap();
    report.add("never complete: getBalance", &error_of(&client, "getBalance").await);
    let large = format!(r#"{{"status": "success", "data": {{"balance": "{}"}}}}"#, "1".repeat(2_000));
    service.responds("getTask", 200, large);
    let client = once(&service).settings(|settings| settings.max_response_size = 1_000).build().unwrap();
    report.add("too large: getTask", &error_of(&client, "getTask").await);
    for (status, is_retry_safe) in [(None, true), (None, false), (Some(429), true), (Some(429), false)] {
        let mut context = CallContext::new("listFiles", status);
        context.is_retry_safe = is_retry_safe;
        let error = if status.is_some() { Error::Api } else { Error::Transport };
        report.add("made by hand", &error(Box::new(context)));
    }
    insta::assert_snapshot!(report.render());
}

#[tokio::test(start_paused = true)]
async fn settings() {
    let mut report = Report::default();
    for (title, base_url, key) in [
        ("no URL", "host", "key"),
        ("another scheme", "ftp://host/api/v1", "key"),
        ("plain http", "http://host.example/api/v1", "key"),
        ("a user", "https://me:secret@host.example/api/v1", "key"),
        ("a query", "https://host.example/api/v1?key=secret", "key"),
        ("no key", "https://host.example/api/v1", ""),
        ("a key of two lines", "https://host.example/api/v1", "a\nb"),
    ] {
        report.add(title, &failed(Client::new(base_url, key)));
    }
    let client = service().client().unwrap();
    let run = || client.model("m").run(Inputs::new().set("prompt", "a lake"));
    for (title, error) in [
        ("a model without a name", failed(client.model(" ").get().await)),
        ("a task that leaves the path", failed(client.task("..").get().await)),
        ("a reserved folder", failed(client.folder("statistics").page(FileQuery::default(), 1).await)),
        (
            "a folder without uploads",
            failed(client.folder("a/b").upload(File::bytes("a.png", "pixels")).await),
        ),
        ("a path without a slash", failed(client.request(Method::GET, "nothing", None).await)),
        ("a path out of the base URL", failed(client.request(Method::GET, "/../nothing", None).await)),
        ("a download without a scheme", failed(client.download("a.png").bytes().await)),
        ("a price that is no number", failed(run().max_cost("cheap").await)),
        (
            "a started run that deletes its inputs",
            failed(run().options(|options| options.delete_inputs_after = true).start().await),
        ),
        (
            "an outcome without a client",
            failed(
                inferstore::Outcome::new(
                    "task-1",
                    serde_json::json!({
                        "picture": "https://host.example/a.png"
                    }),
                )
                .download("picture")
                .map(drop),
            ),
        ),
        ("inputs that are no object", failed(Inputs::from_serialize(&7))),
    ] {
        report.add(title, &error);
    }
    insta::assert_snapshot!(report.render());
}
