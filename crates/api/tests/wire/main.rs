//! Requests on the wire, byte by byte, against a listening socket: one snapshot per operation. Without the
//! service, so that an edit of the document is tested in seconds.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so by panicking")]

use inferstore_api::{ApiKey, Client, Error, ResponseValue, types};
use inferstore_document::{members, operations};
use inferstore_wire::{Server, response};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Calls the operation against a server that responds with the example of the document, and returns the
/// request.
async fn sent<T>(
    operation: &str,
    call: impl AsyncFnOnce(&Client) -> Result<ResponseValue<T>, Error<()>>,
) -> String {
    let server = Server::answering_json(success_example(operation));
    call(&client(&server)).await.expect("the example of the document is an answer that can be read");
    let requests = server.texts();
    let [request] = &requests[..] else { panic!("one call sent {} requests", requests.len()) };
    request.clone()
}

fn client(server: &Server) -> Client {
    Client::new(&server.base_url(), ApiKey::new("secret-key")).expect("a client can be made")
}

fn success_example(operation: &str) -> &'static Value {
    let found = operations().find(|candidate| candidate.id() == operation).expect("the operation exists");
    let (_, success) = found.responses().find(|(code, _)| code.starts_with('2')).expect("it can succeed");
    let (_, example) = members(&success["examples"]).next().expect("its success has an example");
    &example["value"]
}

/// The last example of the request, which has every field.
fn request<T: DeserializeOwned>(operation: &str) -> T {
    let found = operations().find(|candidate| candidate.id() == operation).expect("the operation exists");
    let request = found.request().expect("the operation has a body");
    let (_, example) = members(&request["examples"]).last().expect("its request has an example");
    T::deserialize(&example["value"]).expect("the example can be read")
}

fn model(id: &str) -> types::ModelId {
    id.parse().expect("an identifier is not empty")
}

fn task(id: &str) -> types::TaskId {
    id.parse().expect("an identifier is not empty")
}

fn key() -> types::IdempotencyKey {
    "5f0c9a4e-8d3b".parse().expect("it is visible ASCII")
}

fn inputs() -> types::TaskInput {
    let inputs = json!({"input_image": "https://files.example/a.png", "template": "v_shape", "angle": "30"});
    types::TaskInput(inputs.as_object().expect("it is an object").clone())
}

/// Tests the request of one call by a snapshot.
macro_rules! sends {
    ($snapshot:ident, $operation:literal, $call:expr) => {
        #[tokio::test]
        async fn $snapshot() {
            insta::assert_snapshot!(stringify!($snapshot), sent($operation, $call).await);
        }
    };
}

sends!(get_balance, "getBalance", async |client| client.get_balance().await);
sends!(list_models_without_a_query, "listModels", async |client| client
    .list_models(&Default::default())
    .await);
sends!(list_models_with_every_field, "listModels", async |client| client
    .list_models(&request("listModels"))
    .await);
sends!(get_model, "getModel", async |client| client.get_model(&model("color-harmonization")).await);
sends!(get_model_with_an_odd_identifier, "getModel", async |client| client
    .get_model(&model("a/b c?d%é"))
    .await);
sends!(get_model_cost, "getModelCost", async |client| client.get_model_cost(&model("m-1")).await);
sends!(get_model_serving, "getModelServing", async |client| client.get_model_serving(&model("m-1")).await);
sends!(get_model_versioning, "getModelVersioning", async |client| client
    .get_model_versioning(&model("m-1"))
    .await);
sends!(create_task, "createTask", async |client| client
    .create_task(&model("m-1"), Some(&key()), &inputs())
    .await);
sends!(create_task_alias, "createTaskAlias", async |client| client
    .create_task_alias(&model("m-1"), None, &inputs())
    .await);
sends!(get_task, "getTask", async |client| client.get_task(&task("t-1")).await);
sends!(list_tasks_with_the_defaults, "listTasks", async |client| client.list_tasks(None, None).await);
sends!(list_tasks_of_one_page, "listTasks", async |client| client.list_tasks(Some(100), Some(200)).await);
sends!(cancel_task, "cancelTask", async |client| client.cancel_task(&task("t-1")).await);
sends!(create_presigned_upload, "createPresignedUpload", async |client| {
    let folder = types::UploadFolder::Samples;
    let file = types::PresignRequest::new(folder, "image/png", "a photo.png", 5_242_881);
    client.create_presigned_upload(&file).await
});
sends!(create_presigned_upload_for_an_organization, "createPresignedUpload", async |client| {
    let required = types::PresignRequest::new(types::UploadFolder::Documents, "text/plain", "notes.txt", 1);
    let file = types::PresignRequest { org_username: Some("city-lab".to_owned()), ..required };
    client.create_presigned_upload(&file).await
});
sends!(list_files_with_the_defaults, "listFiles", async |client| {
    client.list_files(&"samples".parse().expect("a folder has a name"), None, None, None).await
});
sends!(list_files_of_one_page, "listFiles", async |client| {
    let folder = "my folder".parse().expect("a folder has a name");
    client.list_files(&folder, Some(2), Some(20), Some(&types::MimeCategory::Image)).await
});
sends!(get_storage_statistics, "getStorageStatistics", async |client| client.get_storage_statistics().await);
sends!(delete_file, "deleteFile", async |client| {
    let file = types::FileUrl::new("https://files.example/samples/a.png");
    client.delete_file(&file).await
});
sends!(get_task_logs, "getTaskLogs", async |client| client.get_task_logs(&task("t-1")).await);
sends!(list_keys, "listKeys", async |client| client.list_keys().await);
sends!(create_key, "createKey", async |client| client.create_key(&request("createKey")).await);
sends!(create_key_without_rules, "createKey", async |client| {
    client.create_key(&types::NewKeyRequest::new("laptop")).await
});
sends!(revoke_key, "revokeKey", async |client| client.revoke_key(&"k-1".into()).await);
sends!(get_storage_price, "getStoragePrice", async |client| client.get_storage_price().await);

