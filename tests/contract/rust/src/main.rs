//! Drives the service with the Rust client of openapi-generator. See ../../README.md for the environment
//! and the output.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use openapi::apis::Error as ApiError;
use openapi::apis::account_api::{AccountApi, AccountApiClient};
use openapi::apis::configuration::{ApiKey, Configuration};
use openapi::apis::models_api::{
    GetModelCostParams, GetModelParams, GetModelServingParams, GetModelVersioningParams, ListModelsParams,
    ModelsApi, ModelsApiClient,
};
use openapi::apis::storage_api::{
    CreatePresignedUploadParams, DeleteFileParams, ListFilesParams, StorageApi, StorageApiClient,
};
use openapi::apis::tasks_api::{
    CancelTaskParams, CreateTaskAliasParams, CreateTaskParams, GetTaskParams, ListTasksParams, TasksApi,
    TasksApiClient,
};
use openapi::models::{
    FileUrl, ModelListRequest, ModelSort, PresignRequest, PresignedUpload, TaskDetail, UploadFolder,
};
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

const LARGE_FILE_SIZE: usize = 5_242_881;
const POLL_INTERVAL: Duration = Duration::from_millis(300);
const MAX_POLLS: usize = 200;
const TERMINAL: [&str; 3] = ["success", "failed", "canceled"];
const SMALL_PNG: &[u8] = include_bytes!("../small.png");

type Failure = Box<dyn Error>;

fn with_key(key: &str) -> Arc<Configuration> {
    let api_key = ApiKey { prefix: None, key: key.to_owned() };
    let base_path = env::var("BASE_URL").expect("BASE_URL is set");
    Arc::new(Configuration { base_path, api_key: Some(api_key), ..Configuration::default() })
}

fn status_code_of_failure<T, E: Debug>(outcome: Result<T, ApiError<E>>) -> Option<u16> {
    match outcome {
        Err(ApiError::ResponseError(content)) => Some(content.status.as_u16()),
        _ => None,
    }
}

/// Uploads to object storage (step 2). This is not part of the API and must not carry the API key.
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

async fn upload(
    storage: &impl StorageApi,
    name: &str,
    mime: &str,
    content: Vec<u8>,
) -> Result<String, Failure> {
    let size = content.len().try_into()?;
    let declaration = PresignRequest::new(UploadFolder::Samples, mime.to_owned(), name.to_owned(), size);
    let params = CreatePresignedUploadParams::builder().presign_request(declaration).build();
    let target = storage.create_presigned_upload(params).await?.data;
    send(&target, name, content).await?;
    Ok(target.download_url)
}

async fn wait(tasks: &impl TasksApi, id: &str) -> Result<TaskDetail, Failure> {
    for _ in 0..MAX_POLLS {
        let task = tasks.get_task(GetTaskParams::builder().id(id.to_owned()).build()).await?.data;
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
    let configuration = with_key(&env::var("API_KEY")?);
    let account = AccountApiClient::new(configuration.clone());
    let models = ModelsApiClient::new(configuration.clone());
    let tasks = TasksApiClient::new(configuration.clone());
    let storage = StorageApiClient::new(configuration);
    let model = env::var("MODEL")?;
    let mode = env::var("MODE").unwrap_or_default();
    if mode == "html502" || mode == "http429" {
        return Ok(json!({ "code": status_code_of_failure(account.get_balance().await) }));
    }

    let stranger = AccountApiClient::new(with_key("wrong-key"));
    let refused = status_code_of_failure(stranger.get_balance().await);
    let balance = account.get_balance().await?.data;
    let search = ModelListRequest {
        search: Some("color".to_owned()),
        sort: Some(ModelSort::Trending),
        limit: Some(5),
        ..ModelListRequest::new()
    };
    models.list_models(ListModelsParams::builder().model_list_request(search).build()).await?;
    let detail = models.get_model(GetModelParams::builder().id(model.clone()).build()).await?.data;
    let params = GetModelVersioningParams::builder().id(model.clone()).build();
    let version = models.get_model_versioning(params).await?.data;
    models.get_model_cost(GetModelCostParams::builder().id(model.clone()).build()).await?;
    models.get_model_serving(GetModelServingParams::builder().id(model.clone()).build()).await?;

    let run = format!("rust-{}", SystemTime::UNIX_EPOCH.elapsed()?.as_nanos());
    let small = upload(&storage, &format!("{run}.png"), "image/png", SMALL_PNG.to_vec()).await?;
    let large = upload(&storage, &format!("{run}.mp4"), "video/mp4", vec![0; LARGE_FILE_SIZE]).await?;

    let input = HashMap::from([("input".to_owned(), json!(small))]);
    let params = CreateTaskParams::builder().id(model.clone()).request_body(input.clone()).build();
    let created = tasks.create_task(params).await?.data.data;
    let task = wait(&tasks, &created).await?;
    let history = tasks.list_tasks(ListTasksParams::builder().limit(100).offset(0).build()).await?.data;
    let params = CreateTaskAliasParams::builder().model_id(model).request_body(input).build();
    let second = tasks.create_task_alias(params).await?.data.data;
    // A node may claim the task before the cancel.
    let cancel = CancelTaskParams::builder().id(second.clone()).build();
    status_code_of_failure(tasks.cancel_task(cancel).await);
    let canceled = wait(&tasks, &second).await?;

    let params = ListFilesParams::builder().folder("samples".to_owned()).page(1).page_size(20).build();
    let listing = storage.list_files(params).await?.data;
    let statistics = storage.get_storage_statistics().await?.data;
    let mut deleted = 0;
    for url in [small, large] {
        storage.delete_file(DeleteFileParams::builder().file_url(FileUrl::new(url)).build()).await?;
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
