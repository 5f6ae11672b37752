//! Graceful shutdown of the service: running tasks finish, or restart after the next start.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use inferstore_service::model::{Error, Inputs, Limits, Model, Output};
use inferstore_service::{Config, Service};
use inferstore_wire::until;
use serde_json::json;

use super::support::{Bench, PUBLISHER, TestResult, echo};

#[derive(Default)]
struct Slow {
    runs: AtomicUsize,
    may_end: AtomicBool,
}

impl Model for Slow {
    fn kind(&self) -> &'static str {
        "echo"
    }

    fn run(&self, inputs: &Inputs, _: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        while !self.may_end.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = inputs.text("say")?.to_owned();
        let picture = Output::File { bytes: said.clone().into_bytes(), mime: "image/png", extension: "png" };
        Ok(vec![("said", Output::Text(said)), ("picture", picture)])
    }
}

async fn start(folder: &Path, drain: Duration, model: &Arc<Slow>) -> TestResult<Service> {
    let mut config = Config::folder(folder);
    config.workers = 1;
    config.shutdown_timeout = drain;
    Ok(Service::start_with_models(config, vec![Arc::clone(model) as Arc<dyn Model>]).await?)
}

async fn until_it_runs(bench: &Bench, task: &str) {
    let is_computing = || async { bench.task(task).await.is_ok_and(|task| task["status"] == "computing") };
    until("the task computes", is_computing).await;
}

#[tokio::test]
async fn a_task_survives_more_restarts_than_it_has_attempts() -> TestResult {
    let folder = tempfile::tempdir()?;
    let model = Arc::new(Slow::default());
    let mut bench = Bench::around(start(folder.path(), Duration::ZERO, &model).await?).await?;
    bench.service.publish_model(PUBLISHER, echo("echo")?).await?;
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    until_it_runs(&bench, &task).await;
    let lease_length = Config::folder(folder.path()).lease;
    for earlier_runs in 1..=6 {
        bench = bench.restart(start(folder.path(), Duration::ZERO, &model)).await?;
        let begun = Instant::now();
        until("the task runs again", || async { model.runs.load(Ordering::SeqCst) > earlier_runs }).await;
        assert!(begun.elapsed() < lease_length, "the run waited for a lease expiry");
        assert_eq!(bench.task(&task).await?["status"], "computing");
    }
    model.may_end.store(true, Ordering::SeqCst);
    assert_eq!(bench.ended(&task).await?["status"], "success");
    assert_eq!(bench.service.audit().await?.faults, [""; 0]);
    bench.service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_shutdown_waits_for_the_tasks_that_are_running() -> TestResult {
    let folder = tempfile::tempdir()?;
    let model = Arc::new(Slow::default());
    let patient = Duration::from_mins(1);
    let bench = Bench::around(start(folder.path(), patient, &model).await?).await?;
    bench.service.publish_model(PUBLISHER, echo("echo")?).await?;
    let running = bench.create("echo", json!({ "say": "hello" })).await?;
    until_it_runs(&bench, &running).await;
    let queued = bench.create("echo", json!({ "say": "hello" })).await?;
    let ending = Arc::clone(&model);
    let api = bench.service.base_url().replace("http://", "");
    let api = api.split('/').next().ok_or("no address")?.to_owned();
    std::thread::spawn(move || {
        // The listener closes when the shutdown begins.
        while std::net::TcpStream::connect(&api).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        ending.may_end.store(true, Ordering::SeqCst);
    });
    let nothing_runs = async {
        let mut config = Config::folder(folder.path());
        config.workers = 0;
        Ok(Service::start(config).await?)
    };
    let bench = bench.restart(nothing_runs).await?;
    assert_eq!(bench.task(&running).await?["status"], "success");
    assert_eq!(bench.task(&queued).await?["status"], "in_queue");
    Ok(())
}
