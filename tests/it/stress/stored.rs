//! Tasks in the store of a service, independent of its responses.

use inferstore::Client;
use inferstore_service::Controls;

use crate::client::on_the_service::tasks;

pub(crate) struct Stored {
    pub(crate) id: String,
    pub(crate) image: String,
    pub(crate) status: String,
}

pub(crate) fn image(number: u32) -> String {
    format!("https://files.example/{number}.png")
}

pub(crate) async fn stored(controls: &Controls, auditor: &Client) -> Vec<Stored> {
    controls.clear_faults();
    let records = auditor.tasks().list().try_collect().await.expect("they are listed");
    let ids: Vec<_> = records.into_iter().map(|record| record.task_id).collect();
    assert_eq!(ids.len() as u64, tasks(controls).await, "the history tells all of the store");
    let mut stored = Vec::new();
    for id in ids {
        let task = auditor.task(&id).get().await.expect("a listed task can be read");
        let image = task.input_data.and_then(|data| data["input_image"].as_str().map(str::to_owned));
        stored.push(Stored {
            id: id.to_string(),
            image: image.expect("it was created here"),
            status: task.status.expect("a task has a status").to_string(),
        });
    }
    stored
}