#[test]
fn every_operation_of_the_document_has_its_snapshot_here() {
    let source = include_str!("main.rs");
    let missing: Vec<_> = operations()
        .map(|operation| operation.id())
        .filter(|id| !source.contains(&format!("\"{id}\", async")))
        .collect();
    assert!(missing.is_empty(), "no snapshot of {missing:?}");
}

#[tokio::test]
async fn a_request_to_any_path_stays_below_the_base_url_with_its_key() {
    let server = Server::answering_json(json!({"status": "success"}));
    for outside in ["/..", "/../..", "/%2E%2e/v2/x", "/x/../../v1x", "/..\\x"] {
        let refused = client(&server).send::<Value>(Method::GET, outside, None).await;
        assert!(matches!(refused, Err(Error::InvalidRequest(_))), "{outside}: {refused:?}");
    }
    assert_eq!(server.texts(), Vec::<String>::new());
    client(&server).send::<Value>(Method::GET, "/x/../y?z=/..", None).await.expect("it stays below");
    assert!(server.texts()[0].starts_with("GET /api/v1/y?z=/.. HTTP/1.1\n"), "{:?}", server.texts());
}

#[tokio::test]
async fn a_trailing_slash_on_the_base_url_is_tolerated() {
    let server = Server::answering_json(success_example("getBalance"));
    let client = Client::new(&format!("{}/", server.base_url()), ApiKey::new("secret-key"))
        .expect("a client can be made");
    client.get_balance().await.expect("the example can be read");
    assert!(server.texts()[0].starts_with("GET /api/v1/api-key/balance HTTP/1.1\n"));
}

#[tokio::test]
async fn a_key_read_from_a_file_with_a_line_break_is_sent_without_it() {
    let server = Server::answering_json(success_example("getBalance"));
    let client = Client::new(&server.base_url(), ApiKey::new("secret-key\n")).expect("a client can be made");
    client.get_balance().await.expect("the example can be read");
    assert!(server.texts()[0].contains("x-api-key: secret-key\n"));
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_refused_because_of_the_key() {
    let other = Server::answering_json(success_example("getBalance"));
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}/api/v1/api-key/balance\r\ncontent-length: 0\r\n\r\n",
        other.origin()
    );
    let server = Server::answering(redirect);
    let error = client(&server).get_balance().await.expect_err("a redirect is not an answer");
    assert_eq!(error.status().map(|status| status.as_u16()), Some(307));
    assert_eq!(other.texts(), Vec::<String>::new());
}

#[tokio::test]
async fn every_failure_keeps_its_status_and_its_body_whatever_its_shape() {
    let bodies = [
        ("application/json", r#"{"status":"fail","message":"no"}"#),
        ("application/json", r#"{"detail":["off schema"]}"#),
        ("application/json", r#"{"status":"fail","mess"#),
        ("application/json", ""),
        ("text/html", "<html><body>Bad gateway</body></html>"),
        ("text/plain", "no"),
    ];
    for status in [301, 400, 401, 402, 403, 404, 409, 422, 429, 500, 502, 503] {
        for (content_type, body) in bodies {
            let server = Server::answering(response(&format!("{status} Reason"), content_type, body));
            let error = client(&server).get_balance().await.expect_err("it is a failure");
            let Error::UnexpectedResponse(answer) = error else {
                panic!("{status} with {body:?} became {error:?}")
            };
            assert_eq!(answer.status().as_u16(), status);
            assert_eq!(answer.text().await.expect("the body can be read"), body);
        }
    }
}

#[tokio::test]
async fn any_success_status_is_a_success() {
    for status in ["200 OK", "201 Created", "202 Accepted"] {
        let body = success_example("createTask").to_string();
        let server = Server::answering(response(status, "application/json", &body));
        let created =
            client(&server).create_task(&model("m-1"), None, &inputs()).await.expect("it is a success");
        assert_eq!(created.into_inner().data.data.to_string(), "7b0e6a52");
    }
}
