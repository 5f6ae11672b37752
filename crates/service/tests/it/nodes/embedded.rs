//! Custom models inside the process, for programs that embed the service.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use inferstore_service::model::{Error, Inputs, Limits, Model, Output};
use inferstore_service::{Config, ModelSpec, Service};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::support::{Bench, PUBLISHER, TestResult, echo};

struct Echo;

impl Model for Echo {
    fn kind(&self) -> &'static str {
        "echo"
    }

    fn run(&self, inputs: &Inputs, _: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let said = inputs.text("say")?.to_owned();
        let picture = Output::File { bytes: said.clone().into_bytes(), mime: "image/png", extension: "png" };
        Ok(vec![("said", Output::Text(said)), ("picture", picture)])
    }
}

#[tokio::test]
async fn a_model_of_ones_own_runs_inside_the_process() -> TestResult {
    let service = Service::start_with_models(Config::ephemeral(), vec![Arc::new(Echo)]).await?;
    let bench = Bench::around(service).await?;
    bench.service.publish_model(PUBLISHER, echo("echo")?).await?;
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    let ended = bench.ended(&task).await?;
    assert_eq!(ended["result"]["result"]["said"], "hello");
    assert_eq!(bench.publisher.get("/api-key/balance").await?["earnings"], "0.25");
    Ok(())
}

struct Names;

impl Model for Names {
    fn kind(&self) -> &'static str {
        "names"
    }

    fn run(&self, inputs: &Inputs, _: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let names: Vec<&str> = inputs.iter().map(|(name, _)| name).collect();
        Ok(vec![("said", Output::Text(names.join(" ")))])
    }
}

#[tokio::test]
async fn an_optional_input_that_is_null_is_not_given_to_a_model() -> TestResult {
    let service = Service::start_with_models(Config::ephemeral(), vec![Arc::new(Names)]).await?;
    let bench = Bench::around(service).await?;
    let spec = json!({
        "id": "names", "name": "names", "description": "For a test.", "price": "0", "visibility": "public",
        "input_format": {
            "say": { "type": "string", "required": true, "position": 0 },
            "tone": { "type": "string", "position": 1 }
        },
        "output_format": { "said": { "type": "string", "position": 0 } }
    });
    bench.service.publish_model(PUBLISHER, ModelSpec::from_json(&spec.to_string())?).await?;
    let task = bench.create("names", json!({ "say": "hello", "tone": null })).await?;
    assert_eq!(bench.ended(&task).await?["result"]["result"]["said"], "say");
    Ok(())
}

#[tokio::test]
async fn every_timeout_may_be_as_long_as_a_duration_can_be() -> TestResult {
    let mut config = Config::ephemeral();
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    let limits = &mut config.limits;
    for timeout in [
        &mut config.lease,
        &mut config.lease_grace,
        &mut config.shutdown_timeout,
        &mut config.storage_billing_interval,
        &mut config.orphan_retention,
        &mut config.target_life,
        &mut limits.head_timeout,
        &mut limits.keep_alive,
        &mut limits.body_time,
        &mut limits.upload_idle,
        &mut limits.response_timeout,
        &mut limits.health_timeout,
        &mut limits.run,
    ] {
        *timeout = Duration::MAX;
    }
    let service = Service::start_with_models(config, vec![Arc::new(Echo)]).await?;
    let bench = Bench::around(service).await?;
    bench.service.publish_model(PUBLISHER, echo("echo")?).await?;
    let url = bench.store("a.txt", "text/plain", b"a").await?;
    assert_eq!(bench.read(&url).await?, (200, "a".to_owned()));
    let task = bench.create("echo", json!({ "say": "hello" })).await?;
    assert_eq!(bench.ended(&task).await?["status"], "success");
    let node = bench.register(&["echo"]).await?;
    bench.create("echo", json!({ "say": "hello" })).await?;
    let held = node.lease(20.0).await?.ok_or("the node gets the task")?;
    assert_eq!(node.of_lease(&held, "/heartbeat", &json!({})).await?.0, 200);
    bench.service.shutdown().await;
    Ok(())
}

fn echo_of(outputs: &Value) -> TestResult<ModelSpec> {
    let spec = json!({
        "id": "echo", "name": "echo", "description": "For a test.", "price": "1", "visibility": "public",
        "input_format": { "say": { "type": "string", "required": true, "position": 0 } },
        "output_format": outputs
    });
    Ok(ModelSpec::from_json(&spec.to_string())?)
}

#[tokio::test]
async fn outputs_that_the_model_does_not_declare_fail_the_task_and_are_not_kept() -> TestResult {
    let text = json!({ "type": "string", "position": 0 });
    let file = |mime: &str| json!({ "type": "file", "mime_type": [mime], "position": 1 });
    for (outputs, reason) in [
        (json!({ "said": text }), "picture, which it does not declare"),
        (json!({ "said": file("image/*"), "picture": file("image/*") }), "said must be a file"),
        (json!({ "said": text, "picture": file("image/gif") }), "picture is declared as image/gif"),
        (json!({ "said": text, "picture": text }), "\"picture\" is none"),
        (json!({ "said": text, "picture": file("image/*"), "sound": text }), "its output sound"),
    ] {
        let service = Service::start_with_models(Config::ephemeral(), vec![Arc::new(Echo)]).await?;
        let bench = Bench::around(service).await?;
        bench.service.publish_model(PUBLISHER, echo_of(&outputs)?).await?;
        let ended = bench.ended(&bench.create("echo", json!({ "say": "hello" })).await?).await?;
        assert_eq!(ended["status"], "failed", "{ended}");
        assert!(ended["message"].as_str().is_some_and(|message| message.contains(reason)), "{ended}");
        let blobs = std::fs::read_dir(bench.service.data_folder().join("objects/blobs"))?.count();
        assert_eq!(blobs, 0, "{outputs}");
    }
    Ok(())
}

