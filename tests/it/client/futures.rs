//! The client can be shared; its futures can be spawned, and are small.

use std::future::IntoFuture;

use inferstore::{Client, File, Inputs};

use super::{built, quick};

fn is_send<T: Send>(value: T) -> T {
    value
}

fn is_send_and_sync<T: Send + Sync + Clone + 'static>() {}

#[test]
fn a_client_is_cheap_to_clone_and_can_be_shared() {
    is_send_and_sync::<Client>();
    assert_eq!(size_of::<Client>(), size_of::<usize>());
}

#[test]
fn an_error_is_small_and_can_cross_threads() {
    is_send(None::<inferstore::Error>);
    assert!(size_of::<inferstore::Error>() <= 128, "{}", size_of::<inferstore::Error>());
}

#[test]
fn all_futures_are_send_and_small() {
    /// Limit on the size of a future; box what exceeds it.
    const LARGEST: usize = 2_048;
    let client = built(quick("http://127.0.0.1:9/api/v1", "key"));
    let (model, task, folder) = (client.model("m"), client.task("t"), client.folder("samples"));
    let sizes = [
        ("balance", size_of_val(&is_send(client.balance()))),
        ("models", size_of_val(&is_send(client.models_page(Default::default())))),
        ("model", size_of_val(&is_send(model.get()))),
        ("run", size_of_val(&is_send(model.run(Inputs::new())))),
        ("start", size_of_val(&is_send(model.run(Inputs::new()).start()))),
        ("check", size_of_val(&is_send(model.run(Inputs::new()).check()))),
        ("prepare", size_of_val(&is_send(model.prepare(Inputs::new())))),
        ("events of a run", size_of_val(&is_send(model.run(Inputs::new()).events()))),
        ("task", size_of_val(&is_send(task.get()))),
        ("cancel", size_of_val(&is_send(task.cancel()))),
        ("cost", size_of_val(&is_send(model.cost()))),
        ("serving", size_of_val(&is_send(model.serving()))),
        ("versioning", size_of_val(&is_send(model.versioning()))),
        ("models, all", size_of_val(&is_send(client.models(Default::default())))),
        ("tasks", size_of_val(&is_send(client.tasks().page(1, 0)))),
        ("tasks, all", size_of_val(&is_send(client.tasks().list()))),
        ("files, all", size_of_val(&is_send(folder.list(Default::default())))),
        ("statistics", size_of_val(&is_send(client.storage_statistics()))),
        ("events of a wait", size_of_val(&is_send(task.wait().events()))),
        (
            "download",
            size_of_val(&is_send(client.download("https://files.example/a").to_file("a").into_future())),
        ),
        ("wait", size_of_val(&is_send(task.wait()))),
        ("wait_all", size_of_val(&is_send(inferstore_batch::wait_all(&client, ["a", "b"])))),
        ("files", size_of_val(&is_send(folder.page(Default::default(), 1)))),
        ("upload", size_of_val(&is_send(folder.upload(File::path("a.png"))))),
        ("delete", size_of_val(&is_send(client.delete_file("https://files.example/a")))),
    ];
    let large: Vec<_> = sizes.into_iter().filter(|(_, size)| *size > LARGEST).collect();
    assert!(large.is_empty(), "{large:?}");
}
