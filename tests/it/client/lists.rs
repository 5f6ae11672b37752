//! Lists: as streams over all pages, and one page alone.

use inferstore::types::{ModelFilter, ModelListRequest, ModelSort};
use inferstore::{FileQuery, types};
use serde_json::json;

use super::client;
use crate::support::scripted::{Route, ScriptedService};

#[tokio::test]
async fn the_catalog_is_read_page_after_page() {
    let service = ScriptedService::start().await;
    for number in 0..120 {
        service.add_model(json!({"id": format!("model-{number}")}));
    }
    let models: Vec<_> =
        client(&service).models().list(ModelListRequest::default()).try_collect().await.expect("a list");
    assert_eq!(models.len(), 121);
    assert_eq!(service.count(Route::ListModels), 3, "121 models, 50 at once");
}

#[tokio::test]
async fn nothing_found_is_an_empty_page_and_an_empty_stream() {
    let service = ScriptedService::start().await;
    let query = ModelListRequest {
        search: Some("no such model anywhere".to_owned()),
        sort: Some(ModelSort::Trending),
        filter_by: Some(ModelFilter::Official),
        ..ModelListRequest::default()
    };
    let client = client(&service);
    let page = client.models().page(query.clone()).await.expect("a page");
    assert_eq!((page.records.len(), page.total), (0, Some(0)));
    let models: Vec<types::ModelSummary> = client.models().list(query).try_collect().await.expect("a list");
    assert!(models.is_empty());
}

#[tokio::test]
async fn the_history_is_read_oldest_first() {
    let service = ScriptedService::start().await;
    let ids: Vec<_> = (0..230).map(|number| service.add_task("m", json!({"number": number}))).collect();
    let client = client(&service);
    let history: Vec<_> = client.tasks().list().try_collect().await.expect("a list");
    let listed: Vec<_> = history.iter().map(|record| record.task_id.to_string()).collect();
    assert_eq!(listed, ids);
    assert_eq!(service.count(Route::ListTasks), 3);
    let page = client.tasks().page(10, 225).await.expect("a page");
    assert_eq!((page.records.len(), page.total), (5, Some(230)));
}

#[tokio::test]
async fn the_files_of_a_folder_are_read_page_after_page() {
    let service = ScriptedService::start().await;
    for number in 0..25 {
        service.store_file(&format!("samples/{number}.png"), "image/png", "x");
    }
    let mut query = FileQuery::default();
    query.page_size = Some(10);
    let client = client(&service);
    let files: Vec<_> = client.folder("samples").list(query).try_collect().await.expect("a list");
    assert_eq!(files.len(), 25);
    let query = FileQuery::category(types::MimeCategory::Video);
    let page = client.folder("samples").page(query, 1).await.expect("a page");
    assert_eq!(page.total, Some(0));
    assert_eq!(client.storage().statistics().await.expect("statistics").total_files, Some(25));
}
