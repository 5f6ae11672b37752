//! What the API tells, held to the document.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::document::{Operation, operations};
use crate::support::schema::mistakes;

use super::super::{DEFAULT_MODEL, Funds, Route, ScriptedService};
use super::{Caller, good_input, task_path};

fn operation(id: &str) -> Operation {
    operations().find(|operation| operation.id() == id).unwrap_or_else(|| panic!("no operation {id}"))
}

fn assert_fits(operation_id: &str, status: &str, answer: &Value) {
    let mut responses = operation(operation_id).responses();
    let response = responses.find(|(code, _)| *code == status).expect("the response is declared").1;
    assert_eq!(mistakes(&response["schema"], answer), [""; 0], "{operation_id} answers {answer}");
}

#[tokio::test]
async fn every_answer_is_as_the_document_says() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let url = service.store_file("samples/street.png", "image/png", "street");
    let task = caller.create(DEFAULT_MODEL, good_input()).await;
    caller.task(&task).await;
    let small = json!({"folder": "covers", "name": "a.png", "mime": "image/png", "size": 5});
    let large = json!({"folder": "covers", "name": "a.mp4", "mime": "video/mp4", "size": 6_000_000});
    let model = |tail: &str| format!("/api-key/model/{DEFAULT_MODEL}{tail}");
    let calls = [
        ("getBalance", Method::GET, "/api-key/balance".to_owned(), None),
        ("listModels", Method::POST, model("").replace(DEFAULT_MODEL, "list"), Some(json!({}))),
        ("listModels", Method::POST, "/api-key/model/list".to_owned(), Some(json!({"search": "nothing"}))),
        ("getModel", Method::GET, model(""), None),
        ("getModelCost", Method::GET, model("/task/cost"), None),
        ("getModelServing", Method::GET, model("/serving"), None),
        ("getModelVersioning", Method::GET, model("/versioning"), None),
        ("createTask", Method::POST, model("/task"), Some(good_input())),
        ("createTaskAlias", Method::POST, format!("/model/{DEFAULT_MODEL}/task"), Some(good_input())),
        ("getTask", Method::GET, format!("/api-key/task/{task}/detail"), None),
        ("getTask", Method::GET, "/api-key/task/task-000002/detail".to_owned(), None),
        ("listTasks", Method::GET, "/api-key/task/histories".to_owned(), None),
        ("cancelTask", Method::DELETE, "/api-key/task/task-000003/cancel".to_owned(), None),
        (
            "createPresignedUpload",
            Method::POST,
            "/api-key/storage/upload/create-presigned-url".to_owned(),
            Some(small),
        ),
        (
            "createPresignedUpload",
            Method::POST,
            "/api-key/storage/upload/create-presigned-url".to_owned(),
            Some(large),
        ),
        ("listFiles", Method::GET, "/api-key/storage/upload/samples".to_owned(), None),
        ("getStorageStatistics", Method::GET, "/api-key/storage/upload/statistics".to_owned(), None),
        ("deleteFile", Method::DELETE, "/api-key/storage/store/url".to_owned(), Some(json!({"url": url}))),
    ];
    for (id, method, path, body) in calls {
        let (code, answer) = caller.call(method, &path, body.as_ref()).await;
        assert_eq!(code, 200, "{id} answers {answer}");
        assert_fits(id, "2XX", &answer);
    }
    assert!(service.journal().iter().all(|entry| entry.committed && entry.route != Route::Unknown));
}

#[tokio::test]
async fn a_missing_or_wrong_key_is_refused_everywhere() {
    let service = ScriptedService::start().await;
    let caller = Caller { key: "wrong", ..Caller::of(&service) };
    for path in ["/api-key/balance", "/api-key/task/histories", "/nothing"] {
        let (code, answer) = caller.get(path).await;
        assert_eq!(code, 401);
        assert_fits("getBalance", "401", &answer);
    }
    let response = caller.http.get(format!("{}/api-key/balance", service.base_url())).send().await;
    assert_eq!(response.expect("the service answers").status(), 401);
    assert!(service.journal().iter().all(|entry| !entry.committed && entry.answered == Some(401)));
}

