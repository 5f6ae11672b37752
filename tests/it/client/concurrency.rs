//! Futures own their data: they can be joined, spawned, selected and buffered.

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use inferstore::Error;
use tokio::task::JoinSet;

use super::on_the_service::{MODEL, start, success, tasks};
use super::{Quickly, inputs};

#[tokio::test]
async fn calls_on_handles_that_are_gone_can_be_joined() -> Result<(), Error> {
    let (_service, _controls, client) = start().await;
    let (balance, statistics) = tokio::join!(client.balance(), client.storage_statistics());
    assert!(balance?.balance.is_some() && statistics?.total_files.is_some());
    let models = join_all([MODEL, "haze-removal"].map(|id| client.model(id).get())).await;
    assert!(models.iter().all(Result::is_ok), "{models:?}");
    Ok(())
}

#[tokio::test]
async fn runs_can_be_buffered_and_spawned() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let runs =
        stream::iter(1..=10).map(|angle| client.model(MODEL).run(inputs().set("angle", angle)).quickly());
    let outcomes: Vec<_> = runs.map(IntoFuture::into_future).buffer_unordered(4).collect().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 10, "{outcomes:?}");

    let mut set = JoinSet::new();
    for angle in 11..=15 {
        set.spawn(client.model(MODEL).run(inputs().set("angle", angle)).quickly().into_future());
    }
    let mut starts = JoinSet::new();
    for angle in 16..=20 {
        starts.spawn(client.model(MODEL).run(inputs().set("angle", angle)).start());
    }
    let ran = set.join_all().await;
    let started = starts.join_all().await;
    assert!(ran.iter().all(Result::is_ok) && started.iter().all(Result::is_ok), "{ran:?} {started:?}");
    assert_eq!(tasks(&controls).await, 20);
}

#[tokio::test]
async fn a_wait_can_be_selected_and_uploads_and_downloads_can_be_spawned() {
    let (_service, controls, client) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let task = client.model(MODEL).run(inputs()).start().await.expect("it is created");
    tokio::select! {
        outcome = client.task(task.id()).wait().quickly() => drop(outcome.expect("it ends well")),
        () = std::future::pending() => unreachable!("nothing ends it"),
    }
    let file = inferstore::File::bytes("a.txt", "a note");
    let upload = tokio::spawn(client.folder("documents").upload(file).into_future());
    let url = upload.await.expect("it does not panic").expect("it is stored").download_url;
    let download = tokio::spawn(client.download(url).bytes());
    let bytes = download.await.expect("it does not panic").expect("it is read");
    assert_eq!(bytes, "a note");
}

#[tokio::test]
async fn one_client_can_be_used_from_several_runtimes_one_after_the_other() {
    let (_service, _controls, client) = start().await;
    for _ in 0..2 {
        let client = client.clone();
        let other = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(client.balance()).map(drop)
        });
        let other = tokio::task::spawn_blocking(move || other.join()).await;
        let called = other.expect("it does not panic").expect("it does not panic");
        called.expect("the balance is read");
    }
}
