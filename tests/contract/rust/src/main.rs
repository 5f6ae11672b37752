//! Drives the service with the Rust client of openapi-generator. See ../../README.md for the environment
//! and the output.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use openapi::apis::configuration::{ApiKey, Configuration};
use openapi::apis::Error as ApiError;
use openapi::apis::{account_api, models_api, storage_api, tasks_api};
use openapi::models::{FileUrl, ModelListRequest, ModelSort, PresignRequest, PresignedUpload, TaskDetail, UploadFolder};
use reqwest::multipart::{Form, Part};
use serde_json::{json, Value};

const LARGE_FILE_SIZE: usize = 5_242_881;
const POLL_INTERVAL: Duration = Duration::from_millis(300);
const MAX_POLLS: usize = 200;
const TERMINAL: [&str; 3] = ["success", "failed", "canceled"];
/// The smallest PNG.
const SMALL_PNG: &[u8] = include_bytes!("../small.png");

type Failure = Box<dyn Error>;

fn with_key(key: &str) -> Configuration {
    let api_key = ApiKey { prefix: None, key: key.to_owned() };
    let base_path = env::var("BASE_URL").expect("BASE_URL is set");
    Configuration { base_path, api_key: Some(api_key), ..Configuration::default() }
}

/// Returns the status code in the error of a call, or nothing when the call succeeds.
fn status_code_of_failure<T, E: Debug>(outcome: Result<T, ApiError<E>>) -> Option<u16> {
    match outcome {
        Err(ApiError::ResponseError(content)) => Some(content.status.as_u16()),
        _ => None,
    }
}

/// Step 2 of an upload. It is not part of the API and must not carry the API key.
async fn send(target: &PresignedUpload, name: &str, content: Vec<u8>) -> Result<(), Failure> {
    let fields: HashMap<String, String> = serde_json::from_str(&target.fields)?;
    let client = reqwest::Client::new();
    let request = if target.endpoint.contains("X-Amz-Algorithm") {
        client.put(&target.endpoint).header("content-type", &fields["Content-Type"]).body(content)
    } else {
        let form = fields.into_iter().fold(Form::new(), |form, (field, value)| form.text(field, value));
        let file = Part::bytes(content).file_name(name.to_owned());
        client.post(&target.endpoint).multipart(form.part("file", file))
    };
    request.send().await?.error_for_status()?;
    Ok(())
}

async fn upload(api: &Configuration, name: &str, mime: &str, content: Vec<u8>) -> Result<String, Failure> {
    let size = content.len().try_into()?;
    let declaration = PresignRequest::new(UploadFolder::Samples, mime.to_owned(), name.to_owned(), size);
    let target = storage_api::create_presigned_upload(api, declaration).await?.data;
    send(&target, name, content).await?;
    Ok(target.download_url)
}

async fn wait(api: &Configuration, id: &str) -> Result<TaskDetail, Failure> {
    for _ in 0..MAX_POLLS {
        let task = tasks_api::get_task(api, id).await?.data;
        if let Some(Some(status)) = &task.status {
            if TERMINAL.contains(&status.as_str()) {
                return Ok(task);
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Err(format!("the task {id} has no terminal status").into())
}

fn output_of(task: &TaskDetail) -> Option<Value> {
    let result = task.result.clone().flatten()?.result.flatten()?;
    result.get("output").cloned()
}

async fn drive() -> Result<Value, Failure> {
    let api = with_key(&env::var("API_KEY")?);
    let model = env::var("MODEL")?;
    let mode = env::var("MODE").unwrap_or_default();
    if mode == "html502" || mode == "http429" {
        return Ok(json!({ "code": status_code_of_failure(account_api::get_balance(&api).await) }));
    }

    let refused = status_code_of_failure(account_api::get_balance(&with_key("wrong-key")).await);
    let balance = account_api::get_balance(&api).await?.data;
    let search = ModelListRequest {
        search: Some("color".to_owned()),
        sort: Some(ModelSort::Trending),
        limit: Some(5),
        ..ModelListRequest::new()
    };
    models_api::list_models(&api, search).await?;
    let detail = models_api::get_model(&api, &model).await?.data;
    let version = models_api::get_model_versioning(&api, &model).await?.data;
    models_api::get_model_cost(&api, &model).await?;
    models_api::get_model_serving(&api, &model).await?;

    let run = format!("rust-{}", SystemTime::UNIX_EPOCH.elapsed()?.as_nanos());
    let small = upload(&api, &format!("{run}.png"), "image/png", SMALL_PNG.to_vec()).await?;
    let large = upload(&api, &format!("{run}.mp4"), "video/mp4", vec![0; LARGE_FILE_SIZE]).await?;

    let input = HashMap::from([("input".to_owned(), json!(small))]);
    let created = tasks_api::create_task(&api, &model, input.clone()).await?.data.data;
    let task = wait(&api, &created).await?;
    let history = tasks_api::list_tasks(&api, Some(100), Some(0)).await?.data;
    let second = tasks_api::create_task_alias(&api, &model, input).await?.data.data;
    // A node may have been faster than the cancel.
    status_code_of_failure(tasks_api::cancel_task(&api, &second).await);
    let canceled = wait(&api, &second).await?;

    let listing = storage_api::list_files(&api, "samples", Some(1), Some(20), None).await?.data;
    let statistics = storage_api::get_storage_statistics(&api).await?.data;
    let mut deleted = 0;
    for url in [small, large] {
        storage_api::delete_file(&api, FileUrl::new(url)).await?;
        deleted += 1;
    }

    let inputs = version.input_format.flatten().unwrap_or_default();
    Ok(json!({
        "refused": refused,
        "balance": balance.balance.flatten(),
        "price": detail.price.flatten(),
        "visibility": detail.visibility.flatten(),
        "type": inputs.get("input").and_then(|descriptor| descriptor.r#type.clone().flatten()),
        "status": task.status.clone().flatten(),
        "output": output_of(&task),
        "history": history.total.flatten(),
        "after_cancel": canceled.status.flatten(),
        "files": listing.files.flatten().map(|files| files.len()),
        "total_files": statistics.total_files.flatten(),
        "deleted": deleted,
    }))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    println!("{}", drive().await?);
    Ok(())
}
