//! Models, tasks and files as streams.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::collections::BTreeMap;

use inferstore::types::{MimeCategory, ModelListRequest, ModelSort, UploadFolder};
use inferstore::{Client, FileQuery};

#[tokio::main(flavor = "current_thread")]
async fn main() -> inferstore::Result<()> {
    let client = Client::from_env()?;

    let query = ModelListRequest { sort: Some(ModelSort::Trending), ..Default::default() };
    let mut models = client.models(query);
    while let Some(model) = models.next().await {
        let model = model?;
        println!("{:32} {}", model.id, model.price.unwrap_or_default());
    }

    let mut by_status = BTreeMap::<String, usize>::new();
    let mut tasks = client.tasks().list();
    while let Some(task) = tasks.next().await {
        let status = task?.status.map(|status| status.to_string());
        *by_status.entry(status.unwrap_or_default()).or_default() += 1;
    }
    println!("{by_status:?}");

    // The history is oldest first, so the newest ten are at its end.
    let total = client.tasks().page(1, 0).await?.total.unwrap_or_default();
    for task in client.tasks().page(10, total.saturating_sub(10)).await?.records.iter().rev() {
        println!("{}", task.task_id);
    }

    for folder in UploadFolder::ALL {
        let files = client.folder(folder.as_str()).list(FileQuery::category(MimeCategory::Image));
        let size: i64 = files.try_collect().await?.iter().filter_map(|file| file.size).sum();
        println!("{folder}: {size} bytes of images");
    }
    Ok(())
}