#[tokio::test]
async fn inputs_are_held_to_the_model() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    for (name, value, message) in [
        ("angle", json!(30), "angle must be sent as a string"),
        ("angle", json!("91"), "angle must be from 1 to 90"),
        ("angle", json!("1.5"), "angle must be of type int"),
        ("template", json!("w_shape"), "template must be one of the options"),
        ("input_image", json!("street.png"), "input_image must be the URL of a file"),
        ("template", json!(null), "template is required"),
    ] {
        let mut input = good_input();
        input[name] = value;
        let (code, answer) = caller.post(&task_path(), input).await;
        assert_eq!((code, answer["message"].as_str()), (422, Some(message)));
        assert_fits("createTask", "4XX", &answer);
    }
    assert!(service.created().is_empty());
    assert_eq!(caller.post("/api-key/model/none/task", good_input()).await.0, 404);
}

#[tokio::test]
async fn models_can_be_added_and_changed() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let descriptor = json!({"type": "float", "required": true, "samples": [0.5]});
    service.add_model(json!({
        "id": "dice", "price": 0, "visibility": "private", "is_official": false, "likes": 3,
        "input_format": {"weight": descriptor},
        "output_format": {"eyes": {"type": "int"}, "words": {"type": "string"}},
    }));
    caller.create("dice", json!({"weight": 0.25})).await;
    let (code, _) = caller.post("/api-key/model/dice/task", json!({"weight": "0.25"})).await;
    assert_eq!(code, 422, "the samples are bare numbers");

    service.set_price("dice", json!(0.07));
    service.set_serving("dice", false);
    service.set_version("dice", "second", json!({"count": {"type": "int"}}));
    assert_eq!(caller.get("/api-key/model/dice").await.1["data"]["likes"], 3);
    assert_eq!(caller.get("/api-key/model/dice/task/cost").await.1["data"]["cost"], 0.07);
    assert_eq!(caller.get("/api-key/model/dice/serving").await.1["data"]["serving"], false);
    let (_, versioning) = caller.get("/api-key/model/dice/versioning").await;
    assert_eq!(versioning["data"]["commit_hash"], "second");
    caller.create("dice", json!({})).await;

    let found = async |query| caller.post("/api-key/model/list", query).await.1["data"]["total"].clone();
    assert_eq!(found(json!({})).await, 1, "private models are not for everyone");
    assert_eq!(found(json!({"filter_by": "permission"})).await, 2);
    assert_eq!(found(json!({"filter_by": "community"})).await, 1);
    assert_eq!(found(json!({"filter_by": "official", "search": "HUES"})).await, 1);
}

#[tokio::test]
async fn models_are_sorted_by_time_and_come_in_pages() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    for year in [2020, 2030] {
        let at = format!("{year}-01-01T00:00:00Z");
        service.add_model(json!({"id": format!("of-{year}"), "created_at": at, "updated_at": at}));
    }
    for (sort, first) in [
        ("created_oldest", "of-2020"),
        ("created", "of-2030"),
        ("modified", "of-2030"),
        ("likes", DEFAULT_MODEL),
    ] {
        let (_, page) = caller.post("/api-key/model/list", json!({"sort": sort, "limit": 1})).await;
        assert_eq!((&page["data"]["records"][0]["id"], &page["data"]["total"]), (&json!(first), &json!(3)));
    }
    let (_, page) = caller.post("/api-key/model/list", json!({"limit": 2, "offset": 2})).await;
    assert_eq!(page["data"]["records"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn too_little_money_refuses_or_fails_tasks_and_refuses_uploads() {
    let service = ScriptedService::start().await;
    let caller = Caller::of(&service);
    let target = caller.presign("a.txt", "text/plain", 1).await;
    service.set_funds(Funds::TasksAreRefused);
    assert_eq!(caller.post(&task_path(), good_input()).await.0, 402);
    let small = json!({"folder": "covers", "name": "a.png", "mime": "image/png", "size": 5});
    assert_eq!(caller.post("/api-key/storage/upload/create-presigned-url", small).await.0, 402);
    let endpoint = target["endpoint"].as_str().expect("a URL");
    let upload = caller.http.post(endpoint).body("").send().await.expect("storage answers");
    assert_eq!(upload.status(), 403);
    assert_eq!(service.created().len(), 0);

    service.set_funds(Funds::TasksFail);
    let task = caller.create(DEFAULT_MODEL, good_input()).await;
    assert_eq!(caller.task(&task).await["status"], "failed");
}
