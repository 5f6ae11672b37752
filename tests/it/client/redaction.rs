//! Redaction: no error shows a secret of a response, or control characters for a terminal.

use std::error::Error as _;

use inferstore::reqwest::Method;
use inferstore::{Client, Error, File, Retry, RunEvent};
use inferstore_api::operations;
use inferstore_service::Fault;
use serde_json::{Value, json};

use super::on_the_service::{start, without_keys};
use super::{IMAGE, Quickly, built, inputs, quick};
use crate::support::scripted::{MODEL, Reply, Scripted};
use inferstore_wire::{Server, response};

const KEY: &str = "planted-api-key-8d1f";
const SIGNATURE: &str = "planted-signature-27c0";

fn foreign() -> String {
    format!(
        "\u{1b}]0;owned\u{7}\u{1b}[2Jbad key {KEY}\r\n\tsee https://b.example/k?X-Amz-Credential={SIGNATURE}&\
         X-Amz-Signature={SIGNATURE}&x=1 \u{202e}policy={SIGNATURE}\u{9b}31m\u{2028}\0"
    )
}

fn bodies() -> Vec<String> {
    let text = foreign();
    [
        json!({"status": "fail", "message": text}),
        json!({"status": "fail", "message": text, "data": {}}),
        json!({"status": "fail", "message": text, "data": null}),
        json!({"status": text, "message": text, "data": {"id": text, "task_id": text, "model_id": text}}),
        json!({"status": "success", "message": text, "data": text}),
        json!({"status": "success", "message": text, "data": [text]}),
        json!({"status": "success", "data": {"data": [text], "task_id": [text], "id": [text],
            "balance": text, "records": text, "files": text, "cost": text, "serving": text, "total_files": text,
            "model_id": [text], "endpoint": [text], "fields": [text], "download_url": [text]}}),
        json!({"detail": [{"msg": text}]}),
        json!(text),
    ]
    .iter()
    .map(Value::to_string)
    .chain([text.clone(), format!("{{\"status\":\"fail\",\"message\":\"{KEY}"), format!("<html>{text}</html>")])
    .collect()
}

async fn failures(client: &Client) -> Vec<(&'static str, Error)> {
    let model = client.model("m");
    let task = client.task("t");
    let folder = client.folder("samples");
    let url = format!("https://b.example/k?X-Amz-Signature={SIGNATURE}");
    let run = || client.model("m").run(inputs()).options(|options| options.skip_validation = true);
    let results = [
        ("getBalance", client.balance().await.map(drop)),
        ("listModels", client.models_page(Default::default()).await.map(drop)),
        ("getModel", model.get().await.map(drop)),
        ("getModelCost", model.cost().await.map(drop)),
        ("getModelServing", model.serving().await.map(drop)),
        ("getModelVersioning", model.versioning().await.map(drop)),
        ("createTask", run().start().await.map(drop)),
        ("getTask", task.get().await.map(drop)),
        ("listTasks", client.tasks().page(10, 0).await.map(drop)),
        ("cancelTask", task.cancel().await.map(drop)),
        ("createPresignedUpload", folder.upload(File::bytes("a.png", "x")).await.map(drop)),
        ("listFiles", folder.page(Default::default(), 1).await.map(drop)),
        ("getStorageStatistics", client.storage_statistics().await.map(drop)),
        ("getStoragePrice", client.storage_price().await.map(drop)),
        ("deleteFile", client.delete_file(url).await.map(drop)),
        ("any other request", client.request(Method::GET, "/else", None).await.map(drop)),
    ];
    results.into_iter().filter_map(|(operation, result)| Some((operation, result.err()?))).collect()
}

fn surfaces(error: &Error) -> Vec<String> {
    let mut all =
        vec![error.to_string(), format!("{error:?}"), format!("{error:#?}"), error.hint().to_owned()];
    let mut source = error.source();
    while let Some(inner) = source {
        all.extend([inner.to_string(), format!("{inner:?}")]);
        source = inner.source();
    }
    if let Some(context) = error.context() {
        let texts = [&context.message, &context.excerpt, &context.request_id];
        all.extend(texts.into_iter().flatten().cloned());
        all.push(format!("{context:?}"));
    }
    if let Error::TaskFailed(failure) = error {
        all.extend(failure.message.clone());
        all.extend(failure.detail.iter().flat_map(texts));
    }
    if let Error::OutputType(mismatch) = error {
        all.push(mismatch.problem.clone());
    }
    all
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(members) => {
            members.iter().flat_map(|(name, value)| [vec![name.clone()], texts(value)].concat()).collect()
        }
        _ => Vec::new(),
    }
}

