//! Lists: as streams over all pages, and as single pages.

use inferstore::types::{ModelFilter, ModelListRequest, ModelSort};
use inferstore::{File, FileQuery, types};
use inferstore_api::operations;

use super::on_the_service::start;
use crate::support::scripted::Scripted;

#[tokio::test(start_paused = true)]
async fn the_catalog_is_read_page_after_page() {
    let scripted = Scripted::new();
    for number in 0..120 {
        let _ = scripted.service.model(format!("model-{number}"));
    }
    let models = scripted.client().models(ModelListRequest::default());
    assert_eq!(models.try_collect().await.expect("a list").len(), 121);
    assert_eq!(scripted.count("listModels"), 3, "121 models, 50 at once");
}

#[tokio::test]
async fn nothing_found_is_an_empty_page_and_an_empty_stream() {
    let (_service, _controls, client) = start().await;
    let query = ModelListRequest {
        search: Some("no such model anywhere".to_owned()),
        sort: Some(ModelSort::Trending),
        filter_by: Some(ModelFilter::Official),
        ..ModelListRequest::default()
    };
    let page = client.models_page(query.clone()).await.expect("a page");
    assert_eq!((page.records.len(), page.total), (0, Some(0)));
    let models: Vec<types::ModelSummary> = client.models(query).try_collect().await.expect("a list");
    assert!(models.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_history_is_read_oldest_first() {
    let scripted = Scripted::new();
    let ids = scripted.create(230).await;
    let client = scripted.client();
    let history: Vec<_> = client.tasks().list().try_collect().await.expect("a list");
    let listed: Vec<_> = history.iter().map(|record| record.task_id.to_string()).collect();
    assert_eq!(listed, ids);
    assert_eq!(scripted.count("listTasks"), 3);
    let page = client.tasks().page(10, 225).await.expect("a page");
    assert_eq!((page.records.len(), page.total), (5, Some(230)));
}

#[tokio::test]
async fn the_files_of_a_folder_are_read_page_after_page() {
    let (_service, controls, client) = start().await;
    let folder = client.folder("documents");
    for number in 0..7 {
        let file = File::bytes(format!("{number}.txt"), format!("note {number}"));
        folder.upload(file).await.expect("it is stored");
    }
    let mut query = FileQuery::default();
    query.page_size = Some(3);
    let files: Vec<_> = folder.list(query).try_collect().await.expect("a list");
    assert_eq!((files.len(), controls.seen(operations::LIST_FILES)), (7, 3));
    let query = FileQuery::category(types::MimeCategory::Video);
    let page = folder.page(query, 1).await.expect("a page");
    assert_eq!(page.total, Some(0));
    assert_eq!(client.storage_statistics().await.expect("statistics").total_files, Some(7));
}
