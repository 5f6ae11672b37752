//! The example: each picture of a folder is paid once, even if the program is killed.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use inferstore_testing::ScriptedService;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;

#[expect(dead_code, reason = "a program")]
#[path = "../../examples/folder.rs"]
mod program;

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn folders(count: usize) -> Result<(TempDir, PathBuf, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let pictures = folder.path().join("pictures");
    let outputs = folder.path().join("outputs");
    std::fs::create_dir(&pictures)?;
    for number in 0..count {
        std::fs::write(pictures.join(format!("{number}.png")), "the same picture")?;
    }
    Ok((folder, pictures, outputs))
}

fn service() -> Result<ScriptedService> {
    let service = ScriptedService::new();
    let output = service.stores("clear.png", "image/png", b"clear".to_vec());
    let _ = service.model("haze-removal").succeeds(json!({ "output_image": output })).costs("0.1".parse()?);
    Ok(service)
}

#[tokio::test(start_paused = true)]
async fn a_folder_whose_run_is_killed_at_any_moment_is_paid_once() -> Result {
    for knows_keys in [true, false] {
        // Kill times: dense in the first half second, when tasks are created, then sparse while they run.
        for killed_after in (0..20).map(|step| step * 25).chain((1..10).map(|step| step * 500)) {
            let killed_after = Duration::from_millis(killed_after);
            let (_folder, pictures, outputs) = folders(3)?;
            let service = service()?;
            let service = if knows_keys { service } else { service.without_idempotency_keys() };
            // The first create loses its response, so that some kills happen while the program looks for the
            // task.
            service.loses_response("createTask");
            service.responds("listTasks", 503, "maintenance").responds("listTasks", 503, "maintenance");
            let first = timeout(killed_after, program::run(&service.client()?, &pictures, &outputs)).await;
            let cost = match first {
                Ok(cost) => cost?,
                Err(_) => program::run(&service.client()?, &pictures, &outputs).await?,
            };
            assert_eq!(cost, "0.3".parse()?);
            assert_eq!(service.created().len(), 3, "killed after {killed_after:?}");
            assert_eq!(std::fs::read_dir(&outputs)?.count(), 4, "three pictures and the journal");
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_hundred_pictures_killed_three_times_are_two_hundred_tasks() -> Result {
    let (_folder, pictures, outputs) = folders(200)?;
    let service = service()?;
    let _ = service.model("haze-removal").takes(Duration::from_millis(50));
    for _ in 0..3 {
        let client = service.client()?;
        let run = timeout(Duration::from_millis(120), program::run(&client, &pictures, &outputs)).await;
        assert!(run.is_err());
        assert!(service.created().len() < 200);
    }
    assert_eq!(program::run(&service.client()?, &pictures, &outputs).await?, "20".parse()?);
    assert_eq!(service.created().len(), 200);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn tasks_are_created_during_uploads_and_unreadable_ones_read_again() -> Result {
    let (_folder, pictures, outputs) = folders(20)?;
    let service = service()?;
    service.responds("getTask", 401, "the key has expired").responds("getTask", 401, "the key has expired");
    assert!(program::run(&service.client()?, &pictures, &outputs).await.is_err());
    let requests = service.requests();
    let first_create = requests.iter().position(|request| *request == "createTask");
    let last_upload = requests.iter().rposition(|request| *request == "createPresignedUpload");
    assert!(first_create < last_upload, "{requests:?}");
    let cost = program::run(&service.client()?, &pictures, &outputs).await?;
    assert_eq!((cost, service.created().len()), ("2.0".parse()?, 20));
    Ok(())
}