fn assert_harmless(place: &str, text: &str, may_have_lines: bool) {
    assert!(!text.contains(KEY) && !text.contains(SIGNATURE), "{place} shows a secret: {text:?}");
    let moves_a_cursor = |c: char| {
        (c.is_control() && !(may_have_lines && c == '\n'))
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(moves_a_cursor), "{place} has control characters: {text:?}");
    assert!(text.chars().count() < 6_000, "{place} is too long");
}

fn assert_error_is_harmless(place: &str, error: &Error) {
    for text in surfaces(error) {
        assert_harmless(place, &text, true);
    }
    let display = error.to_string();
    assert_harmless(place, &display, false);
    assert!(display.chars().count() <= 1_500, "{place}: {display}");
    if let Some(source) = error.source() {
        assert!(!display.contains(&source.to_string()), "{place}: {display} repeats its source {source}");
    }
    assert!(!display.contains(error.hint()), "{place}: {display} repeats its hint");
}

#[tokio::test]
async fn no_response_puts_a_secret_or_a_control_character_into_an_error() {
    let mut seen = 0;
    for status in ["200 OK", "400 Bad Request", "401 Unauthorized", "404 Not Found", "429 Later", "503 Later"]
    {
        for body in bodies() {
            let head = format!("HTTP/1.1 {status}\r\nx-request-id: {KEY}\r\ncontent-type: application/json");
            let answer =
                format!("{head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
            let server = Server::answering(answer);
            let client = built(quick(server.base_url(), KEY).settings(|settings| settings.retry = once()));
            for (operation, error) in failures(&client).await {
                assert_error_is_harmless(&format!("{operation} with {status} {body:?}"), &error);
                seen += 1;
            }
        }
    }
    assert!(seen > 900, "only {seen} failures");
}

fn once() -> Retry {
    let mut retry = super::quick_retry();
    retry.max_attempts = 1;
    retry
}

#[tokio::test]
async fn every_refusal_shows_the_message_of_the_service() {
    for status in [400, 401, 402, 403, 404, 409, 422, 429, 500, 503] {
        let body = json!({"status": "fail", "message": "maintenance until 5"}).to_string();
        let answer = response(&format!("{status} Refused"), "application/json", &body);
        let server = Server::answering(answer);
        let client = built(quick(server.base_url(), KEY).settings(|settings| settings.retry = once()));
        for (operation, error) in failures(&client).await {
            let text = error.to_string();
            assert!(text.contains("maintenance until 5"), "{operation} with {status}: {text}");
            assert!(text.contains(&status.to_string()), "{operation} with {status}: {text}");
            assert_eq!(error.status(), Some(status), "{operation}");
            let message = error.context().and_then(|context| context.message.as_deref());
            assert_eq!(message, Some("maintenance until 5"), "{operation} with {status}");
        }
    }
}

const SCRIPTED_KEY: &str = "isk_test";

fn failing(message: &str, detail: &Value) -> Scripted {
    let scripted = Scripted::new();
    let result = json!({ "result": null, "error": detail });
    let task = json!({ "task_id": "t", "status": "failed", "message": message, "result": result });
    scripted.reply_to("getTask", Reply::success(&task));
    scripted
}

#[tokio::test(start_paused = true)]
async fn the_message_and_the_detail_of_a_failed_task_are_redacted() {
    let text = foreign().replace(KEY, SCRIPTED_KEY);
    let detail = json!({"error": text, "at": [text, {"policy": text}], text.clone(): 1});
    let mut events = failing(&text, &detail).client().model(MODEL).run(inputs()).events();
    while let Some(event) = events.next().await {
        assert!(!matches!(event, RunEvent::ReadFailed(_)), "{event:?}");
    }
    let error = events.finish().await.expect_err("it failed");
    let Error::TaskFailed(failure) = &error else { panic!("{error:?}") };
    assert!(failure.message.as_deref().is_some_and(|message| message.contains("bad key …")), "{failure:?}");
    assert_error_is_harmless("a failed task", &error);
    for text in surfaces(&error) {
        assert!(!text.contains(SCRIPTED_KEY), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_states_its_reason_once() {
    for detail in [json!({"kind": "model", "message": "out of memory"}), json!("out of memory"), json!(null)]
    {
        let run = failing("out of memory", &detail).client().model(MODEL).run(inputs());
        let error = run.await.expect_err("it failed").to_string();
        assert_eq!(error.matches("out of memory").count(), 1, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_reads_are_redacted_in_the_events_of_a_wait() {
    let scripted = Scripted::new();
    let text = foreign().replace(KEY, SCRIPTED_KEY);
    scripted.reply(move |operation, number| {
        (operation == "getTask" && number <= 3).then(|| Reply::failure(500, &text))
    });
    let ids = scripted.create(1).await;
    let client = built(scripted.builder().settings(|settings| settings.retry = once()));
    let mut events = client.task(ids[0].as_str()).wait().events();
    let mut failed = 0;
    while let Some(event) = events.next().await {
        if let RunEvent::ReadFailed(problem) = event {
            assert_harmless("the event", &problem, false);
            assert!(!problem.contains(SCRIPTED_KEY), "{problem}");
            failed += 1;
        }
    }
    assert_eq!(failed, 3);
}

#[tokio::test]
async fn identifiers_of_the_service_cannot_steer_a_terminal() {
    let id = "t\u{1b}[2J\u{202e}\r\n1";
    let created = json!({"status": "success", "data": {
        "data": id, "task_id": id, "status": "in_queue", "records": [], "total": 0,
    }});
    let server = Server::answering_json(&created);
    let client = built(quick(server.base_url(), KEY).settings(|settings| settings.retry = once()));
    let run = client.model("m").run(inputs()).quickly().options(|options| options.skip_validation = true);
    let error = run.deadline(std::time::Duration::from_millis(200)).await.expect_err("it stays queued");
    assert_eq!(error.task_id().map(|task| task.as_str()), Some(id), "the program has it as it is");
    assert_harmless("the error", &error.to_string(), false);
    let failed = json!({"status": "success", "data": {"task_id": id, "status": "failed", "message": "no"}});
    let server = Server::answering_json(&failed);
    let client = built(quick(server.base_url(), KEY));
    let error = client.task("t").wait().quickly().await.expect_err("it failed");
    assert_harmless("the error", &error.to_string(), false);
    let canceled = json!({"status": "success", "data": {"task_id": id, "status": "canceled"}});
    let server = Server::answering_json(&canceled);
    let client = built(quick(server.base_url(), KEY));
    let error = client.task("t").wait().quickly().await.expect_err("it was canceled");
    assert_harmless("the error", &error.to_string(), false);
}

#[tokio::test]
async fn the_error_of_a_create_that_failed_on_the_way_says_each_thing_once() {
    let (service, controls, _) = start().await;
    let client = without_keys(&service);
    for status in [500, 502, 503, 504] {
        let fault = Fault::status(status).message("maintenance until 5").on(operations::CREATE_TASK);
        controls.add_fault(fault.once()).expect("it is a fault");
        let run = client.model(MODEL).run(inputs()).quickly();
        let error = run.await.expect_err("whether it exists is unknown");
        assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&status.to_string()) && text.contains("maintenance until 5"), "{text}");
        assert!(!text.contains("lost"), "the response came: {text}");
        assert_eq!(text.matches("task history").count(), 1, "{text}");
        assert_eq!(error.status(), Some(status));
    }
}

#[tokio::test]
async fn three_violations_of_inputs_are_one_line_and_come_once() {
    let (_service, _controls, client) = start().await;
    let wrong =
        inferstore::Inputs::new().set("input_image", IMAGE).set("template", "vshape").set("angle", 91);
    let run = client.model(MODEL).run(wrong.set("other\u{1b}[2J", foreign()));
    let error = run.await.expect_err("they do not fit");
    let Error::Inputs(invalid) = &error else { panic!("{error:?}") };
    assert_eq!(invalid.violations.len(), 3, "{invalid}");
    let display = error.to_string();
    assert_harmless("the error", &display, false);
    assert!(error.source().is_none_or(|source| !display.contains(&source.to_string())), "{error:?}");
    assert_eq!(display.matches("template: ").count(), 1, "{display}");
    assert!(error.hint().contains("nothing was sent"), "{}", error.hint());
}