#[tokio::test]
async fn an_output_that_is_not_what_the_model_declares_fails_the_task_unbilled() -> TestResult {
    let service = Service::start_with_models(Config::ephemeral(), vec![Arc::new(Echo)]).await?;
    let bench = Bench::around(service).await?;
    let outputs = json!({
        "said": { "type": "int", "position": 0, "num_config": { "max": 5 } },
        "picture": { "type": "file", "position": 1 }
    });
    bench.service.publish_model(PUBLISHER, echo_of(&outputs)?).await?;
    for (said, status) in [("5", "success"), ("6", "failed"), ("five", "failed")] {
        let task = bench.create("echo", json!({ "say": said })).await?;
        let ended = bench.ended(&task).await?;
        assert_eq!(ended["status"], status, "{ended}");
    }
    assert_eq!(bench.publisher.get("/api-key/balance").await?["earnings"], "1");
    Ok(())
}

#[tokio::test]
async fn a_task_says_which_side_computed_it() -> TestResult {
    let mut config = Config::ephemeral();
    config.nodes = Some(([127, 0, 0, 1], 0).into());
    let service = Service::start_with_models(config, vec![Arc::new(Echo)]).await?;
    let bench = Bench::around(service).await?;
    bench.service.publish_model(PUBLISHER, echo("echo")?).await?;
    let inside = bench.create("echo", json!({ "say": "hello" })).await?;
    bench.ended(&inside).await?;

    let node = bench.register(&["echo"]).await?;
    let outside = bench.create("echo", json!({ "say": "hello" })).await?;
    let leased = node.lease(20.0).await?.ok_or("the node gets the task")?;
    assert_eq!(leased.task, outside);
    assert_eq!(node.finish(&leased, "hello").await?, 200);
    bench.ended(&outside).await?;
    for task in [inside, outside] {
        assert_eq!(bench.message_of(&task).await?, "ok", "customers do not read who computed a task");
    }
    Ok(())
}

#[derive(Default)]
struct Counting {
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Model for Counting {
    fn kind(&self) -> &'static str {
        "echo"
    }

    fn run(&self, inputs: &Inputs, _: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(30));
        self.running.fetch_sub(1, Ordering::SeqCst);
        Echo.run(inputs, &Limits::default())
    }
}

#[tokio::test]
async fn all_runs_together_keep_within_one_limit_of_memory() -> TestResult {
    for (runs_at_a_time, workers) in [(2, 8), (8, 3)] {
        let mut config = Config::ephemeral();
        config.workers = workers;
        config.limits.memory_of_all_runs = runs_at_a_time as u64 * config.limits.memory;
        let model = Arc::new(Counting::default());
        let service = Service::start_with_models(config, vec![Arc::clone(&model) as Arc<dyn Model>]).await?;
        let bench = Bench::around(service).await?;
        bench.service.publish_model(PUBLISHER, echo("echo")?).await?;
        let mut tasks = Vec::new();
        for _ in 0..16 {
            tasks.push(bench.create("echo", json!({ "say": "hello" })).await?);
        }
        for task in &tasks {
            assert_eq!(bench.ended(task).await?["status"], "success");
        }
        // The model does not state its memory, so each run reserves the maximum memory of a run.
        let most = model.most.load(Ordering::SeqCst);
        assert!(most <= runs_at_a_time.min(workers), "{most} runs at a time");
    }
    Ok(())
}

struct Stuck(Mutex<mpsc::Receiver<()>>);

impl Model for Stuck {
    fn kind(&self) -> &'static str {
        "echo"
    }

    fn run(&self, _: &Inputs, _: &Limits) -> Result<Vec<(&'static str, Output)>, Error> {
        let end = self.0.lock();
        let _ = end.recv_timeout(Duration::from_mins(1));
        Err(Error::TimedOut)
    }
}

#[tokio::test]
async fn a_run_that_ignores_its_deadline_keeps_no_other_task_computing_for_ever() -> TestResult {
    let (end, ends) = mpsc::channel();
    let mut config = Config::ephemeral();
    config.workers = 1;
    config.limits.run = Duration::from_millis(100);
    config.limits.memory_of_all_runs = config.limits.memory;
    config.lease = Duration::from_millis(200);
    config.lease_attempts = 2;
    config.shutdown_timeout = Duration::ZERO;
    let service = Service::start_with_models(config, vec![Arc::new(Stuck(Mutex::new(ends)))]).await?;
    let bench = Bench::around(service).await?;
    bench.service.publish_model(PUBLISHER, echo("echo")?).await?;
    let before = bench.get("/api-key/balance").await?;
    let stuck = bench.create("echo", json!({ "say": "hello" })).await?;
    let next = bench.create("echo", json!({ "say": "hello" })).await?;
    for task in [stuck, next] {
        let ended = tokio::time::timeout(Duration::from_secs(30), bench.ended(&task)).await??;
        assert_eq!(ended["status"], "failed");
    }
    assert_eq!(bench.get("/api-key/balance").await?, before, "nothing of it is held");
    drop(end);
    Ok(())
}
