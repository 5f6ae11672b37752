//! Drives the service with the Rust client that the macro of progenitor generates. See ../../README.md for
//! the environment and the output.

use std::collections::HashMap;
use std::env;
use std::fmt::Debug;
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::multipart::{Form, Part};
use serde_json::{Map, Value, json};

use crate::types::{
    FileUrl, FolderName, ModelId, ModelListRequest, ModelSort, PresignRequest, PresignedUpload, TaskDetail,
    TaskId, UploadFolder,
};

// With builders, callers still compile when a parameter is added.
progenitor::generate_api!(spec = "inferstore.yaml", interface = Builder);

const LARGE_FILE_SIZE: usize = 5_242_881;
const POLL_INTERVAL: Duration = Duration::from_millis(300);
const MAX_POLLS: usize = 200;
const TERMINAL: [&str; 3] = ["success", "failed", "canceled"];
const SMALL_PNG: &[u8] = include_bytes!("../small.png");

type Failure = Box<dyn std::error::Error>;

/// The generated client has no credentials: the key is a default header of the HTTP client.
fn with_key(key: &str) -> Result<Client, Failure> {
    let headers = HeaderMap::from_iter([("x-api-key".parse()?, HeaderValue::from_str(key)?)]);
    let http = reqwest::Client::builder().default_headers(headers).build()?;
    Ok(Client::new_with_client(&env::var("BASE_URL")?, http))
}

fn status_code_of_failure<T, E: Debug>(outcome: Result<T, Error<E>>) -> Option<u16> {
    outcome.err()?.status().map(|status| status.as_u16())
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

async fn upload(api: &Client, name: &str, mime: &str, content: Vec<u8>) -> Result<String, Failure> {
    let size = u64::try_from(content.len())?;
    let declaration =
        PresignRequest::builder().folder(UploadFolder::Samples).mime(mime).name(name).size(size);
    let target = api.create_presigned_upload().body(declaration).send().await?.into_inner().data;
    send(&target, name, content).await?;
    Ok(target.download_url)
}

async fn wait(api: &Client, id: &TaskId) -> Result<TaskDetail, Failure> {
    for _ in 0..MAX_POLLS {
        let task = api.get_task().id(id.clone()).send().await?.into_inner().data;
        let status = task.status.as_ref().and_then(|status| status.0.as_deref());
        if status.is_some_and(|status| TERMINAL.contains(&status)) {
            return Ok(task);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Err(format!("the task {id} has no terminal status", id = id.0).into())
}

async fn drive() -> Result<Value, Failure> {
    let api = with_key(&env::var("API_KEY")?)?;
    let model = ModelId(env::var("MODEL")?);
    let mode = env::var("MODE").unwrap_or_default();
    if mode == "html502" || mode == "http429" {
        return Ok(json!({ "code": status_code_of_failure(api.get_balance().send().await) }));
    }

    let refused = status_code_of_failure(with_key("wrong-key")?.get_balance().send().await);
    let balance = api.get_balance().send().await?.into_inner().data;
    let search = ModelListRequest::builder()
        .search("color".to_owned())
        .sort(ModelSort::Trending)
        .limit(NonZeroU32::new(5));
    api.list_models().body(search).send().await?;
    let detail = api.get_model().id(model.clone()).send().await?.into_inner().data;
    let version = api.get_model_versioning().id(model.clone()).send().await?.into_inner().data;
    api.get_model_cost().id(model.clone()).send().await?;
    api.get_model_serving().id(model.clone()).send().await?;

    let run = format!("progenitor-{}", SystemTime::UNIX_EPOCH.elapsed()?.as_nanos());
    let small = upload(&api, &format!("{run}.png"), "image/png", SMALL_PNG.to_vec()).await?;
    let large = upload(&api, &format!("{run}.mp4"), "video/mp4", vec![0; LARGE_FILE_SIZE]).await?;

    let input = Map::from_iter([("input".to_owned(), json!(small))]);
    let created =
        api.create_task().id(model.clone()).body(input.clone()).send().await?.into_inner().data.data;
    let task = wait(&api, &created).await?;
    let history = api.list_tasks().limit(100).offset(0).send().await?.into_inner().data;
    let second =
        api.create_task_alias().model_id(model.clone()).body(input).send().await?.into_inner().data.data;
    // A node may claim the task before the cancel.
    status_code_of_failure(api.cancel_task().id(second.clone()).send().await);
    let canceled = wait(&api, &second).await?;

    let listing = api
        .list_files()
        .folder(FolderName("samples".to_owned()))
        .page(1)
        .page_size(20)
        .send()
        .await?
        .into_inner()
        .data;
    let statistics = api.get_storage_statistics().send().await?.into_inner().data;
    let mut deleted = 0;
    for url in [small, large] {
        api.delete_file().body(FileUrl::builder().url(url)).send().await?;
        deleted += 1;
    }

    let inputs = version.input_format.unwrap_or_default();
    let result = task.result.as_ref().and_then(|result| result.result.as_ref());
    Ok(json!({
        "refused": refused,
        "balance": balance.balance,
        "price": detail.price,
        "visibility": detail.visibility,
        "type": inputs.get("input").and_then(|descriptor| descriptor.type_.as_ref()),
        "status": task.status,
        "output": result.and_then(|result| result.get("output")),
        "history": history.total,
        "after_cancel": canceled.status,
        "files": listing.files.as_ref().map(Vec::len),
        "total_files": statistics.total_files,
        "deleted": deleted,
    }))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    println!("{}", drive().await?);
    Ok(())
}
