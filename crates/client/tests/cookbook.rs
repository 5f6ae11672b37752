//! What the pages of the cookbook promise.

#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use std::error::Error;
use std::time::Duration;

use inferstore::testing::ScriptedService;
use inferstore::types::TaskStatus;
use inferstore::{File, Inputs, Result, TaskDisposition};
use serde_json::json;
use tokio::time::{sleep, timeout};

fn inputs() -> Inputs {
    Inputs::new().file("input_image", File::bytes("a.png", b"secret content".to_vec()))
}

async fn status(client: &inferstore::Client) -> Result<Option<TaskStatus>> {
    Ok(client.task("task-1").get().await?.status)
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_leaves_its_task_running() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").stays_queued();
    let client = service.client()?;
    let run = client.model("m").run(inputs());
    assert!(timeout(Duration::from_secs(60), run.into_future()).await.is_err());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(status(&client).await?, Some(TaskStatus::InQueue));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_cancels_its_queued_task_when_asked_to() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").stays_queued();
    let client = service.client()?;
    let run = client.model("m").run(inputs()).cancel_on_drop(true);
    assert!(timeout(Duration::from_secs(60), run.into_future()).await.is_err());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(status(&client).await?, Some(TaskStatus::Canceled));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_before_the_create_leaves_no_task() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").succeeds(json!(1));
    service.responds("getModelVersioning", 503, "maintenance");
    let client = service.client()?;
    let mut run = Box::pin(client.model("m").run(inputs()).into_future());
    let not_yet = timeout(Duration::ZERO, &mut run).await;
    assert!(not_yet.is_err());
    drop(run);
    sleep(Duration::from_secs(60)).await;
    assert!(service.created().is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_event_is_lost_when_next_is_dropped() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").succeeds(json!(1)).takes(Duration::from_secs(20));
    let mut events = service.client()?.model("m").run(Inputs::new()).events();
    let mut seen = 0;
    loop {
        match timeout(Duration::from_millis(100), events.next()).await {
            Ok(Some(_)) => seen += 1,
            Ok(None) => break,
            Err(_) => {}
        }
    }
    assert_eq!(seen, 3, "created, computing, success");
    assert_eq!(events.finish().await?.output, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deadline_says_what_became_of_the_task() -> Result<()> {
    let service = ScriptedService::new();
    service.model("m").succeeds(json!(1)).takes(Duration::from_secs(600));
    let client = service.client()?;
    let run = client.model("m").run(inputs()).deadline(Duration::from_secs(60));
    let Err(inferstore::Error::DeadlineReached(reached)) = run.await else { panic!("it takes ten minutes") };
    assert_eq!(reached.disposition, TaskDisposition::StillRunning);
    let Some(task) = reached.task.clone() else { panic!("there is a task") };
    assert_eq!(client.task(task).wait().await?.output, 1);
    Ok(())
}

#[expect(dead_code, reason = "a program")]
#[path = "../examples/batch_with_journal.rs"]
mod batch_with_journal;

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_killed_at_any_moment_pays_each_picture_once()
-> std::result::Result<(), Box<dyn Error>> {
    // The creates are in the first half second; then the tasks run.
    for killed_after in (0..20).map(|step| step * 25).chain((1..20).map(|step| step * 500)) {
        let killed_after = Duration::from_millis(killed_after);
        let folder = tempfile::tempdir()?;
        let (pictures, outputs) = (folder.path().join("pictures"), folder.path().join("outputs"));
        std::fs::create_dir(&pictures)?;
        for number in 0..3 {
            std::fs::write(pictures.join(format!("{number}.png")), "the same picture")?;
        }
        let service = ScriptedService::new();
        let output = service.stores("clear.png", "image/png", b"clear".to_vec());
        service.model("haze-removal").succeeds(json!({ "output_image": output })).costs("0.1".parse()?);
        // The response to the first create is lost, so that the program can be killed while it looks for the task.
        service.loses_response("createTask");
        service.responds("listTasks", 503, "maintenance").responds("listTasks", 503, "maintenance");
        let first =
            timeout(killed_after, batch_with_journal::run(service.client()?, &pictures, &outputs)).await;
        let cost = match first {
            Ok(cost) => cost?,
            Err(_) => batch_with_journal::run(service.client()?, &pictures, &outputs).await?,
        };
        assert_eq!(cost, "0.3".parse()?);
        assert_eq!(service.created().len(), 3, "killed after {killed_after:?}");
        assert_eq!(std::fs::read_dir(&outputs)?.count(), 4, "three pictures and the journal");
    }
    Ok(())
}
